// Remembers the ids of words, from text to text.
#ifndef DEEPSLICE_RUNTIME_TEXT_WORD_CACHE_H_
#define DEEPSLICE_RUNTIME_TEXT_WORD_CACHE_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "schema/base/digest.h"

namespace deepslice {

// A direct-mapped table of words with their text and ids. It grows with what
// was asked of it: a short text is not worth a large table.
class WordCache {
 public:
  static constexpr size_t kMaxWordBytes = 22;
  static constexpr size_t kMaxIds = 10;

  struct Entry {
    uint8_t size = 0;
    uint8_t count = 0;  // 0: not known
    char text[kMaxWordBytes];
    int32_t ids[kMaxIds];
  };
  static_assert(sizeof(Entry) == 64);

  // Longer words, where whole lines are words.
  static constexpr size_t kMaxLongBytes = 256;
  struct LongEntry {
    std::string text;  // empty: not known
    std::vector<int32_t> ids;
  };

  // Before a text of so many bytes.
  void Expect(size_t bytes) {
    bytes_ += bytes;
    size_t size = entries_.size();
    while (size < kMaxEntries && size * 32 < bytes_) size *= 2;
    if (size != entries_.size()) entries_.assign(size, Entry());
    size = long_.size();
    while (size < kMaxLongEntries && size * 512 < bytes_) size *= 2;
    if (size != long_.size()) long_.assign(size, LongEntry());
  }
  // The place of `word`, which has at most kMaxWordBytes; its count is 0 unless
  // it holds this word.
  Entry* Find(absl::string_view word) {
    Entry* e = &entries_[Hash(word) & (entries_.size() - 1)];
    if (e->size != word.size() ||
        std::memcmp(e->text, word.data(), word.size()) != 0) {
      e->count = 0;
    }
    return e;
  }
  // The place of a word of at most kMaxLongBytes.
  LongEntry* FindLong(absl::string_view word) {
    LongEntry* e = &long_[Xxh3(word) & (long_.size() - 1)];
    if (e->text != word) e->text.clear();
    return e;
  }
  static void Keep(absl::string_view word, const int32_t* ids, size_t count,
                   Entry* e) {
    if (count > kMaxIds) return;
    e->size = static_cast<uint8_t>(word.size());
    e->count = static_cast<uint8_t>(count);
    std::memcpy(e->text, word.data(), word.size());
    std::copy_n(ids, count, e->ids);  // of a dropped word: none at nullptr
  }

 private:
  static constexpr size_t kMaxEntries = 1 << 14;
  static constexpr size_t kMaxLongEntries = 1 << 12;

  static uint64_t Load(const char* p, size_t n) {
    uint64_t v = 0;
    std::memcpy(&v, p, n);
    return v;
  }
  static uint64_t Hash(absl::string_view w) {
    const size_t n = w.size();
    const char* p = w.data();
    uint64_t a, b;
    if (n >= 8) {
      a = Load(p, 8);
      b = Load(p + n - 8, 8);
      if (n > 16) a ^= Load(p + 8, 8) * 0x9E3779B97F4A7C15u;
    } else if (n >= 4) {
      a = Load(p, 4);
      b = Load(p + n - 4, 4);
    } else {
      a = n > 0 ? static_cast<uint8_t>(p[0]) : 0;
      b = n > 0 ? static_cast<uint64_t>(static_cast<uint8_t>(p[n / 2])) << 8 |
                      static_cast<uint8_t>(p[n - 1])
                : 0;
    }
    a = (a ^ n) * 0x9E3779B97F4A7C15u;
    b = (b ^ (a >> 29)) * 0xBF58476D1CE4E5B9u;
    b ^= b >> 32;
    return b * 0x94D049BB133111EBu >> 20;
  }

  std::vector<Entry> entries_{1};
  std::vector<LongEntry> long_{1};
  size_t bytes_ = 0;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_WORD_CACHE_H_
