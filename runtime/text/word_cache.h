// Remembers the ids of words seen before in the text being encoded.
#ifndef DEEPSLICE_RUNTIME_TEXT_WORD_CACHE_H_
#define DEEPSLICE_RUNTIME_TEXT_WORD_CACHE_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "schema/base/digest.h"

namespace deepslice {

// A direct-mapped table that stores neither text nor ids: an entry points at an
// earlier place of the text and of the ids written so far.
class WordCache {
 public:
  struct Entry {
    uint32_t begin = 0;  // in the text
    uint32_t size = 0;
    uint32_t first = 0;  // in the ids
    uint32_t count = 0;  // 0: not known
    uint32_t text = 0;   // which text, counted by NewText
  };

  // Once, with the size of everything that is to be encoded: a short text is
  // not worth a table.
  void Reset(size_t text_bytes) {
    size_t size = 1;
    while (size < kMaxEntries && size * 32 < text_bytes) size *= 2;
    entries_.assign(size, Entry());
  }
  // Before words of another text: what is stored points into the last one, and
  // is void.
  void NewText() { ++text_; }
  // The place of `word` in the table; its count is 0 unless it is this word.
  Entry* Find(absl::string_view text, absl::string_view word) {
    Entry* e = &entries_[Xxh3(word) & (entries_.size() - 1)];
    const bool known = e->count > 0 && e->text == text_ &&
                       text.substr(e->begin, e->size) == word;
    if (!known) e->count = 0;
    return e;
  }
  void Keep(uint32_t begin, absl::string_view word, size_t first, size_t count,
            Entry* e) {
    *e = {begin, static_cast<uint32_t>(word.size()),
          static_cast<uint32_t>(first), static_cast<uint32_t>(count), text_};
  }
  static void CopyIds(const Entry& e, std::vector<int32_t>* ids) {
    for (uint32_t i = 0; i < e.count; ++i) {
      ids->push_back((*ids)[e.first + i]);
    }
  }

 private:
  static constexpr size_t kMaxEntries = 1 << 13;
  std::vector<Entry> entries_{1};
  uint32_t text_ = 0;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_WORD_CACHE_H_
