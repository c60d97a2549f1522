// Byte-pair encoding of one pre-token: merges the pair of highest priority,
// leftmost first, until none is left.
#ifndef DEEPSLICE_RUNTIME_TEXT_BPE_H_
#define DEEPSLICE_RUNTIME_TEXT_BPE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "runtime/text/tokenizer_spec.h"

namespace deepslice {

// Text of tokens to their ids.
using TokenIndex = absl::flat_hash_map<absl::string_view, int32_t>;

// Immutable and thread-safe; `spec` and `index` outlive it.
class Bpe {
 public:
  // Working memory of one thread, kept from word to word.
  struct Scratch {
    std::vector<int32_t> ids;
    std::vector<uint32_t> ranks;
    std::vector<int32_t> previous, next;
    std::vector<uint64_t> heap;
    std::string mapped;
  };

  // `raw_bytes`: words are bytes, each the character of the byte alphabet.
  Bpe(const TokenizerSpec& spec, const TokenIndex& index, bool raw_bytes);

  // Appends the ids of `word`, which is not empty.
  void Encode(absl::string_view word, Scratch* scratch,
              std::vector<int32_t>* out) const;

 private:
  static constexpr uint32_t kNoRank = UINT32_MAX;
  struct Slot {
    uint64_t pair;
    uint32_t rank;
    int32_t merged;
  };

  // The slot of a pair; its rank is kNoRank when there is no such merge.
  const Slot& Find(int32_t left, int32_t right) const {
    return slots_[SlotOf(left, right)];
  }
  // Where the pair is or would be put.
  size_t SlotOf(int32_t left, int32_t right) const;
  uint32_t RankOf(int32_t left, int32_t right) const {
    return Find(left, right).rank;
  }
  void Insert(const BpeMerge& merge, uint32_t rank);
  int32_t ModelToken(absl::string_view text) const;
  void Symbols(absl::string_view word, std::vector<int32_t>* ids) const;
  void MergeShort(Scratch* scratch) const;
  void MergeLong(Scratch* scratch) const;

  const TokenizerSpec& spec_;
  const TokenIndex& index_;
  const bool raw_bytes_;
  std::array<int32_t, 256> byte_ids_;
  std::vector<Slot> slots_;  // open addressing, a power of two
  int shift_ = 0;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_BPE_H_
