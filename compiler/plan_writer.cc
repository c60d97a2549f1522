#include "compiler/plan_writer.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <memory>

#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "compiler/emit_weight.h"
#include "compiler/gpu/gpu_plan.h"
#include "compiler/job_queue.h"
#include "compiler/measured_rows.h"
#include "compiler/plan_buffer.h"
#include "compiler/plan_folder.h"
#include "compiler/source_hashes.h"
#include "compiler/weights_file.h"
#include "schema/base/digest.h"
#include "schema/base/file.h"
#include "schema/base/status_macros.h"
#include "schema/encoding.h"
#include "schema/manifest_digest.h"

namespace deepslice {
namespace {

struct WrittenFile {
  std::string name;
  uint64_t bytes = 0;
  std::string sha256;
};

// Everything about one rank while its files are made.
struct RankWork {
  const Graph* graph = nullptr;
  Schedule schedule;
  RankLayout layout;
  FolderFile* weights = nullptr;
  std::unique_ptr<WeightsFile> file;  // that writes it
  size_t next_weight = 0;
  uint64_t reported = 0;             // bytes
  std::vector<StorageError> errors;  // one per weight
};

// Whether the weights file has its bytes.
bool IsStored(const WeightPlace& place) {
  return place.same_as < 0 && !place.synthetic.has_value();
}

// Bytes between reports of progress.
constexpr uint64_t kReported = 4 << 20;

// Writes the next weight of rank r, or what ends the file. -> whether there is
// more. `wrote` is told of bytes, hashed too, in large parts.
absl::StatusOr<bool> WriteNext(const WeightSupply& supply,
                               const std::vector<const Graph*>& graphs,
                               size_t r, RankWork& rank, SourceHashes& sources,
                               const std::function<void(uint64_t)>& wrote) {
  WeightsFile& file = *rank.file;
  const auto report = [&](uint64_t least) {
    if (file.size() - rank.reported < least) return;
    wrote(file.size() - rank.reported);
    rank.reported = file.size();
  };
  const size_t i = rank.next_weight++;
  if (i < rank.graph->weights().size()) {
    if (!IsStored(rank.layout.places[i])) return true;
    const Weight& w = *rank.graph->weights()[i];
    DS_RETURN_IF_ERROR(file.Pad(kBlobAlignment));
    std::vector<float> scales;
    const auto sink = [&](const void* data, uint64_t bytes) -> absl::Status {
      const char* from = static_cast<const char*>(data);
      for (uint64_t at = 0; at < bytes; at += kReported) {
        report(kReported);
        DS_RETURN_IF_ERROR(
            file.Append(from + at, std::min(kReported, bytes - at)));
      }
      return absl::OkStatus();
    };
    DS_RETURN_IF_ERROR(supply.Emit(w,
                                   IsQuantized(w.encoding)
                                       ? MeasuredRows(graphs, r, i)
                                       : std::vector<bool>(),
                                   sink, &scales, &rank.errors[i]));
    sources.Done(w);
    if (!scales.empty()) {
      DS_RETURN_IF_ERROR(file.Pad(kBlobAlignment));
      DS_RETURN_IF_ERROR(
          file.Append(scales.data(), scales.size() * sizeof(float)));
    }
    return true;
  }
  DS_RETURN_IF_ERROR(file.Pad(kSegment));
  DS_RETURN_IF_ERROR(file.Finish());
  report(0);
  if (file.size() != rank.layout.bytes) {
    return absl::InternalError(
        absl::StrFormat("%s: %d bytes written, %d planned",
                        rank.weights->name(), file.size(), rank.layout.bytes));
  }
  return false;
}

// At the ceilings.
int64_t ArenaOf(const Schedule& schedule) {
  return ArenaBytes(schedule.slots, schedule.dims);
}

// What storing weight `i` in fewer bits costs.
json::Value MeasuredError(const std::vector<RankWork>& ranks, size_t i) {
  const Weight& w = *ranks[0].graph->weights()[i];
  StorageError error;
  for (const RankWork& r : ranks) {
    const int same_as = r.layout.places[i].same_as;
    error.Merge(r.errors[same_as < 0 ? i : same_as]);
  }
  const double reference = error.reference_squares.Value();
  json::Value row = json::Value::Object();
  row.Set("weight", w.name);
  row.Set("encoding", EncodingName(w.encoding));
  row.Set("max_abs_error", error.max_abs);
  row.Set("relative_l2_error",
          reference > 0 ? std::sqrt(error.squares.Value() / reference) : 0.0);
  return row;
}

// The row of that weight in another plan's report.
json::Value KnownError(const json::Value& quantised, absl::string_view weight) {
  for (const json::Value& row : quantised.items()) {
    const json::Value* name = row.Find("weight");
    if (name != nullptr && name->is_string() && name->as_string() == weight) {
      return row;
    }
  }
  return json::Value();
}

json::Value ReportJson(const std::vector<RankWork>& ranks,
                       const PlanContents& contents) {
  json::Value report = json::Value::Object();
  report.Set("schema_version", 1);
  report.Set("coverage", contents.coverage);
  if (!contents.policy.is_null()) report.Set("policy", contents.policy);
  if (!contents.decisions.empty()) {
    json::Value& list = report.Set("decisions", json::Value::Array());
    for (const std::string& line : contents.decisions) list.Add(line);
  }
  json::Value quantised = json::Value::Array();
  for (size_t i = 0; i < ranks[0].graph->weights().size(); ++i) {
    const Weight& w = *ranks[0].graph->weights()[i];
    if (!IsQuantized(w.encoding)) continue;
    quantised.Add(contents.quantised.is_array()
                      ? KnownError(contents.quantised, w.name)
                      : MeasuredError(ranks, i));
  }
  report.Set("quantised", std::move(quantised));
  json::Value ledger = json::Value::Array();
  const auto add = [&](size_t rank, absl::string_view gpu, int64_t arena) {
    const int64_t weights =
        static_cast<int64_t>(ranks[rank].layout.memory_bytes);
    const int64_t cache = CacheBytes(*ranks[rank].graph, contents.ceilings);
    json::Value row = json::Value::Object();
    row.Set("rank", static_cast<int64_t>(rank));
    if (!gpu.empty()) row.Set("target", gpu);
    row.Set("weights", weights);
    row.Set("arena", arena);
    row.Set("cache", cache);
    row.Set("total", weights + arena + cache);
    ledger.Add(std::move(row));
  };
  for (size_t r = 0; r < ranks.size(); ++r) {
    if (contents.cpu) add(r, "", ArenaOf(ranks[r].schedule));
    if (contents.gpu == nullptr) continue;
    for (const GpuTargetPlan& t : contents.gpu->targets) {
      add(r, t.target.name, t.ranks[r].ArenaBytes());
    }
  }
  report.Set("memory", std::move(ledger));
  return report;
}

// The id that all ranks of a set share: of what went in, not of where it lay.
std::string PlanSetId(const json::Value& sources, const json::Value& options,
                      const PlanContents& contents) {
  Sha256 sha;
  const auto add = [&](absl::string_view text) {
    const uint64_t size = text.size();
    sha.Update(&size, sizeof(size));
    sha.Update(text.data(), text.size());
  };
  for (const std::string& text :
       {json::Write(sources), json::Write(options), contents.source,
        contents.tokenizer, contents.chat.templates.text}) {
    add(text);
  }
  for (const auto* list :
       {&contents.chat.templates.named, &contents.chat.tokens}) {
    for (const auto& [name, text] : *list) {
      add(name);
      add(text);
    }
  }
  if (contents.encoder.has_value()) {
    flatbuffers::FlatBufferBuilder b;
    b.Finish(fb::CreateEncoderSettings(b, &*contents.encoder));
    add({reinterpret_cast<const char*>(b.GetBufferPointer()), b.GetSize()});
  }
  if (contents.gpu != nullptr) {
    sha.Update(contents.gpu->nvrtc.data(), contents.gpu->nvrtc.size());
  }
  return sha.Finish().substr(0, 32);
}

absl::Status AddSmallFile(PlanFolder& folder, const std::string& name,
                          absl::string_view bytes,
                          std::vector<WrittenFile>* files) {
  DS_ASSIGN_OR_RETURN(FolderFile * file, folder.Add(name, bytes.size()));
  DS_RETURN_IF_ERROR(file->WriteAt(0, bytes.data(), bytes.size()));
  if (files != nullptr) {
    files->push_back({name, bytes.size(), Sha256Hex(bytes)});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<WrittenPlan> WritePlan(const WeightSupply& supply,
                                      const std::vector<const Graph*>& ranks,
                                      const PlanContents& contents,
                                      const WriteOptions& options,
                                      bool unchecked) {
  if (!unchecked) DS_RETURN_IF_ERROR(CheckCollectives(ranks));
  std::vector<RankWork> work(ranks.size());
  uint64_t total = 0;
  for (size_t r = 0; r < ranks.size(); ++r) {
    work[r].graph = ranks[r];
    // Of GPUs alone, it says what their steps mean.
    DS_ASSIGN_OR_RETURN(work[r].schedule,
                        MakeSchedule(*ranks[r], contents.ceilings));
    work[r].layout = LayOutWeights(*ranks[r], supply);
    work[r].errors.resize(ranks[r]->weights().size());
    total += work[r].layout.bytes;
  }
  DS_ASSIGN_OR_RETURN(const std::unique_ptr<PlanFolder> folder,
                      PlanFolder::Create(options.output, options.replace));
  for (size_t r = 0; r < ranks.size(); ++r) {
    DS_ASSIGN_OR_RETURN(work[r].weights,
                        folder->Add(absl::StrFormat("rank_%04d.weights", r),
                                    work[r].layout.bytes));
    work[r].file = std::make_unique<WeightsFile>(work[r].weights);
  }

  const Checkpoint* const checkpoint = supply.checkpoint();
  const size_t num_sources =
      checkpoint == nullptr ? 0 : checkpoint->files().size();
  std::atomic<uint64_t> done{0};
  absl::Mutex progress_mutex;
  for (size_t i = 0; i < num_sources; ++i) total += checkpoint->files()[i].size;
  const auto worked = [&](uint64_t bytes) {
    const uint64_t now = done.fetch_add(bytes) + bytes;
    if (!options.progress) return;
    absl::MutexLock lock(&progress_mutex);
    options.progress("packed and hashed", now, total, "");
  };
  JobQueue jobs;
  SourceHashes source_hashes(checkpoint, &jobs, worked);
  // A weight of each rank in turn, not rank by rank: what they read of a tensor
  // they read together.
  std::function<absl::Status(size_t)> write = [&](size_t r) -> absl::Status {
    DS_ASSIGN_OR_RETURN(
        const bool more,
        WriteNext(supply, ranks, r, work[r], source_hashes, worked));
    if (more) jobs.Add([&write, r] { return write(r); });
    return absl::OkStatus();
  };
  for (size_t r = 0; r < work.size(); ++r) {
    for (size_t i = 0; i < work[r].layout.places.size(); ++i) {
      if (IsStored(work[r].layout.places[i])) {
        source_hashes.Expect(*ranks[r]->weights()[i]);
      }
    }
    jobs.Add([&write, r] { return write(r); });
  }
  source_hashes.Start();
  DS_RETURN_IF_ERROR(jobs.Run(options.threads));
  if (PlanWritingInterrupted()) return absl::CancelledError("interrupted");

  json::Value sources =
      checkpoint == nullptr ? contents.sources : json::Value::Array();
  for (size_t i = 0; i < num_sources; ++i) {
    json::Value row = json::Value::Object();
    // The name alone: a plan does not depend on where its source lay.
    row.Set("name", Basename(checkpoint->files()[i].path));
    row.Set("bytes", static_cast<int64_t>(checkpoint->files()[i].size));
    row.Set("sha256", source_hashes.sha256(i));
    sources.Add(std::move(row));
  }
  WrittenPlan written;
  written.plan_set_id = PlanSetId(sources, contents.options, contents);

  std::vector<WrittenFile> files;
  for (size_t r = 0; r < ranks.size(); ++r) {
    RankPlan plan;
    plan.rank = static_cast<int>(r);
    plan.world_size = static_cast<int>(ranks.size());
    plan.plan_set_id = written.plan_set_id;
    plan.graph = ranks[r];
    plan.schedule = &work[r].schedule;
    plan.layout = &work[r].layout;
    plan.block_hashes = &work[r].file->block_hashes();
    DS_RETURN_IF_ERROR(AddSmallFile(*folder,
                                    absl::StrFormat("rank_%04d.plan", r),
                                    BuildPlanBuffer(plan, contents), &files));
    files.push_back({work[r].weights->name(), work[r].layout.bytes,
                     work[r].file->sha256()});
    written.arena.push_back(
        contents.cpu ? ArenaOf(work[r].schedule)
                     : contents.gpu->targets[0].ranks[r].ArenaBytes());
  }
  if (contents.gpu != nullptr) {
    DS_RETURN_IF_ERROR(
        AddSmallFile(*folder, "kernels.bin", contents.gpu->kernels, &files));
  }
  DS_RETURN_IF_ERROR(
      AddSmallFile(*folder, "report.json",
                   json::Write(ReportJson(work, contents), 1) + "\n", &files));

  for (const KeptFile& file : contents.source_files) {
    DS_RETURN_IF_ERROR(AddSmallFile(*folder, file.name, file.bytes(), &files));
  }

  json::Value manifest = json::Value::Object();
  manifest.Set("deepslice_plan", static_cast<int64_t>(kPlanFormatVersion));
  manifest.Set("plan_set_id", written.plan_set_id);
  manifest.Set("world_size", static_cast<int64_t>(ranks.size()));
  json::Value list = json::Value::Array();
  for (const WrittenFile& f : files) {
    json::Value row = json::Value::Object();
    row.Set("name", f.name);
    row.Set("bytes", static_cast<int64_t>(f.bytes));
    row.Set("sha256", f.sha256);
    list.Add(std::move(row));
    written.bytes += f.bytes;
  }
  manifest.Set("files", std::move(list));
  json::Value provenance = json::Value::Object();
  provenance.Set("compiler", DEEPSLICE_VERSION);
  provenance.Set("sources", std::move(sources));
  provenance.Set("options", contents.options);
  json::Value passes = json::Value::Array();
  for (const std::string& name : contents.passes) passes.Add(name);
  provenance.Set("passes", std::move(passes));
  if (contents.gpu != nullptr) provenance.Set("nvrtc", contents.gpu->nvrtc);
  manifest.Set("provenance", std::move(provenance));
  manifest.Set(kManifestDigestKey, ManifestDigestPlaceholder());
  std::string manifest_text = json::Write(manifest, 1) + "\n";
  SealManifest(&manifest_text);
  // Last: a folder with a manifest is whole.
  DS_RETURN_IF_ERROR(
      AddSmallFile(*folder, "manifest.json", manifest_text, nullptr));
  DS_RETURN_IF_ERROR(folder->Commit());
  return written;
}

}  // namespace deepslice
