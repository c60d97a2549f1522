#include "tools/plan_export.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "compiler/checkpoint/safetensors_writer.h"
#include "compiler/job_queue.h"
#include "compiler/plan_folder.h"
#include "compiler/plan_lock.h"
#include "schema/base/file.h"
#include "schema/base/status_macros.h"
#include "tools/export_files.h"
#include "tools/export_names.h"
#include "tools/export_tensor.h"
#include "tools/known_plan.h"

namespace deepslice {
namespace {

struct Shard {
  std::string name;
  std::vector<const ExportTensor*> tensors;  // in the file's order
  std::string header;
  FolderFile* file = nullptr;
};

// In the order of `tensors`: each shard ends before it would be too large.
std::vector<Shard> MakeShards(const std::vector<ExportTensor>& tensors,
                              uint64_t max_bytes) {
  std::vector<Shard> shards;
  uint64_t bytes = 0;
  for (const ExportTensor& t : tensors) {
    if (shards.empty() || (bytes > 0 && bytes + t.bytes() > max_bytes)) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().tensors.push_back(&t);
    bytes += t.bytes();
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    Shard& s = shards[i];
    s.name = shards.size() == 1
                 ? "model.safetensors"
                 : absl::StrFormat("model-%05d-of-%05d.safetensors", i + 1,
                                   shards.size());
    // Wide elements first, so that each lies at a multiple of its size.
    std::stable_sort(s.tensors.begin(), s.tensors.end(),
                     [](const ExportTensor* a, const ExportTensor* b) {
                       return DTypeSize(a->dtype()) > DTypeSize(b->dtype());
                     });
    std::vector<WrittenTensor> written;
    for (const ExportTensor* t : s.tensors) {
      written.push_back({t->tensor().name, t->dtype(), t->tensor().shape});
    }
    s.header = SafetensorsHead(written);
  }
  return shards;
}

std::string IndexText(const std::vector<Shard>& shards) {
  int64_t total = 0;
  std::vector<std::pair<std::string, std::string>> places;
  for (const Shard& s : shards) {
    for (const ExportTensor* t : s.tensors) {
      total += static_cast<int64_t>(t->bytes());
      places.emplace_back(t->tensor().name, s.name);
    }
  }
  std::sort(places.begin(), places.end());
  json::Value index = json::Value::Object();
  index.Set("metadata", json::Value::Object()).Set("total_size", total);
  json::Value& map = index.Set("weight_map", json::Value::Object());
  for (const auto& [tensor, file] : places) {
    map.members().emplace_back(tensor, file);
  }
  return json::Write(index, 2) + "\n";
}

absl::Status WriteShard(const Shard& shard,
                        const std::function<void(uint64_t)>& wrote) {
  uint64_t at = shard.header.size();
  DS_RETURN_IF_ERROR(shard.file->WriteAt(0, shard.header.data(), at));
  for (const ExportTensor* t : shard.tensors) {
    DS_RETURN_IF_ERROR(t->Write([&](const void* data, uint64_t bytes) {
      const uint64_t to = at;
      at += bytes;
      wrote(bytes);
      return shard.file->WriteAt(to, data, bytes);
    }));
  }
  return absl::OkStatus();
}

// A plan's names of files that it keeps are as untrusted as the rest of it.
absl::Status CheckFileNames(const std::string& plan,
                            const std::vector<Shard>& shards,
                            const std::vector<KeptFile>& files) {
  std::set<std::string> names;
  for (const Shard& s : shards) names.insert(s.name);
  for (const KeptFile& f : files) {
    const bool here = absl::StrContains(absl::StrCat("/", f.name, "/"), "/./");
    if (IsSafeRelativePath(f.name) && !here && names.insert(f.name).second) {
      continue;
    }
    return absl::DataLossError(absl::StrFormat(
        "%s: keeps a file \"%s\" of its source, which is no name or that of "
        "another file; copy the plan again or compile it anew",
        plan, f.name));
  }
  return absl::OkStatus();
}

std::string FirstFew(const std::vector<std::string>& names) {
  std::string out = names[0];
  for (size_t i = 1; i < names.size() && i < 3; ++i) {
    absl::StrAppend(&out, ", ", names[i]);
  }
  if (names.size() > 3) absl::StrAppend(&out, ", ...");
  return out;
}

void AddNotes(const KnownPlan& known, const std::vector<ExportTensor>& tensors,
              std::vector<std::string>* notes) {
  std::vector<std::string> quantised, partly, ignored, tied;
  for (const ExportTensor& t : tensors) {
    if (t.quantised()) quantised.push_back(t.tensor().name);
    if (t.missing() > 0) partly.push_back(t.tensor().name);
  }
  const json::Value* coverage = known.report.Find("coverage");
  if (coverage != nullptr) {
    for (const json::Value& row : coverage->items()) {
      const json::Value* name = row.Find("tensor");
      const json::Value* use = row.Find("use");
      if (name == nullptr || use == nullptr) continue;
      if (use->as_string() == "unused") ignored.push_back(name->as_string());
      if (use->as_string() == "tied") tied.push_back(name->as_string());
    }
  }
  const auto note = [&](const std::vector<std::string>& names,
                        absl::string_view what) {
    if (names.empty()) return;
    notes->push_back(absl::StrCat(
        what, ": ", names.size(),
        names.size() == 1 ? " tensor, " : " tensors, ", FirstFew(names)));
  };
  note(quantised,
       "int8 is written as float32, the numbers that the plan computes with, "
       "not the source's");
  note(partly, "zeros stand for what no weight of the plan holds of");
  note(ignored,
       "the plan does not have, so not written, what its policy ignores");
  note(tied, "not written, as another tensor is the same");
}

absl::StatusOr<std::vector<ExportTensor>> TensorsOf(
    const KnownPlan& known, const ExportNames& names,
    std::vector<std::string>* notes) {
  std::vector<ExportTensor> out;
  for (const OriginTensor& t : names.tensors) {
    DS_ASSIGN_OR_RETURN(ExportTensor tensor,
                        ExportTensor::Create(known, t, names.parts));
    if (tensor.missing() > 0 && tensor.missing() == t.num_elements()) {
      notes->push_back(absl::StrCat("tensor ", t.name,
                                    " is not written: the plan does not have "
                                    "it"));
      continue;
    }
    out.push_back(std::move(tensor));
  }
  std::sort(out.begin(), out.end(),
            [](const ExportTensor& a, const ExportTensor& b) {
              return a.tensor().name < b.tensor().name;
            });
  return out;
}

}  // namespace

absl::StatusOr<ExportResult> ExportPlan(const ExportOptions& o) {
  DS_RETURN_IF_ERROR(CheckOutputApart(o.output, o.plan));
  if (DirectoryExists(o.output) || FileExists(o.output)) {
    return absl::FailedPreconditionError(
        absl::StrFormat("-o %s: exists; name another folder", o.output));
  }
  DS_ASSIGN_OR_RETURN(const std::unique_ptr<PlanFolder> folder,
                      PlanFolder::Create(o.output, /*replace=*/false));
  DS_ASSIGN_OR_RETURN(const std::unique_ptr<PlanLock> lock,
                      PlanLock::Take(o.output));
  const int threads = o.threads > 0
                          ? o.threads
                          : std::max(1u, std::thread::hardware_concurrency());
  DS_ASSIGN_OR_RETURN(const std::unique_ptr<KnownPlan> known,
                      LoadKnownPlan(o.plan, "export", threads));
  std::vector<std::string> notes;
  DS_ASSIGN_OR_RETURN(const ExportNames names, ChooseNames(*known, &notes));
  DS_ASSIGN_OR_RETURN(const std::vector<ExportTensor> tensors,
                      TensorsOf(*known, names, &notes));
  std::vector<Shard> shards = MakeShards(tensors, o.max_shard_bytes);
  const bool other_types = std::any_of(
      tensors.begin(), tensors.end(),
      [](const ExportTensor& t) { return t.dtype() != t.tensor().dtype; });
  DS_ASSIGN_OR_RETURN(std::vector<KeptFile> files,
                      ExportFiles(*known, names.config, other_types, &notes));
  AddNotes(*known, tensors, &notes);
  if (shards.size() > 1) {
    KeptFile index;
    index.name = "model.safetensors.index.json";
    index.text = IndexText(shards);
    files.push_back(std::move(index));
  }
  DS_RETURN_IF_ERROR(CheckFileNames(o.plan, shards, files));

  ExportResult result;
  result.tensors = static_cast<int64_t>(tensors.size());
  uint64_t total = 0;
  for (Shard& s : shards) {
    uint64_t bytes = s.header.size();
    for (const ExportTensor* t : s.tensors) {
      bytes += t->bytes();
      total += t->bytes();
    }
    result.bytes += bytes;
    DS_ASSIGN_OR_RETURN(s.file, folder->Add(s.name, bytes));
  }
  std::atomic<uint64_t> done{0};
  absl::Mutex progress_mutex;
  const auto wrote = [&](uint64_t bytes) {
    const uint64_t now = done.fetch_add(bytes) + bytes;
    if (!o.progress) return;
    absl::MutexLock lock_progress(&progress_mutex);
    o.progress("written", now, total, "");
  };
  JobQueue jobs;
  for (const Shard& s : shards) {
    jobs.Add([&]() { return WriteShard(s, wrote); });
  }
  DS_RETURN_IF_ERROR(jobs.Run(threads));
  for (const KeptFile& f : files) {
    const absl::string_view bytes = f.bytes();
    DS_ASSIGN_OR_RETURN(FolderFile * file, folder->Add(f.name, bytes.size()));
    DS_RETURN_IF_ERROR(file->WriteAt(0, bytes.data(), bytes.size()));
    result.bytes += bytes.size();
  }
  DS_RETURN_IF_ERROR(folder->Commit());
  if (o.log) {
    for (const std::string& note : notes) o.log(note);
  }
  return result;
}

}  // namespace deepslice
