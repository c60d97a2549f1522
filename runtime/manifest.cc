#include "runtime/manifest.h"

#include <sys/stat.h>

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schema/base/file.h"
#include "schema/base/json.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using json::Value;

template <typename... Text>
absl::Status Damaged(const std::string& path, const Text&... text) {
  return absl::DataLossError(
      absl::StrCat(path, ": ", text..., "; copy the plan again or rebuild it"));
}

absl::Status WrongField(const std::string& path, absl::string_view field,
                        const Value* found, absl::string_view wanted) {
  return Damaged(path, field, ": found ",
                 found == nullptr
                     ? "nothing"
                     : absl::CHexEscape(json::Write(*found).substr(0, 80)),
                 "; wanted ", wanted);
}

// Where a plan was expected; `what` such a path is.
absl::Status IsCheckpoint(const std::string& path, absl::string_view what) {
  return absl::NotFoundError(absl::StrCat(
      path, ": ", what, ", not a plan; compile it first: dscompile ", path,
      " -o plan/"));
}

absl::StatusOr<std::string> ReadText(const std::string& folder,
                                     const std::string& path) {
  if (!DirectoryExists(folder)) {
    const bool file = FileExists(folder);
    if (file && (absl::EndsWith(folder, ".gguf") ||
                 absl::EndsWith(folder, ".safetensors"))) {
      return IsCheckpoint(folder, "a checkpoint");
    }
    return absl::NotFoundError(absl::StrCat(
        folder, file ? ": a file, not a plan folder" : ": no such folder",
        "; give the folder that dscompile wrote"));
  }
  absl::StatusOr<std::string> text = ReadFile(path, limits::kJsonFileBytes);
  if (absl::IsNotFound(text.status())) {
    if (FileExists(absl::StrCat(folder, "/config.json"))) {
      return IsCheckpoint(folder, "a model's folder");
    }
    return absl::NotFoundError(absl::StrCat(
        path,
        ": no such file; this is no plan folder, or its writing was cut "
        "short; give the folder that dscompile wrote"));
  }
  return text;
}

absl::StatusOr<ManifestFile> ReadEntry(const std::string& path,
                                       const Value& v) {
  const Value* name = v.Find("name");
  if (name == nullptr || !name->is_string() ||
      !IsSafeRelativePath(name->as_string()) ||
      absl::StrContains(name->as_string(), "/")) {
    return WrongField(path, "files: name", name, "a file name");
  }
  const Value* bytes = v.Find("bytes");
  if (bytes == nullptr || !bytes->is_int() || bytes->as_int() < 0) {
    return WrongField(path, "files: bytes", bytes, "a size");
  }
  const Value* sha256 = v.Find("sha256");
  if (sha256 == nullptr || !sha256->is_string() ||
      sha256->as_string().size() != 64 ||
      !absl::c_all_of(sha256->as_string(), absl::ascii_isxdigit)) {
    return WrongField(path, "files: sha256", sha256, "64 hex digits");
  }
  return ManifestFile{name->as_string(), bytes->as_int(), sha256->as_string()};
}

absl::StatusOr<Manifest> Parse(const std::string& path,
                               absl::string_view text) {
  absl::StatusOr<Value> root = json::Parse(text);
  if (!root.ok()) return Damaged(path, root.status().message());
  const Value* version = root->Find("deepslice_plan");
  if (version == nullptr || !version->is_int() || version->as_int() < 1) {
    return WrongField(path, "deepslice_plan", version, "a format number");
  }
  if (version->as_int() > kManifestVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": made by plan format ", version->as_int(),
                     "; this build reads up to ", kManifestVersion,
                     "; rebuild the plan or update"));
  }
  Manifest out;
  const Value* set = root->Find("plan_set_id");
  if (set == nullptr || !set->is_string() || set->as_string().empty() ||
      set->as_string().size() > limits::kPlanSetIdBytes) {
    return WrongField(
        path, "plan_set_id", set,
        absl::StrCat("a name of at most ", limits::kPlanSetIdBytes, " bytes"));
  }
  out.plan_set_id = set->as_string();
  const Value* world = root->Find("world_size");
  if (world == nullptr || !world->is_int() || world->as_int() < 1 ||
      world->as_int() > limits::kWorldSize) {
    return WrongField(path, "world_size", world,
                      absl::StrCat("1 to ", limits::kWorldSize));
  }
  out.world_size = static_cast<int>(world->as_int());
  const Value* files = root->Find("files");
  if (files == nullptr || !files->is_array()) {
    return WrongField(path, "files", files, "an array");
  }
  for (const Value& v : files->items()) {
    DS_ASSIGN_OR_RETURN(ManifestFile file, ReadEntry(path, v));
    out.files.push_back(std::move(file));
  }
  return out;
}

bool IsRankFile(absl::string_view name) {
  return absl::StartsWith(name, "rank_") &&
         (absl::EndsWith(name, ".plan") || absl::EndsWith(name, ".weights"));
}

absl::Status CheckFiles(const std::string& folder, const std::string& path,
                        const Manifest& manifest) {
  int listed = 0;
  for (int r = 0; r < manifest.world_size; ++r) {
    for (const char* extension : {".plan", ".weights"}) {
      const std::string name = RankFileName(r, extension);
      if (manifest.Find(name) == nullptr) {
        return Damaged(path, "files: ", name, " is not listed, of ",
                       manifest.world_size, " ranks");
      }
      ++listed;
    }
  }
  for (const ManifestFile& file : manifest.files) {
    if (IsRankFile(file.name) && --listed < 0) {
      return Damaged(path, "files: lists more than the files of ",
                     manifest.world_size, " ranks, among them ",
                     absl::CHexEscape(file.name));
    }
    const std::string at = JoinPath(folder, file.name);
    struct stat st;
    if (stat(at.c_str(), &st) != 0) {
      return absl::NotFoundError(
          absl::StrCat(at, ": no such file; manifest.json lists it with ",
                       file.bytes, " bytes; copy the plan again"));
    }
    if (!S_ISREG(st.st_mode)) return Damaged(at, "not a regular file");
    if (st.st_size != file.bytes) {
      return Damaged(at, "has ", st.st_size, " bytes, manifest.json says ",
                     file.bytes);
    }
  }
  DS_ASSIGN_OR_RETURN(const std::vector<std::string> present,
                      ListDirectory(folder));
  for (const std::string& name : present) {
    if (IsRankFile(name) && manifest.Find(name) == nullptr) {
      return absl::DataLossError(absl::StrCat(
          JoinPath(folder, absl::CHexEscape(name)),
          ": not in manifest.json, so of another plan; remove it, or copy the "
          "plan into a folder of its own"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

const ManifestFile* Manifest::Find(absl::string_view name) const {
  for (const ManifestFile& file : files) {
    if (file.name == name) return &file;
  }
  return nullptr;
}

std::string RankFileName(int rank, absl::string_view extension) {
  return absl::StrFormat("rank_%04d%s", rank, extension);
}

absl::StatusOr<Manifest> ParseManifest(absl::string_view text,
                                       const std::string& path) {
  return Parse(path, text);
}

absl::StatusOr<Manifest> ReadManifest(const std::string& folder) {
  const std::string path = JoinPath(folder, "manifest.json");
  DS_ASSIGN_OR_RETURN(const std::string text, ReadText(folder, path));
  DS_ASSIGN_OR_RETURN(Manifest manifest, Parse(path, text));
  DS_RETURN_IF_ERROR(CheckFiles(folder, path, manifest));
  return manifest;
}

}  // namespace deepslice
