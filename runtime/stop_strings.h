// Ends a growing text at the first of some strings, wherever the pieces in
// which it comes are cut.
#ifndef DEEPSLICE_RUNTIME_STOP_STRINGS_H_
#define DEEPSLICE_RUNTIME_STOP_STRINGS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace deepslice {

// Gives text on as soon as no stop string can begin in it: what Add and Finish
// gave, joined, is all that was added, up to the stop string.
class StopStrings {
 public:
  // Empty strings are left out.
  explicit StopStrings(std::vector<std::string> stops);

  // Adds a piece, and appends to *out what can be given on. The number of the
  // stop string that was found, of several the first in the text, then the
  // longest; -1: none. While not `armed` a string that is whole is let through.
  // Nothing may be added behind a stop.
  int Add(absl::string_view piece, bool armed, std::string* out);
  // At the end without a stop: appends what is still held back.
  void Finish(std::string* out);

 private:
  // Bytes at the end of held_ that may begin a stop string.
  size_t Head() const;

  const std::vector<std::string> stops_;
  size_t longest_ = 0;
  std::string held_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_STOP_STRINGS_H_
