// manifest.json of a plan folder: which files belong to the plan.
#ifndef DEEPSLICE_RUNTIME_MANIFEST_H_
#define DEEPSLICE_RUNTIME_MANIFEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace deepslice {

struct ManifestFile {
  std::string name;  // in the folder
  int64_t bytes = 0;
  std::string sha256;  // 64 hex digits
};

struct Manifest {
  std::string plan_set_id;
  int world_size = 0;
  std::vector<ManifestFile> files;

  // nullptr when it isn't listed.
  const ManifestFile* Find(absl::string_view name) const;
};

inline constexpr int64_t kManifestVersion = 1;

// "rank_0003.plan" for (3, ".plan").
std::string RankFileName(int rank, absl::string_view extension);

// Reads `folder`/manifest.json. It lists each rank's two files; every listed
// file is there with its size, and no other rank's is. NotFound (no folder, no
// manifest), DataLoss, FailedPrecondition (newer). Hashes are for `dsplan
// verify`.
absl::StatusOr<Manifest> ReadManifest(const std::string& folder);

// The text of one alone, whatever files there are; `path` is its name in
// errors.
absl::StatusOr<Manifest> ParseManifest(absl::string_view text,
                                       const std::string& path);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_MANIFEST_H_
