#include "compiler/checkpoint/deepspeed_list.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/checkpoint/deepspeed.h"
#include "compiler/checkpoint/deepspeed_files.h"
#include "compiler/checkpoint/hf_folder.h"
#include "compiler/checkpoint/loaded_checkpoint.h"
#include "compiler/checkpoint/megatron.h"
#include "compiler/checkpoint/megatron_files.h"
#include "compiler/checkpoint/meta_llama.h"
#include "compiler/checkpoint/shard_index.h"
#include "compiler/checkpoint/shard_set.h"
#include "compiler/checkpoint/side_files.h"
#include "compiler/checkpoint/torch_file.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/file.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// Whether all are there, each once.
absl::Status CheckPaths(const DeepSpeedList& list) {
  absl::flat_hash_set<absl::string_view> seen;
  for (size_t i = 0; i < list.paths.size(); ++i) {
    const std::string& path = list.paths[i];
    if (!FileExists(path) && !DirectoryExists(path)) {
      return absl::NotFoundError(absl::StrCat(
          list.where, ": checkpoints: file ", i + 1, " of ", list.paths.size(),
          ", ", Quoted(path), ": no such file; copy it or correct the list"));
    }
    if (!seen.insert(path).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(list.where, ": checkpoints: ", Quoted(path),
                       " is listed twice; list each file once"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRanks(const DeepSpeedList& list, int64_t found) {
  if (!list.ranks.has_value() || *list.ranks == found) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      list.where, ": mp_size: holds ", *list.ranks, "; the list has files of ",
      found, " tensor-parallel ranks"));
}

// Whether a .pt file, by whatever name, is a rank of a training run.
absl::StatusOr<bool> IsOfTraining(const std::string& path) {
  if (!absl::EndsWith(path, ".pt")) return false;
  DS_ASSIGN_OR_RETURN(const SourceBytes source, MapSource(path));
  DS_ASSIGN_OR_RETURN(const auto torch, TorchFile::Open(source.bytes, path));
  const pickle::Value* root = torch->root().AsDict();
  if (root == nullptr ||
      (root->Find("module") == nullptr && root->Find("model") == nullptr)) {
    return false;
  }
  for (const char* key :
       {"args", "checkpoint_version", "global_steps", "mp_world_size"}) {
    if (root->Find(key) != nullptr) return true;
  }
  return false;
}

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenFolder(
    const DeepSpeedList& list, const std::string& folder,
    const OpenOptions& options) {
  std::vector<std::string> notes = list.notes;
  const std::string beside = Dirname(list.where);
  if (LooksLikeDeepSpeed(folder)) {
    DS_ASSIGN_OR_RETURN(const std::string step,
                        FindDeepSpeedStep(folder, &notes));
    DS_ASSIGN_OR_RETURN(const DeepSpeedFiles files, ListDeepSpeedStep(step));
    DS_RETURN_IF_ERROR(CheckRanks(list, files.mp_ranks()));
    return OpenDeepSpeed(files, {beside, folder, step, Dirname(step)}, options,
                         std::move(notes));
  }
  if (LooksLikeMegatron(folder)) {
    DS_ASSIGN_OR_RETURN(const MegatronFiles files, FindMegatronFiles(folder));
    DS_RETURN_IF_ERROR(CheckRanks(list, files.tensor_ranks));
    return OpenMegatron(files, FindSideFolder({beside, folder}),
                        {.notes = std::move(notes)}, options);
  }
  DS_RETURN_IF_ERROR(RefuseMegatronOptions(folder, options));
  if (LooksLikeMetaLlama(folder)) return OpenMetaLlama(folder);
  return OpenHfFolder(folder, options);
}

// Shards that hold whole tensors.
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenShards(
    const DeepSpeedList& list, const OpenOptions& options) {
  for (const std::string& path : list.paths) {
    if (IsWeightFile(path, WeightFiles::kSafetensors) ||
        IsWeightFile(path, WeightFiles::kTorch)) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        list.where, ": checkpoints: ", Quoted(path),
        " is no file of weights; list .bin, .pt, .pth or .safetensors files, "
        "or one folder"));
  }
  if (list.cut && list.ranks.value_or(2) > 1) {
    return absl::UnimplementedError(absl::StrCat(
        list.where, ": parallelization: is \"tp\", but how the tensors of ",
        Quoted(list.paths[0]),
        " are cut is written nowhere; list files of whole tensors with \"pp\", "
        "or the dict of tp and non_tp that DeepSpeed saves"));
  }
  DS_RETURN_IF_ERROR(RefuseMegatronOptions(list.where, options));
  if (const std::string part = FindMissingPart(list.paths); !part.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        list.where, ": checkpoints: has other parts of the model, but not ",
        Quoted(part), "; list all of them"));
  }
  CheckpointParts parts;
  parts.notes = list.notes;
  const std::string folder = Dirname(list.paths[0]);
  DS_RETURN_IF_ERROR(
      ReadSideFiles(FindSideFolder({Dirname(list.where), folder}), &parts));
  DS_RETURN_IF_ERROR(ReadAllShards("", list.paths, &parts));
  return MakeCheckpoint(std::move(parts));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenDeepSpeedList(
    const DeepSpeedList& list, const OpenOptions& options) {
  const std::vector<std::string>& paths = list.paths;
  DS_RETURN_IF_ERROR(CheckPaths(list));
  const auto all = [&](auto is) {
    return std::all_of(paths.begin(), paths.end(), is);
  };
  if (paths.size() == 1 && DirectoryExists(paths[0]) &&
      !IsMegatronRank(paths[0])) {
    return OpenFolder(list, paths[0], options);
  }
  if (all(IsMegatronRank)) {
    DS_ASSIGN_OR_RETURN(const MegatronFiles files,
                        ArrangeMegatronFiles(paths, list.where));
    DS_RETURN_IF_ERROR(CheckRanks(list, files.tensor_ranks));
    return OpenMegatron(files, Dirname(list.where), {.notes = list.notes},
                        options);
  }
  for (const std::string& path : paths) {
    if (!DirectoryExists(path)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(list.where, ": checkpoints: ", Quoted(path),
                     " is a folder; list files, or one folder alone"));
  }
  DeepSpeedFiles files;
  const auto named = [](const std::string& path) {
    return ParseDeepSpeedName(Basename(path)).has_value();
  };
  if (all(named)) {
    DS_ASSIGN_OR_RETURN(files, ArrangeDeepSpeedFiles(paths, list.where));
    if (files.optim_states.empty() && files.mp_ranks() > 0) {
      // The partitions, which stand beside what describes them.
      DS_ASSIGN_OR_RETURN(DeepSpeedFiles there,
                          ListDeepSpeedStep(files.folder));
      files.optim_states = std::move(there.optim_states);
    }
  } else {
    bool of_training = true;
    for (const std::string& path : paths) {
      DS_ASSIGN_OR_RETURN(const bool is, IsOfTraining(path));
      of_training = of_training && is;
      if (!of_training) break;
    }
    if (!of_training) return OpenShards(list, options);
    files.where = list.where;
    files.folder = Dirname(paths[0]);
    files.model_states = paths;
  }
  DS_RETURN_IF_ERROR(CheckRanks(list, files.mp_ranks()));
  return OpenDeepSpeed(
      files, {Dirname(list.where), files.folder, Dirname(files.folder)},
      options, list.notes);
}

}  // namespace deepslice
