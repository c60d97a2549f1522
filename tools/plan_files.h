// A plan folder's files beside the digests that its manifest lists.
#ifndef DEEPSLICE_TOOLS_PLAN_FILES_H_
#define DEEPSLICE_TOOLS_PLAN_FILES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/manifest.h"

namespace deepslice {

// SHA-256 of one listed file. DataLoss, with both digests.
absl::Status VerifyFile(const std::string& folder, const ManifestFile& file);

// SHA-256 of every listed file (their sizes are checked when the manifest is
// read), and the manifest's own digest. DataLoss names the first that differs.
absl::Status VerifyFiles(const std::string& folder, const Manifest& manifest);

// manifest.json against the digest of itself that it holds
// (schema/manifest_digest.h). DataLoss.
absl::Status VerifyManifest(const std::string& folder);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_PLAN_FILES_H_
