#include "tools/plan_files.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schema/base/digest.h"
#include "schema/base/file.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"
#include "schema/manifest_digest.h"

namespace deepslice {

absl::Status VerifyFile(const std::string& folder, const ManifestFile& file) {
  const std::string path = JoinPath(folder, file.name);
  DS_ASSIGN_OR_RETURN(const MappedFile mapped, MappedFile::Open(path));
  const std::string found = Sha256Hex(mapped.bytes());
  if (found == file.sha256) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrFormat("%s: sha256 %s, the manifest says %s; recopy it", path,
                      found, file.sha256));
}

absl::Status VerifyManifest(const std::string& folder) {
  const std::string path = JoinPath(folder, "manifest.json");
  DS_ASSIGN_OR_RETURN(const std::string text,
                      ReadFile(path, limits::kJsonFileBytes));
  if (HasManifestDigest(text)) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(path, ": is not as dscompile wrote it: ", kManifestDigestKey,
                   " is not the digest of the rest; recopy it"));
}

absl::Status VerifyFiles(const std::string& folder, const Manifest& manifest) {
  DS_RETURN_IF_ERROR(VerifyManifest(folder));
  for (const ManifestFile& f : manifest.files) {
    DS_RETURN_IF_ERROR(VerifyFile(folder, f));
  }
  return absl::OkStatus();
}

}  // namespace deepslice
