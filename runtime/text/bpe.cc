// Byte-pair encoding: a scan for short words, a heap for long ones.
#include "runtime/text/bpe.h"

#include <algorithm>
#include <functional>

#include "runtime/text/byte_level.h"
#include "runtime/text/utf8.h"

namespace deepslice {
namespace {

constexpr uint64_t kEmpty = UINT64_MAX;
// Below this many symbols a scan over all ranks beats the heap.
constexpr size_t kShortWord = 32;

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
  for (size_t i = 0; i < spec.merges.size(); ++i) {
    Insert(spec.merges[i], static_cast<uint32_t>(i));
  }
  for (int b = 0; b < 256; ++b) {
    std::string text;
    AppendUtf8(ByteLevelCharacter(static_cast<uint8_t>(b)), &text);
    byte_ids_[b] = ModelToken(text);
  }
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

int32_t Bpe::ModelToken(absl::string_view text) const {
  const auto it = index_.find(text);
  if (it == index_.end()) return -1;
  return spec_.token_bits[it->second] & kTokenInModel ? it->second : -1;
}

// The word as single characters. Unknown ones become unk_id, neighbours one
// when fuse_unk, or vanish when there is no unk_id.
void Bpe::Symbols(absl::string_view word, std::vector<int32_t>* ids) const {
  ids->clear();
  bool after_unknown = false;
  const auto add = [&](int32_t id) {
    if (id >= 0) {
      ids->push_back(id);
      after_unknown = false;
    } else if (spec_.unk_id >= 0) {
      if (!after_unknown || !spec_.fuse_unk) ids->push_back(spec_.unk_id);
      after_unknown = true;
    }
  };
  if (raw_bytes_) {
    for (char c : word) add(byte_ids_[static_cast<uint8_t>(c)]);
  } else {
    for (size_t pos = 0; pos < word.size();) {
      const size_t size = DecodeUtf8(word, pos).size;
      add(ModelToken(word.substr(pos, size)));
      pos += size;
    }
  }
}

void Bpe::MergeShort(Scratch* s) const {
  size_t n = s->ids.size();
  s->ranks.resize(n);
  for (size_t i = 0; i + 1 < n; ++i) {
    s->ranks[i] = RankOf(s->ids[i], s->ids[i + 1]);
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
    if (i + 1 < n) s->ranks[i] = RankOf(s->ids[i], s->ids[i + 1]);
    if (i > 0) s->ranks[i - 1] = RankOf(s->ids[i - 1], s->ids[i]);
  }
  s->ids.resize(n);
}

void Bpe::MergeLong(Scratch* s) const {
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
    if (i + 1 < n) s->ranks[i] = RankOf(s->ids[i], s->ids[i + 1]);
    if (s->ranks[i] != kNoRank) s->heap.push_back(entry(s->ranks[i], i));
  }
  const auto later = std::greater<uint64_t>();
  std::make_heap(s->heap.begin(), s->heap.end(), later);
  const auto update = [&](int32_t i) {
    const int32_t j = s->next[i];
    s->ranks[i] = j < n ? RankOf(s->ids[i], s->ids[j]) : kNoRank;
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
    s->ids[j] = -1;
    s->ranks[j] = kNoRank;
    s->next[i] = s->next[j];
    if (s->next[i] < n) s->previous[s->next[i]] = i;
    update(i);
    if (s->previous[i] >= 0) update(s->previous[i]);
  }
  s->ids.erase(std::remove(s->ids.begin(), s->ids.end(), -1), s->ids.end());
}

void Bpe::Encode(absl::string_view word, Scratch* s,
                 std::vector<int32_t>* out) const {
  if (spec_.ignore_merges) {
    absl::string_view text = word;
    if (raw_bytes_) {
      s->mapped.clear();
      AppendByteLevel(word, &s->mapped);
      text = s->mapped;
    }
    // Not a special token: those come from the matcher of added tokens alone.
    const int32_t id = ModelToken(text);
    if (id >= 0 && !(spec_.token_bits[id] & kTokenSpecial)) {
      out->push_back(id);
      return;
    }
  }
  Symbols(word, &s->ids);
  if (s->ids.size() <= kShortWord) {
    MergeShort(s);
  } else {
    MergeLong(s);
  }
  out->insert(out->end(), s->ids.begin(), s->ids.end());
}

}  // namespace deepslice
