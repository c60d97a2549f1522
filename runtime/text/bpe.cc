// Byte-pair encoding: a scan for short words, a heap for long ones.
#include "runtime/text/bpe.h"

#include <algorithm>
#include <functional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/text/byte_level.h"
#include "runtime/text/utf8.h"

namespace deepslice {
namespace {

using token_model::kSpaceSymbol;
constexpr uint32_t kSpaceCp = 0x2581;

constexpr uint64_t kEmpty = UINT64_MAX;
// Below this many symbols a scan over all ranks beats the heap.
constexpr size_t kShortWord = 32;

// A symbol that is never merged: one that a user defined, as sentencepiece
// finds it, or a character that is no token and in no merge. Ids are below
// 2^25.
constexpr int32_t kFrozen = 1 << 30;
int32_t UnknownSymbol(uint32_t cp) { return -2 - static_cast<int32_t>(cp); }
uint32_t UnknownCharacter(int32_t symbol) {
  return static_cast<uint32_t>(-2 - symbol);
}

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
}

// Multiplies by 2^64 over the golden ratio and folds, so that the top bits
// depend on both ids.
uint64_t Mix(uint64_t key) {
  key *= 0x9E3779B97F4A7C15u;
  key ^= key >> 32;
  return key * 0x9E3779B97F4A7C15u;
}

}  // namespace

Bpe::Bpe(const TokenizerSpec& spec, const TokenIndex& index, bool raw_bytes)
    : spec_(spec), index_(index), raw_bytes_(raw_bytes) {
  int bits = 4;
  while ((size_t{1} << bits) < 2 * spec.merges.size()) ++bits;
  slots_.assign(size_t{1} << bits, {kEmpty, kNoRank, 0});
  shift_ = 64 - bits;
  uint32_t rank = 0;
  for (size_t i = 0; i < spec.merges.size(); ++i) {
    const BpeMerge& m = spec.merges[i];
    if (i > 0 && !m.same_rank) ++rank;
    if (!token_model::Makes(spec, m.merged)) continue;
    Insert(m, rank);
    unused_ |= (spec.token_bits[m.merged] & kTokenUnused) != 0;
  }
  for (int b = 0; b < 256; ++b) {
    std::string text;
    AppendUtf8(ByteLevelCharacter(static_cast<uint8_t>(b)), &text);
    byte_ids_[b] = token_model::Find(spec, index, text);
  }
  if (spec.byte_fallback) {
    fallback_ids_ = token_model::ByteTokens(spec, index);
  }
  affixes_ =
      !spec.continuing_prefix.empty() || !spec.end_of_word_suffix.empty();
  for (size_t i = 0; i < spec.extra_symbols.size(); ++i) {
    extra_.emplace(spec.extra_symbols[i],
                   spec.vocab_size() + static_cast<int32_t>(i));
  }
  if (spec.sentencepiece) {
    std::vector<std::pair<absl::string_view, int32_t>> keys;
    for (int32_t id = 0; id < spec.vocab_size(); ++id) {
      if (spec.token_bits[id] & kTokenUserDefined && !spec.token(id).empty()) {
        keys.emplace_back(spec.token(id), id);
      }
    }
    if (!keys.empty()) user_defined_.Build(std::move(keys));
  }
  cuts_ = CanCut();
}

// No merge, token or run of unknown characters may reach over the border.
bool Bpe::CanCut() const {
  if (raw_bytes_ || affixes_ || unused_ || spec_.ignore_merges ||
      token_model::Find(spec_, index_, kSpaceSymbol) < 0) {
    return false;
  }
  const auto starts = [&](int32_t symbol) {
    return symbol < spec_.vocab_size()
               ? absl::StartsWith(spec_.token(symbol), kSpaceSymbol)
               : spec_.extra_symbols[symbol - spec_.vocab_size()] == kSpaceCp;
  };
  const auto ends = [&](int32_t symbol) {
    return symbol < spec_.vocab_size()
               ? absl::EndsWith(spec_.token(symbol), kSpaceSymbol)
               : spec_.extra_symbols[symbol - spec_.vocab_size()] == kSpaceCp;
  };
  for (const BpeMerge& m : spec_.merges) {
    if (starts(m.right) && !ends(m.left)) return false;
  }
  for (int32_t id = 0; id < spec_.vocab_size(); ++id) {
    if ((spec_.token_bits[id] & kTokenUserDefined) &&
        spec_.token(id).find(kSpaceSymbol) != absl::string_view::npos) {
      return false;
    }
  }
  return true;
}

size_t Bpe::SlotOf(int32_t left, int32_t right) const {
  const uint64_t key = PairKey(left, right);
  const size_t mask = slots_.size() - 1;
  for (size_t i = Mix(key) >> shift_;; i = (i + 1) & mask) {
    if (slots_[i].pair == key || slots_[i].pair == kEmpty) return i;
  }
}

// The last of equal pairs counts.
void Bpe::Insert(const BpeMerge& merge, uint32_t rank) {
  slots_[SlotOf(merge.left, merge.right)] = {PairKey(merge.left, merge.right),
                                             rank, merge.merged};
}

uint32_t Bpe::RankOf(int32_t left, int32_t right, Scratch* s) const {
  if ((left | right) < 0) return kNoRank;
  const Slot& slot = Find(left, right);
  if (unused_ && slot.rank != kNoRank &&
      (spec_.token_bits[slot.merged] & kTokenUnused)) {
    s->unmerge[slot.merged] = {left, right};
  }
  return slot.rank;
}

void Bpe::Symbols(absl::string_view word, Scratch* s) const {
  s->ids.clear();
  if (spec_.sentencepiece) {
    SentencePieceSymbols(word, s);
  } else {
    PublishedSymbols(word, s);
  }
}

// Unknown characters become unk_id, neighbours one when fuse_unk, or vanish
// when there is no unk_id. An unknown one is written when the next known one
// comes, as the published tokenizers do: bytes of a fallback go before it.
void Bpe::PublishedSymbols(absl::string_view word, Scratch* s) const {
  std::vector<int32_t>* ids = &s->ids;
  int pending = 0;  // unknown tokens that are not written yet: 0 or 1
  const auto unknown = [&] {
    if (spec_.unk_id < 0) return;
    if (pending == 1 && !spec_.fuse_unk) ids->push_back(spec_.unk_id);
    pending = 1;
  };
  const auto known = [&](int32_t id) {
    if (pending == 1) ids->push_back(spec_.unk_id);
    pending = 0;
    ids->push_back(id);
  };
  const auto fall_back = [&](absl::string_view text) {
    if (!spec_.byte_fallback) return false;
    for (char c : text) {
      if (fallback_ids_[static_cast<uint8_t>(c)] < 0) return false;
    }
    for (char c : text) ids->push_back(fallback_ids_[static_cast<uint8_t>(c)]);
    return true;
  };
  if (raw_bytes_ && !affixes_) {
    for (char c : word) {
      const int32_t id = byte_ids_[static_cast<uint8_t>(c)];
      if (id >= 0) {
        known(id);
        continue;
      }
      std::string text;
      AppendByteLevel(absl::string_view(&c, 1), &text);
      if (!fall_back(text)) unknown();
    }
  } else {
    if (raw_bytes_) {
      s->mapped.clear();
      AppendByteLevel(word, &s->mapped);
      word = s->mapped;
    }
    std::string affixed;
    for (size_t pos = 0; pos < word.size();) {
      const size_t size = DecodeUtf8(word, pos).size;
      absl::string_view text = word.substr(pos, size);
      if (affixes_) {
        affixed = absl::StrCat(
            pos > 0 ? spec_.continuing_prefix : "", text,
            pos + size == word.size() ? spec_.end_of_word_suffix : "");
        text = affixed;
      }
      const int32_t id = token_model::Find(spec_, index_, text);
      if (id >= 0) {
        known(id);
      } else if (!fall_back(text)) {
        unknown();
      }
      pos += size;
    }
  }
  if (pending == 1) ids->push_back(spec_.unk_id);
}

void Bpe::SentencePieceSymbols(absl::string_view word, Scratch* s) const {
  for (size_t pos = 0; pos < word.size();) {
    size_t size = 0;
    const int32_t symbol =
        user_defined_.empty() ? -1 : user_defined_.Longest(word, pos, &size);
    if (symbol >= 0) {
      s->ids.push_back(symbol | kFrozen);
      pos += size;
      continue;
    }
    const CodePoint c = DecodeUtf8(word, pos);
    int32_t id = token_model::Find(spec_, index_, word.substr(pos, c.size));
    if (id < 0) {
      const auto it = extra_.find(c.value);
      id = it == extra_.end() ? UnknownSymbol(c.value) : it->second;
    }
    s->ids.push_back(id);
    pos += c.size;
  }
}

void Bpe::MergeShort(Scratch* s) const {
  size_t n = s->ids.size();
  s->ranks.resize(n);
  for (size_t i = 0; i + 1 < n; ++i) {
    s->ranks[i] = RankOf(s->ids[i], s->ids[i + 1], s);
  }
  while (n > 1) {
    const auto best =
        std::min_element(s->ranks.begin(), s->ranks.begin() + n - 1);
    if (*best == kNoRank) break;
    const size_t i = best - s->ranks.begin();
    s->ids[i] = Find(s->ids[i], s->ids[i + 1]).merged;
    std::copy(s->ids.begin() + i + 2, s->ids.begin() + n,
              s->ids.begin() + i + 1);
    std::copy(s->ranks.begin() + i + 2, s->ranks.begin() + n,
              s->ranks.begin() + i + 1);
    --n;
    if (i > 0) s->ranks[i - 1] = RankOf(s->ids[i - 1], s->ids[i], s);
    if (i + 1 < n) s->ranks[i] = RankOf(s->ids[i], s->ids[i + 1], s);
  }
  s->ids.resize(n);
}

void Bpe::MergeLong(Scratch* s) const {
  constexpr int32_t kGone = INT32_MAX;
  const auto n = static_cast<int32_t>(s->ids.size());
  s->ranks.assign(n, kNoRank);
  s->previous.resize(n);
  s->next.resize(n);
  s->heap.clear();
  const auto entry = [](uint32_t rank, int32_t pos) {
    return static_cast<uint64_t>(rank) << 32 | static_cast<uint32_t>(pos);
  };
  for (int32_t i = 0; i < n; ++i) {
    s->previous[i] = i - 1;
    s->next[i] = i + 1;
    if (i + 1 < n) s->ranks[i] = RankOf(s->ids[i], s->ids[i + 1], s);
    if (s->ranks[i] != kNoRank) s->heap.push_back(entry(s->ranks[i], i));
  }
  const auto later = std::greater<uint64_t>();
  std::make_heap(s->heap.begin(), s->heap.end(), later);
  const auto update = [&](int32_t i) {
    const int32_t j = s->next[i];
    s->ranks[i] = j < n ? RankOf(s->ids[i], s->ids[j], s) : kNoRank;
    if (s->ranks[i] == kNoRank) return;
    s->heap.push_back(entry(s->ranks[i], i));
    std::push_heap(s->heap.begin(), s->heap.end(), later);
  };
  while (!s->heap.empty()) {
    std::pop_heap(s->heap.begin(), s->heap.end(), later);
    const uint64_t top = s->heap.back();
    s->heap.pop_back();
    const auto i = static_cast<int32_t>(top & UINT32_MAX);
    // Entries of pairs that are gone stay in the heap until they come up.
    if (s->ranks[i] != top >> 32) continue;
    const int32_t j = s->next[i];
    s->ids[i] = Find(s->ids[i], s->ids[j]).merged;
    s->ids[j] = kGone;
    s->ranks[j] = kNoRank;
    s->next[i] = s->next[j];
    if (s->next[i] < n) s->previous[s->next[i]] = i;
    if (s->previous[i] >= 0) update(s->previous[i]);
    update(i);
  }
  s->ids.erase(std::remove(s->ids.begin(), s->ids.end(), kGone), s->ids.end());
}

// sentencepiece's last step: unused tokens fall apart again, unknown characters
// become bytes or, a run of them, one unknown token.
void Bpe::Emit(int32_t symbol, const Scratch& s, int depth, bool* after_unknown,
               std::vector<int32_t>* out) const {
  if (symbol >= kFrozen) symbol -= kFrozen;
  if (symbol >= 0 && symbol < spec_.vocab_size()) {
    if (spec_.token_bits[symbol] & kTokenUnused) {
      const auto it = s.unmerge.find(symbol);
      // A token's parts are shorter than it is; the depth bounds damage.
      if (it != s.unmerge.end() && depth < 8192) {
        Emit(it->second.first, s, depth + 1, after_unknown, out);
        Emit(it->second.second, s, depth + 1, after_unknown, out);
        return;
      }
    }
    out->push_back(symbol);
    *after_unknown = false;
    return;
  }
  std::string text;
  AppendUtf8(symbol < 0 ? UnknownCharacter(symbol)
                        : spec_.extra_symbols[symbol - spec_.vocab_size()],
             &text);
  bool bytes = spec_.byte_fallback;
  for (char c : text) {
    bytes = bytes && fallback_ids_[static_cast<uint8_t>(c)] >= 0;
  }
  if (bytes) {
    for (char c : text) {
      out->push_back(fallback_ids_[static_cast<uint8_t>(c)]);
    }
    *after_unknown = false;
    return;
  }
  if (spec_.unk_id >= 0 && !*after_unknown) out->push_back(spec_.unk_id);
  *after_unknown = true;
}

absl::Status Bpe::Encode(absl::string_view word, Scratch* s,
                         std::vector<int32_t>* out) const {
  if (spec_.ignore_merges) {
    absl::string_view text = word;
    if (raw_bytes_) {
      s->mapped.clear();
      AppendByteLevel(word, &s->mapped);
      text = s->mapped;
    }
    const int32_t id = token_model::Find(spec_, index_, text);
    if (id >= 0) {
      out->push_back(id);
      return absl::OkStatus();
    }
  }
  if (unused_) s->unmerge.clear();
  Symbols(word, s);
  if (s->ids.size() <= kShortWord) {
    MergeShort(s);
  } else {
    MergeLong(s);
  }
  if (!spec_.sentencepiece) {
    out->insert(out->end(), s->ids.begin(), s->ids.end());
    return absl::OkStatus();
  }
  bool after_unknown = false;
  for (int32_t symbol : s->ids) Emit(symbol, *s, 0, &after_unknown, out);
  return absl::OkStatus();
}

}  // namespace deepslice
