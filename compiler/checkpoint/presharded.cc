#include "compiler/checkpoint/presharded.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/checkpoint/deepspeed.h"
#include "compiler/checkpoint/loaded_checkpoint.h"
#include "compiler/checkpoint/presharded_files.h"
#include "compiler/checkpoint/presharded_join.h"
#include "compiler/checkpoint/presharded_names.h"
#include "compiler/checkpoint/side_files.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/file.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

absl::StatusOr<json::Value> ReadList(const std::string& path) {
  DS_ASSIGN_OR_RETURN(const std::string text,
                      ReadFile(path, limits::kConfigFileBytes));
  return json::Parse(text, {.allow_trailing_commas = true});
}

}  // namespace

bool LooksLikePreshardedList(const json::Value& list) {
  const json::Value* files = list.Find("checkpoints");
  return files != nullptr && files->is_object();
}

bool LooksLikePresharded(const std::string& folder) {
  const std::string path = JoinPath(folder, kPreshardedList);
  if (!FileExists(path)) return false;
  for (const char* weights :
       {"model.safetensors", "model.safetensors.index.json",
        "pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    if (FileExists(JoinPath(folder, weights))) return false;
  }
  const auto list = ReadList(path);
  return list.ok() && LooksLikePreshardedList(*list);
}

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenPresharded(
    const json::Value& list, const std::string& path,
    std::vector<std::string> notes) {
  CheckpointParts parts;
  parts.notes = std::move(notes);
  DS_ASSIGN_OR_RETURN(const PreshardedFiles files,
                      FindPreshardedFiles(list, path, &parts.notes));
  const std::string folder = FindSideFolder({Dirname(path), files.folder});
  DS_RETURN_IF_ERROR(ReadSideFiles(folder, &parts));
  const json::Value* type = parts.config.Find("model_type");
  const InjectedFamily* family = type != nullptr && type->is_string()
                                     ? FindInjectedFamily(type->as_string())
                                     : nullptr;
  if (family == nullptr) {
    return absl::UnimplementedError(absl::StrCat(
        JoinPath(folder, "config.json"), ": model_type: holds ",
        type == nullptr     ? "nothing"
        : type->is_string() ? Quoted(type->as_string())
                            : std::string(json::KindName(type->kind())),
        "; what DeepSpeed cut for inference is read of ",
        InjectedFamilyNames()));
  }
  DS_RETURN_IF_ERROR(JoinPresharded(*family, files, &parts));
  return MakeCheckpoint(std::move(parts));
}

}  // namespace deepslice
