// A folder that appears whole or not at all. Files are written without a name
// where the file system can do that, so that even a killed process leaves
// nothing; then they are linked into a temporary folder, which is renamed.
#ifndef DEEPSLICE_COMPILER_PLAN_FOLDER_H_
#define DEEPSLICE_COMPILER_PLAN_FOLDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace deepslice {

// Asks every running write to stop with Cancelled; safe in a signal handler.
void InterruptPlanWriting();
bool PlanWritingInterrupted();

// A plan inside its own source would be read as part of it next time:
// InvalidArgument when `output` is `source` or lies in it.
absl::Status CheckOutputApart(const std::string& output,
                              const std::string& source);

// A file of the folder being made; one thread at a time.
class FolderFile {
 public:
  ~FolderFile();
  const std::string& name() const { return name_; }
  int fd() const { return fd_; }
  // Internal with the byte counts when the disk is full; Cancelled after
  // InterruptPlanWriting.
  absl::Status WriteAt(uint64_t offset, const void* data, uint64_t bytes);

 private:
  friend class PlanFolder;
  std::string name_, folder_;
  int fd_ = -1;
  uint64_t started_ = 0;  // the disk was told to begin with all before
  std::string path_;      // empty: the file has no name yet
};

class PlanFolder {
 public:
  // `path` is the folder to make. FailedPrecondition when it exists and
  // `replace` is false; NotFound when its parent does not exist.
  static absl::StatusOr<std::unique_ptr<PlanFolder>> Create(
      const std::string& path, bool replace);
  // Removes everything written when Commit was not called or failed.
  ~PlanFolder();

  // A new file of that name, which may name a folder of the folder before a
  // slash; `bytes` are reserved on disk at once, so that a
  // full disk shows now. Owned by the folder.
  absl::StatusOr<FolderFile*> Add(const std::string& name, uint64_t bytes);
  // Syncs every file, links them, renames, syncs the parent.
  absl::Status Commit();

 private:
  std::string path_, parent_, temporary_;
  bool replace_ = false;
  bool made_temporary_ = false;
  int lock_ = -1;  // of the temporary folder, held while this process lives
  std::vector<std::unique_ptr<FolderFile>> files_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_PLAN_FOLDER_H_
