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
#include "runtime/text/byte_trie.h"
#include "runtime/text/token_model.h"
#include "runtime/text/tokenizer_spec.h"

namespace deepslice {

class Bpe final : public TokenModel {
 public:
  Bpe(const TokenizerSpec& spec, const TokenIndex& index, bool raw_bytes);

  absl::Status Encode(absl::string_view word, Scratch* scratch,
                      std::vector<int32_t>* out) const override;
  bool CutsAtSpaceSymbol() const override { return cuts_; }

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
  // The rank of two neighbours of a word; remembers how to take back a merge
  // that gives an unused token.
  uint32_t RankOf(int32_t left, int32_t right, Scratch* s) const;
  void Insert(const BpeMerge& merge, uint32_t rank);
  bool CanCut() const;

  // The word as symbols: ids of tokens, of spec.extra_symbols, or what
  // UnknownSymbol and FrozenSymbol of the .cc give.
  void Symbols(absl::string_view word, Scratch* s) const;
  void PublishedSymbols(absl::string_view word, Scratch* s) const;
  void SentencePieceSymbols(absl::string_view word, Scratch* s) const;
  void MergeShort(Scratch* s) const;
  void MergeLong(Scratch* s) const;
  void Emit(int32_t symbol, const Scratch& s, int depth, bool* after_unknown,
            std::vector<int32_t>* out) const;

  const TokenizerSpec& spec_;
  const TokenIndex& index_;
  const bool raw_bytes_;
  bool cuts_ = false;
  bool unused_ = false;  // some merge gives an unused token
  bool affixes_ = false;
  std::array<int32_t, 256> byte_ids_;             // of the byte alphabet
  std::vector<int32_t> fallback_ids_;             // of <0x00> to <0xFF>
  absl::flat_hash_map<uint32_t, int32_t> extra_;  // character to symbol
  ByteTrie user_defined_;
  std::vector<Slot> slots_;  // open addressing, a power of two
  int shift_ = 0;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_BPE_H_
