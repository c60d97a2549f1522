// Finds added tokens in a text before anything else looks at it.
#ifndef DEEPSLICE_RUNTIME_TEXT_ADDED_TOKENS_H_
#define DEEPSLICE_RUNTIME_TEXT_ADDED_TOKENS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "runtime/text/tokenizer_spec.h"

namespace deepslice {

// A stretch of text that is one added token, or (id -1) none.
struct AddedSegment {
  int32_t id;
  size_t begin;
  size_t end;
};

// Leftmost, longest matches of a set of tokens. Immutable, thread-safe.
class AddedTokenMatcher {
 public:
  // `text` of each token as it is to be found.
  void Add(const AddedToken& token, std::string text);
  // After the last Add.
  void Build();
  bool empty() const { return entries_.empty(); }

  // Covers `text` with segments; what white space a token takes is inside its
  // segment. A match for which `accept(token, begin, end)` is false stays text,
  // and no other token is looked for inside it.
  void Split(absl::string_view text,
             absl::FunctionRef<bool(const AddedToken&, size_t, size_t)> accept,
             std::vector<AddedSegment>* out) const;

 private:
  struct Entry {
    std::string text;
    AddedToken token;
  };
  // The longest entry that starts at text[pos]; null when none does.
  const Entry* Longest(absl::string_view text, size_t pos) const;

  std::vector<Entry> entries_;  // sorted by text
  // entries_[first_[b] : first_[b + 1]] start with byte b.
  std::array<uint32_t, 257> first_{};
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_ADDED_TOKENS_H_
