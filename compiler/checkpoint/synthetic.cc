#include "compiler/checkpoint/synthetic.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "compiler/checkpoint/loaded_checkpoint.h"
#include "compiler/checkpoint/side_files.h"
#include "schema/base/file.h"
#include "schema/base/status_macros.h"
#include "schema/synthetic.h"

namespace deepslice {
namespace {

absl::Status RefuseOther(const std::string& path) {
  if (DirectoryExists(path)) return absl::OkStatus();
  if (!FileExists(path)) {
    return absl::NotFoundError(
        absl::StrCat(path,
                     ": no such file or folder; with --random-weights give a "
                     "config.json or its folder"));
  }
  if (absl::EndsWith(path, ".json")) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      path,
      ": not a .json file; with --random-weights give a config.json or "
      "its folder"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenSyntheticCheckpoint(
    const std::string& path, uint64_t seed, TensorLister list) {
  DS_RETURN_IF_ERROR(RefuseOther(path));
  CheckpointParts parts;
  std::string config_path = path;
  if (DirectoryExists(path)) {
    DS_RETURN_IF_ERROR(ReadSideFiles(path, &parts));
    config_path = JoinPath(path, "config.json");
  } else {
    DS_ASSIGN_OR_RETURN(parts.config, ReadConfigObject(path));
  }
  DS_ASSIGN_OR_RETURN(SourceBytes source, MapSource(config_path));
  parts.sources.push_back(std::move(source));
  absl::StatusOr<std::vector<TensorInfo>> tensors = list(parts.config);
  if (!tensors.ok()) {
    absl::string_view message = tensors.status().message();
    if (!absl::ConsumePrefix(&message, "config.json")) return tensors.status();
    return absl::Status(tensors.status().code(),
                        absl::StrCat(config_path, message));
  }
  parts.tensors = *std::move(tensors);
  for (TensorInfo& t : parts.tensors) {
    t.synthetic->seed = seed;
    t.synthetic->key = SyntheticTensorKey(seed, t.name);
    t.bytes = t.num_elements() * DTypeSize(t.dtype);
  }
  return MakeCheckpoint(std::move(parts));
}

}  // namespace deepslice
