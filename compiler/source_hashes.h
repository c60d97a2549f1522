// SHA-256 of a checkpoint's files, made right behind the weights that are read
// from them: a file larger than the memory still comes from its disk once.
#ifndef DEEPSLICE_COMPILER_SOURCE_HASHES_H_
#define DEEPSLICE_COMPILER_SOURCE_HASHES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "compiler/checkpoint/checkpoint.h"
#include "compiler/job_queue.h"
#include "ir/graph.h"
#include "schema/base/digest.h"

namespace deepslice {

// A file's bytes are hashed up to the first that a weight to come still needs.
// All calls but Expect may come from several threads.
class SourceHashes {
 public:
  // `jobs` runs the hashing, and `hashed` is told of bytes that are through.
  // All must outlive the jobs. Of no checkpoint nothing is hashed.
  SourceHashes(const Checkpoint* checkpoint, JobQueue* jobs,
               std::function<void(uint64_t)> hashed);

  // A weight that will be read; once for each time.
  void Expect(const Weight& w);
  // Begins, after all Expect.
  void Start();
  // An expected weight has been read.
  void Done(const Weight& w);
  // Of files()[i], after the jobs have run.
  const std::string& sha256(size_t i) const { return files_[i].sha256; }
  // How far files()[i] may be hashed now.
  uint64_t ready(size_t i);

 private:
  // Bytes that belong to a tensor begin there.
  struct Region {
    uint64_t begin;
    size_t tensor;
  };
  struct File {
    std::vector<Region> regions;  // by begin
    size_t next = 0;              // before it, nobody needs a region any more
    uint64_t hashed = 0;
    bool queued = false;
    Sha256 sha;
    std::string sha256;
  };

  uint64_t ReadyLocked(size_t i);
  void QueueLocked(size_t i);
  absl::Status Hash(size_t i);
  // Calls `f` with the index of each tensor of a weight.
  void ForEachTensor(const Weight& w, const std::function<void(size_t)>& f);

  const Checkpoint* const checkpoint_;
  JobQueue& jobs_;
  const std::function<void(uint64_t)> hashed_;
  absl::Mutex mutex_;
  std::vector<int64_t> awaited_;  // by tensor: readings to come
  std::vector<File> files_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_SOURCE_HASHES_H_
