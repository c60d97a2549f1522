// Files as the product reads and writes them: mapped read-only, size known
// before any access, every error with the path.
#ifndef DEEPSLICE_SCHEMA_BASE_FILE_H_
#define DEEPSLICE_SCHEMA_BASE_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace deepslice {

// A read-only private mapping of a regular file. Copies share it.
class MappedFile {
 public:
  // NotFound, or InvalidArgument when `path` is not a regular file.
  static absl::StatusOr<MappedFile> Open(const std::string& path);
  MappedFile() = default;
  absl::string_view bytes() const { return bytes_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  absl::string_view bytes_;
  std::shared_ptr<const void> mapping_;
};

// The whole file; ResourceExhausted beyond `max_bytes`.
absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     int64_t max_bytes);
// Replaces or makes `path`. Not atomic; plans are written by plan_folder.h.
absl::Status WriteFile(const std::string& path, absl::string_view bytes);

bool FileExists(const std::string& path);  // any kind but a folder
bool DirectoryExists(const std::string& path);
// Names (not paths) in `path`, sorted bytewise, without "." and "..".
absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path);

std::string JoinPath(absl::string_view a, absl::string_view b);
// The last component, and everything before it ("." when there is none).
absl::string_view Basename(absl::string_view path);
std::string Dirname(absl::string_view path);

// Where a user's programs keep what can be made anew: XDG_CACHE_HOME or
// HOME/.cache; "" when neither is an absolute path.
std::string UserCacheFolder();

// Whether a name that a file gave (shard of an index, external data) stays
// inside its folder: relative, no "..", no empty part, no NUL.
bool IsSafeRelativePath(absl::string_view name);

}  // namespace deepslice

#endif  // DEEPSLICE_SCHEMA_BASE_FILE_H_
