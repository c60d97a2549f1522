// What the steps of one call may make of a text: a chain of steps, each of
// which doubles it, or a pattern that backtracks, must come to an end.
#ifndef DEEPSLICE_RUNTIME_TEXT_TEXT_ALLOWANCE_H_
#define DEEPSLICE_RUNTIME_TEXT_TEXT_ALLOWANCE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

namespace deepslice {

// Of one thread. Steps of a call draw on it together.
struct TextAllowance {
  TextAllowance() : TextAllowance(0) {}
  explicit TextAllowance(size_t text_bytes);

  // More text to work on: `bytes` of it.
  void Add(size_t bytes);
  // Takes `n` bytes that a step writes; ResourceExhausted when they are more
  // than what is left.
  absl::Status Write(uint64_t n);

  uint64_t bytes;        // that steps may still write
  uint64_t regex_steps;  // that slow matches may still take
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_TEXT_ALLOWANCE_H_
