#include "compiler/plan_writer.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "compiler/emit_weight.h"
#include "compiler/gpu/gpu_plan.h"
#include "compiler/job_queue.h"
#include "compiler/measured_rows.h"
#include "compiler/plan_buffer.h"
#include "compiler/plan_folder.h"
#include "compiler/plan_origin.h"
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
  std::vector<uint64_t> block_hashes;
  std::vector<StorageError> errors;  // one per weight
  std::string weights_sha256;
};

// SHA-256 of the first `bytes` of an open file. `read` is told of each part.
absl::StatusOr<std::string> HashFile(
    const FolderFile& file, uint64_t bytes,
    const std::function<void(uint64_t)>& read) {
  Sha256 sha;
  std::vector<char> buffer(1 << 20);
  for (uint64_t at = 0; at < bytes;) {
    if (PlanWritingInterrupted()) return absl::CancelledError("interrupted");
    const ssize_t n = pread(file.fd(), buffer.data(),
                            std::min<uint64_t>(buffer.size(), bytes - at), at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      return absl::InternalError(
          absl::StrFormat("%s: can't read back at %d", file.name(), at));
    }
    sha.Update(buffer.data(), n);
    at += n;
    read(n);
  }
  return sha.Finish();
}

std::string HashBytes(absl::string_view bytes,
                      const std::function<void(uint64_t)>& read) {
  // In parts, so that an interruption need not wait for gigabytes.
  Sha256 sha;
  constexpr size_t kPart = 16 << 20;
  for (size_t at = 0; at < bytes.size() && !PlanWritingInterrupted();
       at += kPart) {
    const absl::string_view part = bytes.substr(at, kPart);
    sha.Update(part.data(), part.size());
    read(part.size());
  }
  return sha.Finish();
}

absl::Status WriteWeights(const WeightSupply& supply,
                          const std::vector<const Graph*>& graphs, size_t r,
                          RankWork& rank,
                          const std::function<void(uint64_t)>& wrote) {
  WeightsFile file(rank.weights);
  for (size_t i = 0; i < rank.graph->weights().size(); ++i) {
    const Weight& w = *rank.graph->weights()[i];
    const WeightPlace& place = rank.layout.places[i];
    if (place.same_as >= 0 || place.synthetic.has_value()) continue;
    DS_RETURN_IF_ERROR(file.Pad(kBlobAlignment));
    std::vector<float> scales;
    const auto sink = [&](const void* data, uint64_t bytes) {
      return file.Append(data, bytes);
    };
    DS_RETURN_IF_ERROR(supply.Emit(w,
                                   IsQuantized(w.encoding)
                                       ? MeasuredRows(graphs, r, i)
                                       : std::vector<bool>(),
                                   sink, &scales, &rank.errors[i]));
    if (!scales.empty()) {
      DS_RETURN_IF_ERROR(file.Pad(kBlobAlignment));
      DS_RETURN_IF_ERROR(
          file.Append(scales.data(), scales.size() * sizeof(float)));
    }
    wrote(place.bytes + place.scales_bytes);
  }
  DS_RETURN_IF_ERROR(file.Pad(kSegment));
  DS_RETURN_IF_ERROR(file.Finish());
  if (file.size() != rank.layout.bytes) {
    return absl::InternalError(
        absl::StrFormat("%s: %d bytes written, %d planned",
                        rank.weights->name(), file.size(), rank.layout.bytes));
  }
  rank.block_hashes = file.block_hashes();
  return absl::OkStatus();
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
    total += 2 * work[r].layout.bytes;  // written, then hashed
  }
  DS_ASSIGN_OR_RETURN(const std::unique_ptr<PlanFolder> folder,
                      PlanFolder::Create(options.output, options.replace));
  for (size_t r = 0; r < ranks.size(); ++r) {
    DS_ASSIGN_OR_RETURN(work[r].weights,
                        folder->Add(absl::StrFormat("rank_%04d.weights", r),
                                    work[r].layout.bytes));
  }

  // Writing comes first, since the disk is the slowest; each weights file is
  // hashed once it is whole, and the sources when there is nothing to write.
  const Checkpoint* const checkpoint = supply.checkpoint();
  const size_t num_sources =
      checkpoint == nullptr ? 0 : checkpoint->files().size();
  std::vector<std::string> source_hashes(num_sources);
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
  for (size_t r = 0; r < work.size(); ++r) {
    jobs.Add([&, r]() -> absl::Status {
      RankWork& rank = work[r];
      DS_RETURN_IF_ERROR(WriteWeights(supply, ranks, r, rank, worked));
      jobs.Add([&]() -> absl::Status {
        DS_ASSIGN_OR_RETURN(rank.weights_sha256,
                            HashFile(*rank.weights, rank.layout.bytes, worked));
        return absl::OkStatus();
      });
      return absl::OkStatus();
    });
  }
  for (size_t i = 0; i < num_sources; ++i) {
    jobs.Add([&, i]() -> absl::Status {
      source_hashes[i] = HashBytes(checkpoint->file_bytes(i), worked);
      return absl::OkStatus();
    });
  }
  DS_RETURN_IF_ERROR(jobs.Run(options.threads));
  if (PlanWritingInterrupted()) return absl::CancelledError("interrupted");

  json::Value sources =
      checkpoint == nullptr ? contents.sources : json::Value::Array();
  for (size_t i = 0; i < num_sources; ++i) {
    json::Value row = json::Value::Object();
    // The name alone: a plan does not depend on where its source lay.
    row.Set("name", Basename(checkpoint->files()[i].path));
    row.Set("bytes", static_cast<int64_t>(checkpoint->files()[i].size));
    row.Set("sha256", source_hashes[i]);
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
    plan.block_hashes = &work[r].block_hashes;
    DS_RETURN_IF_ERROR(AddSmallFile(*folder,
                                    absl::StrFormat("rank_%04d.plan", r),
                                    BuildPlanBuffer(plan, contents), &files));
    files.push_back({work[r].weights->name(), work[r].layout.bytes,
                     work[r].weights_sha256});
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

  for (const MappedFile& file : contents.source_files) {
    std::string name(Basename(file.path()));
    if (!absl::StartsWith(name, kSourceFilePrefix)) {
      name = absl::StrCat(kSourceFilePrefix, name);
    }
    DS_RETURN_IF_ERROR(AddSmallFile(*folder, name, file.bytes(), &files));
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
