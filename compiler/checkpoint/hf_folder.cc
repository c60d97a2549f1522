#include "compiler/checkpoint/hf_folder.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/checkpoint/loaded_checkpoint.h"
#include "compiler/checkpoint/shard_index.h"
#include "compiler/checkpoint/shard_set.h"
#include "compiler/checkpoint/side_files.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/file.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// The files of one kind in a folder, by the names that transformers gives.
struct Family {
  WeightFiles kind;
  absl::string_view single, index;  // names
  std::vector<std::string> files = {};
  bool has_single = false, has_index = false;

  bool is_there(const OpenOptions& options) const {
    return has_single || has_index || (options.ignore_index && !files.empty());
  }
};

struct Contents {
  Family safetensors{WeightFiles::kSafetensors, "model.safetensors",
                     "model.safetensors.index.json"};
  Family torch{WeightFiles::kTorch, "pytorch_model.bin",
               "pytorch_model.bin.index.json"};
  std::vector<std::string> gguf;
};

void Note(const std::string& name, Family* family) {
  if (name == family->index) family->has_index = true;
  if (!IsWeightFile(name, family->kind)) return;
  // training_args.bin and the like are no weights.
  if (family->kind == WeightFiles::kTorch &&
      !absl::StrContains(name, "model") &&
      !absl::StartsWith(name, "consolidated")) {
    return;
  }
  family->files.push_back(name);
  if (name == family->single) family->has_single = true;
}

absl::StatusOr<Contents> Look(const std::string& folder) {
  DS_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListDirectory(folder));
  Contents out;
  for (const std::string& name : names) {
    Note(name, &out.safetensors);
    Note(name, &out.torch);
    if (absl::EndsWith(name, ".gguf")) out.gguf.push_back(name);
  }
  return out;
}

absl::Status NoWeights(const std::string& folder, const Contents& contents) {
  for (const Family* family : {&contents.safetensors, &contents.torch}) {
    if (family->files.empty()) continue;
    return absl::NotFoundError(absl::StrCat(
        folder, ": neither ", family->single, " nor ", family->index,
        " is there, but ", ShortList(family->files),
        "; name the file that is the model, or read all of them with "
        "--ignore-index"));
  }
  if (!contents.gguf.empty()) {
    return absl::NotFoundError(
        absl::StrCat(folder, ": no ", contents.safetensors.single, ", but ",
                     ShortList(contents.gguf), "; give that file's own path"));
  }
  return absl::NotFoundError(absl::StrCat(
      folder, ": no weights; a folder needs ", contents.safetensors.single,
      " or ", contents.safetensors.index));
}

std::string Ignored(const std::vector<std::string>& names) {
  return absl::StrCat(ShortList(names),
                      names.size() == 1 ? " is ignored: " : " are ignored: ");
}

// One note for the files of the family that were not read.
void NoteStrays(const std::string& folder, const Family& family,
                CheckpointParts* parts) {
  std::vector<std::string> strays;
  for (const std::string& name : family.files) {
    const std::string path = JoinPath(folder, name);
    if (std::none_of(parts->sources.begin(), parts->sources.end(),
                     [&](const SourceBytes& s) { return s.path == path; })) {
      strays.push_back(name);
    }
  }
  if (strays.empty()) return;
  parts->notes.push_back(absl::StrCat(folder, ": ", Ignored(strays),
                                      strays.size() == 1 ? "it is" : "they are",
                                      " no part of the model"));
}

// The files that --ignore-index reads.
std::vector<std::string> AllOf(const Family& family) {
  if (family.kind == WeightFiles::kSafetensors) return family.files;
  // Not adapters, optimizers and what else lies beside PyTorch's weights.
  std::vector<std::string> out;
  for (const std::string& name : family.files) {
    if (absl::StartsWith(name, "pytorch_model")) out.push_back(name);
  }
  return out.empty() ? family.files : out;
}

absl::Status ReadWeights(const std::string& folder, const OpenOptions& options,
                         const Family& family, CheckpointParts* parts) {
  const std::string index_path = JoinPath(folder, family.index);
  if (options.ignore_index && !family.files.empty()) {
    return ReadAllShards(folder, AllOf(family), parts);
  }
  if (family.has_index) {
    DS_ASSIGN_OR_RETURN(const std::string text,
                        ReadFile(index_path, limits::kJsonFileBytes));
    auto index = ReadShardIndex(text, index_path, family.kind);
    const bool names_single =
        index.ok() &&
        std::binary_search(index->shards.begin(), index->shards.end(),
                           std::string(family.single));
    if (!family.has_single || names_single) {
      if (!index.ok()) return index.status();
      return ReadIndexedShards(folder, index_path, *index, family.files, parts);
    }
    parts->notes.push_back(absl::StrCat(
        index_path, " is ignored: ", family.single, " is the whole model"));
  }
  return ReadAllShards(folder, {std::string(family.single)}, parts);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenHfFolder(
    const std::string& folder, const OpenOptions& options) {
  DS_ASSIGN_OR_RETURN(const Contents contents, Look(folder));
  const bool safetensors = contents.safetensors.is_there(options);
  if (!safetensors && !contents.torch.is_there(options)) {
    return NoWeights(folder, contents);
  }
  const Family& family = safetensors ? contents.safetensors : contents.torch;
  const Family& other = safetensors ? contents.torch : contents.safetensors;
  CheckpointParts parts;
  DS_RETURN_IF_ERROR(ReadSideFiles(folder, &parts));
  DS_RETURN_IF_ERROR(ReadWeights(folder, options, family, &parts));
  NoteStrays(folder, family, &parts);
  if (!other.files.empty()) {
    parts.notes.push_back(absl::StrCat(
        folder, ": ", Ignored(other.files), "the ",
        safetensors ? "safetensors" : "PyTorch", " files are read"));
  }
  return MakeCheckpoint(std::move(parts));
}

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenWeightFile(
    const std::string& path) {
  const auto number = ParseShardNumber(Basename(path));
  if (number.has_value() && number->parts > 1) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: is part %d of %d of a model; give its folder",
                        path, number->part, number->parts));
  }
  const std::string folder = Dirname(path);
  CheckpointParts parts;
  DS_RETURN_IF_ERROR(ReadSideFiles(folder, &parts));
  DS_RETURN_IF_ERROR(
      ReadAllShards(folder, {std::string(Basename(path))}, &parts));
  return MakeCheckpoint(std::move(parts));
}

}  // namespace deepslice
