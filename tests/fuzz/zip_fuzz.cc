// Zips: names stay inside the archive, entries inside the file.
#include "absl/strings/match.h"
#include "compiler/checkpoint/zip_archive.h"
#include "schema/base/file.h"
#include "tests/fuzz/fuzz_target.h"

namespace deepslice {
namespace {

FUZZ_TARGET(zip) {
  const auto archive = ReadZip(input, "model.pt");
  if (!archive.ok()) return CheckRefusal(archive.status());
  for (const ZipEntry& e : archive->entries) {
    FUZZ_CHECK(e.size <= input.size() && e.offset <= input.size() - e.size);
    FUZZ_CHECK(IsSafeRelativePath(e.name));
    FUZZ_CHECK(archive->Find(e.name) == &e);
    const absl::Status crc = CheckCrc(input, "model.pt", e);
    if (!crc.ok()) CheckRefusal(crc);
  }
}

}  // namespace
}  // namespace deepslice
