// manifest.json of a plan folder.
#include "runtime/manifest.h"
#include "tests/fuzz/fuzz_target.h"

namespace deepslice {
namespace {

FUZZ_TARGET(manifest) {
  const auto manifest = ParseManifest(input, "manifest.json");
  if (!manifest.ok()) return CheckRefusal(manifest.status());
  FUZZ_CHECK(manifest->world_size >= 1 && !manifest->plan_set_id.empty());
  for (const ManifestFile& file : manifest->files) {
    FUZZ_CHECK(file.bytes >= 0 && file.sha256.size() == 64);
    FUZZ_CHECK(file.name.find('/') == file.name.npos);
    FUZZ_CHECK(manifest->Find(file.name) != nullptr);
  }
}

}  // namespace
}  // namespace deepslice
