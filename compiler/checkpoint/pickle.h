// A machine for Python's pickles that builds data and calls nothing.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_PICKLE_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_PICKLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/checkpoint/pickle_value.h"
#include "schema/base/limits.h"

namespace deepslice::pickle {

// What one file may use; pickles in it take from the same.
struct Budget {
  int64_t ops = limits::kPickleOps;
  int64_t memo = limits::kPickleMemo;
  // Set when a pickle asked for what runs code; its error is then final.
  bool hostile = false;
};

struct Pickle {
  const Value* root = nullptr;  // in the heap
  size_t end = 0;               // behind STOP
  // Strings of bytes, which may be pickles themselves.
  std::vector<absl::string_view> blobs;
  std::vector<const Value*> storages;  // every kStorage
};

// Runs the pickle that begins at byte `begin` of `bytes`, which must outlive
// `heap`. Every opcode checks what it takes; classes and functions stay names
// (kGlobal), and what they would be called for becomes a kObject that keeps
// their arguments, but for the few that pickle_calls.h knows. Errors begin with
// "byte N: OPCODE: ".
//   InvalidArgument    the pickle breaks the format, or would run code: names
//                      that IsHostileName refuses, INST, OBJ, EXT1, EXT2, EXT4
//   DataLoss           it is cut
//   ResourceExhausted  beyond limits.h
absl::StatusOr<Pickle> ReadPickle(absl::string_view bytes, size_t begin,
                                  Heap& heap, Budget& budget);

// Runs every blob, and the blobs of blobs, for what would run code: an error is
// only that. What is no pickle is nothing.
absl::Status CheckBlobs(const std::vector<absl::string_view>& blobs, Heap& heap,
                        Budget& budget);

}  // namespace deepslice::pickle

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_PICKLE_H_
