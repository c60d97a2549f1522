// Compiles every kernel that the supported models need, without a GPU: none may
// fail, use local memory beyond what is listed, or differ from run to run.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/dtype_option.h"
#include "compiler/gpu/lower.h"
#include "compiler/import.h"
#include "compiler/jit/jit.h"
#include "compiler/jit/needs_nvrtc.h"
#include "compiler/model.h"
#include "compiler/pipeline.h"
#include "compiler/random_weights.h"
#include "compiler/target.h"
#include "compiler/test_checkpoint.h"
#include "gtest/gtest.h"
#include "schema/base/file.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

// Bytes of stack and spills that kernels may use, by what their labels begin
// with. A kernel that spills is several times slower than its shape allows.
struct Allowance {
  const char* label;
  int bytes;
};
constexpr Allowance kAllowances[] = {
    {"sample", 20},          // on 8.0, of 1024 threads
    {"attention_decode 4/2x32", 8},  // one word, in small models alone
    {"attention_decode 2/1x32", 8},
    {"encoder_attention", 8},  // one word, of fp32 heads of 16 and of 80
    {"attention_tile", 64},  // at head_dim 128, which takes all 255 registers
    // 128 registers, so that two of its blocks fit an SM: one word, at the end.
    {"linear_mma 4096x6144 t32 rms", 8},
};

// Kernels of one target, each once; how many were asked for.
struct Wanted {
  GpuTarget target;
  std::vector<KernelSpec> specs;
  std::map<std::pair<std::string, std::string>, int> seen;
  int asked = 0;
};

class Catalogue : public NeedsNvrtc {
 protected:
  // The kernels of all ranks for `targets`.
  void Add(const Checkpoint& checkpoint, const std::string& dtype, int tp,
           int64_t max_batch, const std::vector<std::string>& targets) {
    DS_ASSERT_OK_AND_ASSIGN(const ModelDescription model,
                            DescribeModel(checkpoint));
    PipelineOptions options;
    options.tp = tp;
    DS_ASSERT_OK_AND_ASSIGN(options.storage, ChooseStorage(dtype, model.dtype));
    DS_ASSERT_OK_AND_ASSIGN(Graph imported, ImportGraph(model));
    DS_ASSERT_OK_AND_ASSIGN(const CompiledGraphs graphs,
                            RunPipeline(std::move(imported), options));
    StepCeilings ceilings;
    ceilings.max_seq_len = std::min<int64_t>(model.max_positions, 4096);
    ceilings.max_batch = max_batch;
    ceilings.max_step_tokens = 2048;
    if (!model.towers.empty() && model.towers[0].image_size > 0) {
      ceilings.image_tokens = model.towers[0].max_positions;
      ceilings.max_images = max_batch;
    }
    if (!model.towers.empty() && model.head == TaskHead::kCausalLm) {
      ceilings.max_source_tokens = ceilings.max_step_tokens;
    }
    for (const std::string& name : targets) {
      DS_ASSERT_OK_AND_ASSIGN(const CompileTarget target, ParseTarget(name));
      Wanted& wanted = wanted_[name];
      wanted.target = target.gpu;
      for (int r = 0; r < tp; ++r) {
        DS_ASSERT_OK_AND_ASSIGN(
            const GpuPrograms programs,
            LowerForGpu(graphs.ranks[r], ceilings, {r, tp}, target.gpu));
        wanted.asked += programs.kernels.size();
        for (const KernelSpec& k : programs.kernels) {
          if (wanted.seen.emplace(std::make_pair(k.source, k.entry), 0)
                  .second) {
            wanted.specs.push_back(k);
          }
        }
      }
    }
  }

  // In every dtype, fp32 and bf16 at tp 2 too; with `few`, these at tp 1 alone.
  void AddFolder(const std::string& path, const std::string& name, bool few) {
    DS_ASSERT_OK_AND_ASSIGN(const auto checkpoint,
                            OpenCheckpoint(JoinPath(path, name)));
    for (const std::string dtype : {"fp32", "bf16", "fp16"}) {
      for (const int tp : {1, 2}) {
        if (few && (tp == 2 || dtype == "fp16")) continue;
        if (tp == 2 && dtype == "fp16") continue;
        SCOPED_TRACE(absl::StrCat(name, " ", dtype, " tp ", tp));
        Add(*checkpoint, dtype, tp, /*max_batch=*/8, {"sm_90a"});
        if (HasFatalFailure()) return;
      }
    }
  }

  void AddConfig(const std::string& name, int tp,
                 const std::vector<std::string>& targets) {
    SCOPED_TRACE(name);
    DS_ASSERT_OK_AND_ASSIGN(
        const auto checkpoint,
        OpenRandomWeights(
            SourcePath(absl::StrCat("tests/kernels/configs/", name)), 1));
    Add(*checkpoint, "bf16", tp, /*max_batch=*/32, targets);
  }

  // Compiles what was added, and prints a line for each target.
  void Compile();

  std::map<std::string, Wanted> wanted_;
};

// The first number before `what` in the assembler's log; -1 when absent.
int NumberBefore(absl::string_view log, absl::string_view what) {
  const size_t at = log.find(what);
  if (at == absl::string_view::npos) return -1;
  size_t begin = at;
  while (begin > 0 && log[begin - 1] >= '0' && log[begin - 1] <= '9') --begin;
  int n = -1;
  return absl::SimpleAtoi(log.substr(begin, at - begin), &n) ? n : -1;
}

int AllowedBytes(const std::string& label) {
  int bytes = 0;
  for (const Allowance& a : kAllowances) {
    if (absl::StartsWith(label, a.label)) bytes = std::max(bytes, a.bytes);
  }
  return bytes;
}

void Catalogue::Compile() {
  JitOptions options;
  options.threads = std::max(1u, std::thread::hardware_concurrency());
  options.verbose = true;
  DS_ASSERT_OK_AND_ASSIGN(const auto compiler, KernelCompiler::Open(options));
  DS_ASSERT_OK_AND_ASSIGN(
      const auto again, KernelCompiler::Open({.threads = 1, .verbose = true}));
  for (const auto& [name, wanted] : wanted_) {
    const auto begin = std::chrono::steady_clock::now();
    DS_ASSERT_OK_AND_ASSIGN(const std::vector<CompiledKernel> made,
                            compiler->CompileAll(wanted.specs, wanted.target));
    uint64_t bytes = 0;
    int registers = 0;
    for (size_t i = 0; i < made.size(); ++i) {
      const std::string& label = wanted.specs[i].label;
      bytes += made[i].image.size();
      if (wanted.target.ptx) continue;
      registers = std::max(registers, NumberBefore(made[i].log, " registers"));
      const int stack = NumberBefore(made[i].log, " bytes stack frame");
      const int spills = NumberBefore(made[i].log, " bytes spill stores");
      EXPECT_GE(stack, 0) << label << ": " << made[i].log;
      EXPECT_LE(std::max(stack, spills), AllowedBytes(label))
          << name << ": " << label << " (" << wanted.specs[i].entry
          << "): " << stack << " bytes of stack, " << spills << " spilt";
    }
    // A sample once more, alone.
    std::vector<KernelSpec> sample;
    std::vector<size_t> sampled;
    for (size_t i = 0; i < made.size(); i += 41) {
      sample.push_back(wanted.specs[i]);
      sampled.push_back(i);
    }
    DS_ASSERT_OK_AND_ASSIGN(const std::vector<CompiledKernel> second,
                            again->CompileAll(sample, wanted.target));
    for (size_t i = 0; i < sampled.size(); ++i) {
      EXPECT_TRUE(second[i].image == made[sampled[i]].image)
          << name << ": " << sample[i].label << " differs from run to run";
    }
    std::printf(
        "catalogue: %s: %zu kernels of %d asked for, %.1f MB, at most %d "
        "registers, %zu compiled twice, %.0f s\n",
        name.c_str(), made.size(), wanted.asked, bytes / 1e6, registers,
        sampled.size(),
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
            .count());
    std::fflush(stdout);
  }
}

// The models that the conformance list names, where they lie beside the
// checkout, and the golden cases.
TEST_F(Catalogue, OfSmallModels) {
  const std::string golden = SourcePath("tests/golden_cases/models");
  DS_ASSERT_OK_AND_ASSIGN(const auto names, ListDirectory(golden));
  ASSERT_FALSE(names.empty());
  for (const std::string& name : names) {
    AddFolder(golden, name, /*few=*/true);
    if (HasFatalFailure()) return;
  }
  const std::string models = SourcePath("../shared/conformance/models");
  std::ifstream list(SourcePath("tests/conformance_cases.txt"));
  std::set<std::string> beside;
  for (std::string line; std::getline(list, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::string first = line.substr(0, line.find(' '));
    const std::vector<std::string> listed = absl::StrSplit(first, ',');
    for (const std::string& name : listed) {
      if (DirectoryExists(JoinPath(models, name))) beside.insert(name);
    }
  }
  for (const std::string& name : beside) {
    AddFolder(models, name, /*few=*/false);
    if (HasFatalFailure()) return;
  }
  std::printf("catalogue: %zu golden cases, %zu models beside the checkout\n",
              names.size(), beside.size());
  Compile();
}

// What only encoders beside a decoder have, on every generation of cards.
TEST_F(Catalogue, OfT5) {
  for (const std::string name : {"t5", "t5-gated"}) {
    SCOPED_TRACE(name);
    DS_ASSERT_OK_AND_ASSIGN(
        const auto checkpoint,
        OpenCheckpoint(SourcePath("tests/golden_cases/models/" + name)));
    for (const std::string dtype : {"fp32", "bf16"}) {
      Add(*checkpoint, dtype, 1, /*max_batch=*/2,
          {"sm_80", "sm_90a", "sm_100"});
    }
    if (HasFatalFailure()) return;
  }
  Compile();
}

TEST_F(Catalogue, OfLargeShapes) {
  const std::vector<std::string> cards = {"sm_80", "sm_90a", "sm_100"};
  AddConfig("llama-3.2-1b.json", 1,
            {"sm_80", "sm_90a", "sm_100", "compute_80"});
  AddConfig("llama-3.1-8b.json", 1, cards);
  AddConfig("llama-70b.json", 8, cards);
  AddConfig("mixtral-8x7b-dense.json", 1, cards);
  if (HasFatalFailure()) return;
  Compile();
}

}  // namespace
}  // namespace deepslice
