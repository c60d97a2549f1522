// sentencepiece's compiled map from strings to their normalised form.
#ifndef DEEPSLICE_RUNTIME_TEXT_CHARSMAP_H_
#define DEEPSLICE_RUNTIME_TEXT_CHARSMAP_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace deepslice {

// A double-array trie and the strings its values point at. Immutable,
// thread-safe.
class Charsmap {
 public:
  // `blob`: the trie's size in bytes as 4 bytes, the trie, the strings, each
  // ended by a zero byte. InvalidArgument for one that is cut, points outside
  // or holds a string longer than a token may be; a walk then can't leave it,
  // whatever its units hold.
  static absl::StatusOr<Charsmap> Parse(absl::string_view blob);

  // The longest (else the shortest) rule that text[pos:] starts with: whether
  // there is one, its size in the text and what it becomes. No rule is longer
  // than a token may be: units that lead in a circle end there.
  bool Find(absl::string_view text, size_t pos, bool longest, size_t* size,
            absl::string_view* replacement) const;

 private:
  std::vector<uint32_t> units_;
  std::string strings_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_CHARSMAP_H_
