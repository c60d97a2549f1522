// A zip whose entries are stored as they are, as torch.save writes it: names
// and where their bytes lie in the file.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_ZIP_ARCHIVE_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_ZIP_ARCHIVE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace deepslice {

struct ZipEntry {
  absl::string_view name;  // into the file
  uint64_t offset = 0;     // of its bytes, from the file's start
  uint64_t size = 0;
  uint32_t crc = 0;  // 0: the writer did not compute it
};

struct ZipArchive {
  std::vector<ZipEntry> entries;  // sorted by name; folders left out

  // The entry of that name, or nullptr.
  const ZipEntry* Find(absl::string_view name) const;
};

// `file` is the whole file, `path` its name in errors. After success names are
// unique UTF-8 paths inside the archive, every entry lies inside `file`, none
// overlaps another, and each one's own header agrees with the directory.
//   InvalidArgument    the file is no zip, or breaks the format
//   DataLoss           the file is cut
//   Unimplemented      compressed or encrypted entries, several disks
//   ResourceExhausted  more entries than limits.h allows
absl::StatusOr<ZipArchive> ReadZip(absl::string_view file,
                                   const std::string& path);

// DataLoss when the entry's checksum does not fit its bytes. Reads all of them.
absl::Status CheckCrc(absl::string_view file, const std::string& path,
                      const ZipEntry& entry);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_ZIP_ARCHIVE_H_
