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

constexpr absl::string_view kSingle = "model.safetensors";
constexpr absl::string_view kIndex = "model.safetensors.index.json";

// What the folder holds, by kind.
struct Contents {
  std::vector<std::string> safetensors;
  std::vector<std::string> pickles;
  std::vector<std::string> gguf;
  bool single = false;
  bool index = false;
};

absl::StatusOr<Contents> Look(const std::string& folder) {
  DS_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListDirectory(folder));
  Contents out;
  for (const std::string& name : names) {
    if (absl::EndsWith(name, ".safetensors")) {
      out.safetensors.push_back(name);
      out.single = out.single || name == kSingle;
    } else if (absl::EndsWith(name, ".bin") || absl::EndsWith(name, ".pt") ||
               absl::EndsWith(name, ".pth")) {
      // training_args.bin and the like are no weights.
      if (absl::StrContains(name, "model") ||
          absl::StartsWith(name, "consolidated")) {
        out.pickles.push_back(name);
      }
    } else if (absl::EndsWith(name, ".gguf")) {
      out.gguf.push_back(name);
    } else if (name == kIndex) {
      out.index = true;
    }
  }
  return out;
}

absl::Status NoWeights(const std::string& folder, const Contents& contents) {
  if (!contents.pickles.empty()) {
    return absl::UnimplementedError(absl::StrCat(
        folder, ": the weights are pickles (", ShortList(contents.pickles),
        "); safetensors is read: load the model with transformers and save it "
        "with save_pretrained(..., safe_serialization=True)"));
  }
  if (!contents.safetensors.empty()) {
    return absl::NotFoundError(absl::StrCat(
        folder, ": neither ", kSingle, " nor ", kIndex, " is there, but ",
        ShortList(contents.safetensors),
        "; name the file that is the model, or read all of them with "
        "--ignore-index"));
  }
  if (!contents.gguf.empty()) {
    return absl::NotFoundError(absl::StrCat(folder, ": no ", kSingle, ", but ",
                                            ShortList(contents.gguf),
                                            "; give that file's own path"));
  }
  return absl::NotFoundError(absl::StrCat(
      folder, ": no weights; a folder needs ", kSingle, " or ", kIndex));
}

// One note for the .safetensors files that were not read.
void NoteStrays(const std::string& folder, const Contents& contents,
                CheckpointParts* parts) {
  std::vector<std::string> strays;
  for (const std::string& name : contents.safetensors) {
    const std::string path = JoinPath(folder, name);
    if (std::none_of(parts->sources.begin(), parts->sources.end(),
                     [&](const SourceBytes& s) { return s.path == path; })) {
      strays.push_back(name);
    }
  }
  if (!strays.empty()) {
    parts->notes.push_back(absl::StrCat(
        folder, ": ", ShortList(strays),
        strays.size() == 1 ? " is ignored: it is" : " are ignored: they are",
        " no part of the model"));
  }
}

absl::Status ReadWeights(const std::string& folder, const OpenOptions& options,
                         const Contents& contents, CheckpointParts* parts) {
  const std::string index_path = JoinPath(folder, kIndex);
  if (options.ignore_index && !contents.safetensors.empty()) {
    return ReadAllShards(folder, contents.safetensors, parts);
  }
  if (contents.index) {
    DS_ASSIGN_OR_RETURN(const std::string text,
                        ReadFile(index_path, limits::kJsonFileBytes));
    auto index = ReadShardIndex(text, index_path);
    const bool names_single =
        index.ok() &&
        std::binary_search(index->shards.begin(), index->shards.end(),
                           std::string(kSingle));
    if (!contents.single || names_single) {
      if (!index.ok()) return index.status();
      return ReadIndexedShards(folder, index_path, *index, contents.safetensors,
                               parts);
    }
    parts->notes.push_back(absl::StrCat(index_path, " is ignored: ", kSingle,
                                        " is the whole model"));
  }
  if (contents.single) {
    return ReadAllShards(folder, {std::string(kSingle)}, parts);
  }
  return NoWeights(folder, contents);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenHfFolder(
    const std::string& folder, const OpenOptions& options) {
  DS_ASSIGN_OR_RETURN(const Contents contents, Look(folder));
  CheckpointParts parts;
  if (contents.safetensors.empty() && !contents.index) {
    return NoWeights(folder, contents);
  }
  DS_RETURN_IF_ERROR(ReadSideFiles(folder, &parts));
  DS_RETURN_IF_ERROR(ReadWeights(folder, options, contents, &parts));
  NoteStrays(folder, contents, &parts);
  if (!contents.pickles.empty()) {
    parts.notes.push_back(
        absl::StrCat(folder, ": ", ShortList(contents.pickles),
                     contents.pickles.size() == 1 ? " is" : " are",
                     " ignored: the safetensors files are read"));
  }
  return MakeCheckpoint(std::move(parts));
}

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenSafetensorsFile(
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
