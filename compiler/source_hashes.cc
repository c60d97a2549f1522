#include "compiler/source_hashes.h"

#include <algorithm>
#include <utility>

#include "compiler/plan_folder.h"
#include "schema/base/check.h"

namespace deepslice {
namespace {

// Hashed between looks at an interruption; less is left to wait for more.
constexpr uint64_t kPart = 16 << 20;
// Parts before others have their turn.
constexpr int kTurn = 4;

}  // namespace

SourceHashes::SourceHashes(const Checkpoint* checkpoint, JobQueue* jobs,
                           std::function<void(uint64_t)> hashed)
    : checkpoint_(checkpoint),
      jobs_(*jobs),
      hashed_(std::move(hashed)),
      awaited_(checkpoint == nullptr ? 0 : checkpoint->tensors().size()),
      files_(checkpoint == nullptr ? 0 : checkpoint->files().size()) {}

void SourceHashes::ForEachTensor(const Weight& w,
                                 const std::function<void(size_t)>& f) {
  if (checkpoint_ == nullptr) return;
  for (const SourcePiece& piece : w.source.pieces) {
    const TensorInfo* t = checkpoint_->Find(piece.tensor);
    if (t != nullptr) f(t - checkpoint_->tensors().data());
  }
}

void SourceHashes::Expect(const Weight& w) {
  ForEachTensor(w, [&](size_t tensor) { ++awaited_[tensor]; });
}

void SourceHashes::Start() {
  absl::MutexLock lock(&mutex_);
  for (size_t i = 0; i < awaited_.size(); ++i) {
    const TensorInfo& t = checkpoint_->tensors()[i];
    if (awaited_[i] == 0 || t.synthetic.has_value()) continue;
    if (t.parts.empty()) files_[t.file].regions.push_back({t.offset, i});
    for (const TensorPart& part : t.parts) {
      files_[part.file].regions.push_back({part.offset, i});
    }
  }
  for (size_t i = 0; i < files_.size(); ++i) {
    std::sort(
        files_[i].regions.begin(), files_[i].regions.end(),
        [](const Region& a, const Region& b) { return a.begin < b.begin; });
    QueueLocked(i);
  }
}

void SourceHashes::Done(const Weight& w) {
  absl::MutexLock lock(&mutex_);
  ForEachTensor(w, [&](size_t tensor) {
    DS_CHECK(awaited_[tensor] > 0);
    if (--awaited_[tensor] > 0) return;
    const TensorInfo& t = checkpoint_->tensors()[tensor];
    if (t.synthetic.has_value()) return;
    if (t.parts.empty()) QueueLocked(t.file);
    for (const TensorPart& part : t.parts) QueueLocked(part.file);
  });
}

uint64_t SourceHashes::ready(size_t i) {
  absl::MutexLock lock(&mutex_);
  return ReadyLocked(i);
}

uint64_t SourceHashes::ReadyLocked(size_t i) {
  File& file = files_[i];
  while (file.next < file.regions.size() &&
         awaited_[file.regions[file.next].tensor] == 0) {
    ++file.next;
  }
  const uint64_t size = checkpoint_->files()[i].size;
  return file.next == file.regions.size()
             ? size
             : std::min(size, file.regions[file.next].begin);
}

void SourceHashes::QueueLocked(size_t i) {
  File& file = files_[i];
  if (file.queued) return;
  const uint64_t ready = ReadyLocked(i);
  const bool last = file.next == file.regions.size();
  if (last ? !file.sha256.empty() : ready < file.hashed + kPart) return;
  file.queued = true;
  // What has just been read comes first, while it is in memory; a file that
  // nobody reads can wait.
  if (file.regions.empty()) {
    jobs_.Add([this, i] { return Hash(i); });
  } else {
    jobs_.AddFirst([this, i] { return Hash(i); });
  }
}

absl::Status SourceHashes::Hash(size_t i) {
  File& file = files_[i];
  const absl::string_view bytes = checkpoint_->file_bytes(i);
  for (int part = 0; part < kTurn; ++part) {
    if (PlanWritingInterrupted()) return absl::CancelledError("interrupted");
    const uint64_t end = std::min(ready(i), file.hashed + kPart);
    if (end <= file.hashed) break;
    file.sha.Update(bytes.data() + file.hashed, end - file.hashed);
    hashed_(end - file.hashed);
    file.hashed = end;
  }
  absl::MutexLock lock(&mutex_);
  file.queued = false;
  if (file.hashed == bytes.size()) {
    file.sha256 = file.sha.Finish();
  } else {
    QueueLocked(i);
  }
  return absl::OkStatus();
}

}  // namespace deepslice
