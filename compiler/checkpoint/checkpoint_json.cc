#include "compiler/checkpoint/checkpoint_json.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "compiler/checkpoint/deepspeed_list.h"
#include "compiler/checkpoint/megatron.h"
#include "compiler/checkpoint/megatron_files.h"
#include "compiler/checkpoint/megatron_shard.h"
#include "compiler/checkpoint/presharded.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/file.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

constexpr absl::string_view kKeys[] = {
    "type",    "version", "checkpoints", "base_dir", "parallelization",
    "tp_size", "mp_size", "dtype"};

std::string Kind(const json::Value& v) {
  return v.is_string() ? Quoted(v.as_string())
                       : std::string(json::KindName(v.kind()));
}

// Keys that only an inference configuration has, and most have one of.
constexpr absl::string_view kConfigKeys[] = {
    "checkpoint",      "replace_with_kernel_inject", "kernel_inject",
    "tensor_parallel", "save_mp_checkpoint_path",    "max_out_tokens",
    "injection_policy"};

absl::Status IsInferenceConfig(const std::string& path) {
  return absl::InvalidArgumentError(absl::StrCat(
      path,
      ": is DeepSpeed's inference configuration, no checkpoint; give it "
      "behind --config"));
}

// The list in the file `path`, or in its key `checkpoint` where that is an
// inference configuration, with the base_dir of `options` when it has none.
absl::StatusOr<json::Value> ReadList(const std::string& path,
                                     const OpenOptions& options,
                                     std::vector<std::string>* notes) {
  DS_ASSIGN_OR_RETURN(const std::string text,
                      ReadFile(path, limits::kConfigFileBytes));
  absl::StatusOr<json::Value> list = json::Parse(text);
  if (!list.ok()) {
    auto lenient = json::Parse(text, {.allow_trailing_commas = true});
    if (!lenient.ok()) return Annotate(list.status(), path);
    if (!options.list_in_config) {  // its reader has said it
      notes->push_back(absl::StrCat(path,
                                    ": has trailing commas, which are not "
                                    "JSON; they are left out"));
    }
    list = std::move(lenient);
  }
  if (!list->is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": holds ", Kind(*list),
                     "; must be an object with "
                     "type, version and checkpoints"));
  }
  if (const json::Value* inside = list->Find("checkpoint");
      inside != nullptr && list->Find("checkpoints") == nullptr) {
    if (!options.list_in_config) return IsInferenceConfig(path);
    list = json::Value(*inside);
  }
  const json::Value* base = list->Find("base_dir");
  if (!options.base_dir.empty() &&
      (base == nullptr || base->is_null() ||
       (base->is_string() && base->as_string().empty()))) {
    // Given from where the command runs, and not from the list's folder.
    std::error_code error;
    const auto whole = std::filesystem::absolute(options.base_dir, error);
    list->Set("base_dir", error ? options.base_dir : whole.string());
  }
  for (const auto& [key, value] : list->members()) {
    if (std::find(std::begin(kKeys), std::end(kKeys), key) == std::end(kKeys)) {
      notes->push_back(
          absl::StrCat(path, ": key ", Quoted(key), " is not known; ignored"));
    }
  }
  return list;
}

// Whether the type is Megatron; otherwise it is one of the models.
absl::StatusOr<bool> IsMegatron(const json::Value& list) {
  const json::Value* type = list.Find("type");
  if (type == nullptr || !type->is_string()) {
    return absl::InvalidArgumentError(
        absl::StrCat("type: holds ", type == nullptr ? "nothing" : Kind(*type),
                     "; must be \"Megatron\", \"ds_model\" or \"BLOOM\""));
  }
  if (absl::EqualsIgnoreCase(type->as_string(), "megatron")) {
    return true;
  }
  if (absl::EqualsIgnoreCase(type->as_string(), "bloom") ||
      absl::EqualsIgnoreCase(type->as_string(), "ds_model")) {
    return false;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("type: ", Kind(*type),
                   " is none of DeepSpeed's; must be \"Megatron\", "
                   "\"ds_model\" or \"BLOOM\""));
}

absl::StatusOr<absl::optional<int>> ReadVersion(
    const json::Value& list, const std::string& path,
    std::vector<std::string>* notes) {
  const json::Value* v = list.Find("version");
  if (v == nullptr || v->is_null()) {
    if (v == nullptr) {
      notes->push_back(absl::StrCat(
          path, ": has no version; the files' checkpoint_version counts"));
    }
    return absl::optional<int>();
  }
  if (!v->is_number()) {
    return absl::InvalidArgumentError(
        absl::StrCat("version: holds ", Kind(*v), "; must be 0, 1, 2 or 3"));
  }
  const auto version = MegatronVersion(v->as_double());
  if (!version.ok()) return Annotate(version.status(), "version");
  return absl::optional<int>(*version);
}

// The paths of the list.
absl::StatusOr<std::vector<std::string>> ReadPaths(const json::Value& list,
                                                   const std::string& path) {
  std::string base = Dirname(path);
  if (const json::Value* v = list.Find("base_dir");
      v != nullptr && !v->is_null()) {
    if (!v->is_string()) {
      return absl::InvalidArgumentError(
          absl::StrCat("base_dir: holds ", Kind(*v), "; must be a path"));
    }
    if (absl::StartsWith(v->as_string(), "/")) {
      base = v->as_string();
    } else if (!v->as_string().empty()) {
      base = JoinPath(base, v->as_string());
    }
  }
  const json::Value* files = list.Find("checkpoints");
  if (files == nullptr || files->is_object() ||
      !(files->is_string() || files->is_array())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "checkpoints: holds ", files == nullptr ? "nothing" : Kind(*files),
        "; must be a list of files, or a folder"));
  }
  std::vector<json::Value> items = files->items();
  if (files->is_string()) items.push_back(*files);
  if (items.empty() || static_cast<int64_t>(items.size()) > limits::kShards) {
    return absl::InvalidArgumentError(
        absl::StrCat("checkpoints: lists ", items.size(),
                     " files; allowed: 1 to ", limits::kShards));
  }
  std::vector<std::string> out;
  for (const json::Value& item : items) {
    if (!item.is_string() || item.as_string().empty() ||
        absl::StrContains(item.as_string(), '\0')) {
      return absl::InvalidArgumentError(
          absl::StrCat("checkpoints: holds ", Kind(item), "; must hold paths"));
    }
    absl::string_view name = item.as_string();
    while (absl::ConsumePrefix(&name, "./")) {
    }
    if (name == ".") name = "";
    out.push_back(absl::StartsWith(name, "/") ? std::string(name)
                  : name.empty()              ? base
                                              : JoinPath(base, name));
  }
  return out;
}

absl::Status CheckParallelization(const json::Value& list) {
  if (const json::Value* v = list.Find("parallelization");
      v != nullptr && !v->is_null() &&
      !(v->is_string() && (v->as_string() == "tp" || v->as_string() == "pp"))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "parallelization: holds ", Kind(*v), "; must be \"tp\" or \"pp\""));
  }
  return absl::OkStatus();
}

// mp_size, else tp_size; nullptr when neither says anything.
const json::Value* FindSize(const json::Value& list) {
  for (const char* key : {"mp_size", "tp_size"}) {
    const json::Value* v = list.Find(key);
    if (v != nullptr && !v->is_null()) return v;
  }
  return nullptr;
}

// What says how the files are cut must agree with what they are.
absl::Status CheckCut(const json::Value& list, const MegatronFiles& files) {
  DS_RETURN_IF_ERROR(CheckParallelization(list));
  const json::Value* size = FindSize(list);
  if (size == nullptr) return absl::OkStatus();
  if (size->is_int() && size->as_int() == files.tensor_ranks) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "mp_size: holds ", json::Write(*size), "; the list has files of ",
      files.tensor_ranks, " tensor-parallel ranks"));
}

// A list of type ds_model or BLOOM, whose version says nothing.
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenModel(
    const json::Value& list, const std::string& path,
    std::vector<std::string> notes, const OpenOptions& options) {
  DeepSpeedList out;
  out.where = path;
  out.notes = std::move(notes);
  const auto cut = CheckParallelization(list);
  if (!cut.ok()) return Annotate(cut, path);
  if (const json::Value* v = list.Find("parallelization"); v != nullptr) {
    out.cut = v->is_string() && v->as_string() == "tp";
  }
  if (const json::Value* size = FindSize(list); size != nullptr) {
    if (!size->is_int() || size->as_int() < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": mp_size: holds ", json::Write(*size),
                       "; must be a number of ranks"));
    }
    out.ranks = size->as_int();
  }
  auto paths = ReadPaths(list, path);
  if (!paths.ok()) return Annotate(paths.status(), path);
  out.paths = *std::move(paths);
  return OpenDeepSpeedList(out, options);
}

}  // namespace

bool LooksLikeCheckpointJson(const std::string& path) {
  if (!absl::EndsWith(path, ".json") || !FileExists(path)) return false;
  if (Basename(path) == "checkpoint.json") return true;
  const auto text = ReadFile(path, limits::kConfigFileBytes);
  return text.ok() && absl::StrContains(*text, "\"checkpoints\"");
}

absl::Status RefuseInferenceConfig(const std::string& path) {
  const auto text = ReadFile(path, limits::kConfigFileBytes);
  if (!text.ok()) return text.status();
  const auto config = json::Parse(*text, {.allow_trailing_commas = true});
  if (!config.ok()) return absl::OkStatus();  // others say what is wrong
  for (const absl::string_view key : kConfigKeys) {
    if (config->Find(key) != nullptr) return IsInferenceConfig(path);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenCheckpointJson(
    const std::string& path, const OpenOptions& options) {
  MegatronHints hints;
  DS_ASSIGN_OR_RETURN(const json::Value list,
                      ReadList(path, options, &hints.notes));
  // Its type is whatever the model was loaded from.
  const json::Value* type = list.Find("type");
  if (LooksLikePreshardedList(list) &&
      !(type != nullptr && type->is_string() &&
        absl::EqualsIgnoreCase(type->as_string(), "megatron"))) {
    DS_RETURN_IF_ERROR(RefuseMegatronOptions(path, options));
    return OpenPresharded(list, path, std::move(hints.notes));
  }
  const auto megatron = IsMegatron(list);
  if (!megatron.ok()) return Annotate(megatron.status(), path);
  if (!*megatron) {
    return OpenModel(list, path, std::move(hints.notes), options);
  }
  const auto version = ReadVersion(list, path, &hints.notes);
  if (!version.ok()) return Annotate(version.status(), path);
  hints.version = *version;
  const auto paths = ReadPaths(list, path);
  if (!paths.ok()) return Annotate(paths.status(), path);
  // One folder may hold all ranks.
  const bool folder = paths->size() == 1 && DirectoryExists((*paths)[0]) &&
                      LooksLikeMegatron((*paths)[0]);
  DS_ASSIGN_OR_RETURN(MegatronFiles files,
                      folder ? FindMegatronFiles((*paths)[0])
                             : ArrangeMegatronFiles(*paths, path));
  DS_RETURN_IF_ERROR(Annotate(CheckCut(list, files), path));
  return OpenMegatron(files, Dirname(path), hints, options);
}

}  // namespace deepslice
