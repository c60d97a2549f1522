#include "compiler/pipeline.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/fuse_epilogues.h"
#include "passes/fuse_gate_up.h"
#include "passes/fuse_qkv.h"
#include "passes/tensor_slice.h"
#include "schema/base/file.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

struct Stage {
  std::string phase;
  std::unique_ptr<Pass> pass;
};

template <typename P, typename... Args>
void Add(std::vector<Stage>& stages, absl::string_view phase, Args&&... args) {
  stages.push_back(
      {std::string(phase), std::make_unique<P>(std::forward<Args>(args)...)});
}

// What every rank shares.
std::vector<Stage> SharedStages(const PipelineOptions& o) {
  std::vector<Stage> s;
  Add<FuseQkv>(s, "fuse");     // before slicing, which cuts each piece inside
  Add<FuseGateUp>(s, "fuse");  // likewise
  // On the unsharded tensor, so that values are the same at every tp.
  Add<QuantizeWeights>(s, "quantize", o.storage);
  return s;
}

std::vector<Stage> RankStages(const PipelineOptions& o, int rank) {
  std::vector<Stage> s;
  Add<TensorSlice>(s, "slice", o.tp, rank);  // needs roles
  // After slicing: a bias in front of an all-reduce would be added per rank.
  Add<FuseEpilogues>(s, "fuse-epilogues");
  return s;
}

// A dump names where it comes from in its first line.
constexpr absl::string_view kHeader = "# dscompile: after ";

std::string HeaderLine(absl::string_view pass, int rank) {
  return absl::StrCat(kHeader, pass,
                      rank < 0 ? "" : absl::StrCat(", rank ", rank), "\n");
}

struct Replacement {
  std::string pass;  // "import" or a pass name
  int rank;          // -1: all
  std::string path;
  std::string text;
  bool used = false;
};

absl::StatusOr<Replacement> ReadReplacement(const std::string& path) {
  Replacement r;
  r.path = path;
  r.rank = -1;
  DS_ASSIGN_OR_RETURN(r.text, ReadFile(path, limits::kJsonFileBytes));
  absl::string_view line =
      absl::string_view(r.text).substr(0, r.text.find('\n'));
  if (!absl::ConsumePrefix(&line, kHeader)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s:1:1: expected \"%sPASS\", as --dump-ir writes it, got \"%s\"", path,
        kHeader, line.substr(0, 40)));
  }
  const std::vector<absl::string_view> parts = absl::StrSplit(line, ", rank ");
  r.pass = std::string(parts[0]);
  if (parts.size() > 1 && !absl::SimpleAtoi(parts[1], &r.rank)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s:1: bad rank \"%s\"", path, parts[1]));
  }
  return r;
}

class Runner {
 public:
  explicit Runner(const PipelineOptions& options) : o_(options) {}

  absl::StatusOr<CompiledGraphs> Run(Graph imported) {
    for (const std::string& path : o_.start_from) {
      DS_ASSIGN_OR_RETURN(Replacement r, ReadReplacement(path));
      replacements_.push_back(std::move(r));
    }
    if (!o_.dump_dir.empty()) {
      DS_RETURN_IF_ERROR(MakeFolder(o_.dump_dir));
      if (o_.tp > 1) {
        for (int r = 0; r < o_.tp; ++r) {
          DS_RETURN_IF_ERROR(MakeFolder(RankFolder(r)));
        }
      }
    }
    std::vector<Stage> shared = SharedStages(o_);
    total_ = shared.size() + RankStages(o_, 0).size();
    DS_RETURN_IF_ERROR(CheckStopAfter());

    CompiledGraphs out;
    out.imported = std::move(imported);
    DS_RETURN_IF_ERROR(Annotate(VerifyGraph(out.imported), "import"));
    DS_RETURN_IF_ERROR(Replace("import", -1, &out.imported));
    DS_RETURN_IF_ERROR(Dump(out.imported, 0, "import", "", -1));
    Graph graph = out.imported.Clone();
    bool stop = o_.stop_after == "import";
    int place = 0;
    for (size_t i = 0; i < shared.size() && !stop; ++i) {
      DS_RETURN_IF_ERROR(RunStage(shared[i], ++place, -1, &graph));
      stop = StopsAfter(shared, i);
    }
    out.unsliced = graph.Clone();
    if (stop) {
      out.stopped = true;
      return out;
    }
    DS_RETURN_IF_ERROR(RunRanks(&out));
    for (const Replacement& r : replacements_) {
      if (!r.used) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "%s:1: names pass \"%s\"%s, which this compilation does not run",
            r.path, r.pass,
            r.rank < 0 ? "" : absl::StrCat(" of rank ", r.rank)));
      }
    }
    return out;
  }

  // From out->unsliced on.
  absl::Status RunRanks(CompiledGraphs* out) {
    const int place = static_cast<int>(SharedStages(o_).size());
    total_ = place + static_cast<int>(RankStages(o_, 0).size());
    out->shared_passes = changed_;
    in_ranks_ = true;
    for (int rank = 0; rank < o_.tp; ++rank) {
      Graph part = out->unsliced.Clone();
      std::vector<Stage> stages = RankStages(o_, rank);
      int at = place;
      for (size_t i = 0; i < stages.size(); ++i) {
        DS_RETURN_IF_ERROR(RunStage(stages[i], ++at, rank, &part));
        if (StopsAfter(stages, i)) {
          out->stopped = true;
          break;
        }
      }
      out->ranks.push_back(std::move(part));
    }
    out->passes = changed_;
    out->ranks_edited = rank_replaced_;
    return absl::OkStatus();
  }
  void SetChanged(const std::vector<std::string>& passes) { changed_ = passes; }

 private:
  std::string RankFolder(int rank) const {
    return JoinPath(o_.dump_dir, absl::StrCat("rank", rank));
  }

  static absl::Status MakeFolder(const std::string& path) {
    if (mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) {
      return absl::InternalError(
          absl::StrCat(path, ": ", std::strerror(errno)));
    }
    return absl::OkStatus();
  }

  absl::Status CheckStopAfter() const {
    const std::vector<std::string> names = StopAfterNames();
    if (o_.stop_after.empty() ||
        std::find(names.begin(), names.end(), o_.stop_after) != names.end()) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrFormat("--stop-after %s: allowed are %s", o_.stop_after,
                        absl::StrJoin(names, ", ")));
  }

  bool StopsAfter(const std::vector<Stage>& stages, size_t i) const {
    if (o_.stop_after.empty()) return false;
    if (stages[i].pass->name() == o_.stop_after) return true;
    return stages[i].phase == o_.stop_after &&
           (i + 1 == stages.size() || stages[i + 1].phase != o_.stop_after);
  }

  absl::Status RunStage(Stage& stage, int place, int rank, Graph* graph) {
    const std::string before = GraphDigest(*graph);
    const absl::Time start = absl::Now();
    const std::string where =
        absl::StrFormat("pass %s (%d of %d%s)", stage.pass->name(), place,
                        total_, rank < 0 ? "" : absl::StrCat(", rank ", rank));
    DS_RETURN_IF_ERROR(Annotate(stage.pass->Run(*graph), where));
    if (o_.time_passes && o_.log) {
      o_.log(absl::StrFormat("%8.3f ms  %s",
                             absl::ToDoubleMilliseconds(absl::Now() - start),
                             where));
    }
    DS_RETURN_IF_ERROR(Annotate(VerifyGraph(*graph), "after ", where));
    DS_RETURN_IF_ERROR(Replace(stage.pass->name(), rank, graph));
    if (GraphDigest(*graph) == before) return absl::OkStatus();
    const std::string name(stage.pass->name());
    if (std::find(changed_.begin(), changed_.end(), name) == changed_.end()) {
      changed_.push_back(name);
    }
    return Dump(*graph, place, stage.phase, stage.pass->name(), rank);
  }

  absl::Status Replace(absl::string_view pass, int rank, Graph* graph) {
    for (Replacement& r : replacements_) {
      if (r.pass != pass || (r.rank >= 0 && r.rank != rank)) continue;
      DS_ASSIGN_OR_RETURN(*graph, ParseGraph(r.text, r.path));
      DS_RETURN_IF_ERROR(Annotate(VerifyGraph(*graph), r.path));
      r.used = true;
      if (in_ranks_) rank_replaced_ = true;
    }
    return absl::OkStatus();
  }

  absl::Status Dump(const Graph& graph, int place, absl::string_view phase,
                    absl::string_view pass, int rank) {
    if (o_.dump_dir.empty()) return absl::OkStatus();
    const std::string name =
        pass.empty() || pass == phase
            ? absl::StrFormat("%02d.%s.ir", place, phase)
            : absl::StrFormat("%02d.%s.%s.ir", place, phase, pass);
    if (!absl::StrContains(name, o_.dump_filter)) return absl::OkStatus();
    const bool own_folder = rank >= 0 && o_.tp > 1;
    const std::string text = PrintGraph(graph);
    // A dump that does not read back would mislead whoever edits it.
    DS_ASSIGN_OR_RETURN(const Graph again, ParseGraph(text, name));
    if (GraphDigest(again) != GraphDigest(graph)) {
      return absl::InternalError(
          absl::StrFormat("%s does not parse back to the same graph", name));
    }
    return WriteFile(
        JoinPath(own_folder ? RankFolder(rank) : o_.dump_dir, name),
        HeaderLine(pass.empty() ? phase : pass, own_folder ? rank : -1) + text);
  }

  const PipelineOptions& o_;
  std::vector<Replacement> replacements_;
  std::vector<std::string> changed_;  // CompiledGraphs::passes
  int total_ = 0;
  bool in_ranks_ = false, rank_replaced_ = false;
};

}  // namespace

std::vector<std::string> StopAfterNames() {
  std::vector<std::string> names = {"import"};
  const auto add = [&](absl::string_view name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      names.emplace_back(name);
    }
  };
  const PipelineOptions any;
  const std::vector<Stage> shared = SharedStages(any);
  const std::vector<Stage> ranked = RankStages(any, 0);
  for (const std::vector<Stage>* stages : {&shared, &ranked}) {
    for (const Stage& s : *stages) {
      add(s.phase);
      add(s.pass->name());
    }
  }
  return names;
}

absl::StatusOr<CompiledGraphs> RunPipeline(Graph imported,
                                           const PipelineOptions& options) {
  return Runner(options).Run(std::move(imported));
}

absl::StatusOr<CompiledGraphs> RunRankPasses(
    Graph unsliced, int tp, const std::vector<std::string>& shared_passes) {
  PipelineOptions options;
  options.tp = tp;
  Runner runner(options);
  runner.SetChanged(shared_passes);
  CompiledGraphs out;
  out.unsliced = std::move(unsliced);
  DS_RETURN_IF_ERROR(runner.RunRanks(&out));
  return out;
}

}  // namespace deepslice
