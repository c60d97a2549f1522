// The serialised form of a tokenizer: little-endian, sections in the order of
// TokenizerSpec, each array led by its length.
#include "runtime/text/tokenizer_spec.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/text/utf8.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// The last byte is the version.
constexpr char kMagic[] = "DSTOKEN\x01";
constexpr size_t kMagicSize = 8;

// Beyond these a file is damaged or hostile.
constexpr uint32_t kMaxTokenText = 1u << 30;
constexpr uint32_t kMaxSteps = 64;
constexpr uint32_t kMaxPatternBytes = 1 << 16;
constexpr uint32_t kMaxAffixIds = 1024;

constexpr uint8_t kFlagIgnoreMerges = 1, kFlagFuseUnk = 2;
constexpr uint8_t kFlagSingleWord = 1, kFlagLstrip = 2, kFlagRstrip = 4,
                  kFlagNormalized = 8, kFlagSpecial = 16;
constexpr uint8_t kFlagRegex = 1, kFlagInvert = 2, kFlagIndividual = 4,
                  kFlagPrefixSpace = 8, kFlagUseRegex = 16;

void PutU32(uint32_t v, std::string* out) {
  for (int i = 0; i < 4; ++i) out->push_back(static_cast<char>(v >> (8 * i)));
}

void PutString(absl::string_view s, std::string* out) {
  PutU32(static_cast<uint32_t>(s.size()), out);
  out->append(s.data(), s.size());
}

void PutIds(const std::vector<int32_t>& ids, std::string* out) {
  PutU32(static_cast<uint32_t>(ids.size()), out);
  for (int32_t id : ids) PutU32(static_cast<uint32_t>(id), out);
}

// Walks untrusted bytes; after the first failure every read gives zero and
// the failure is kept.
class Reader {
 public:
  explicit Reader(absl::string_view bytes) : bytes_(bytes) {}

  bool ok() const { return status_.ok(); }
  const absl::Status& status() const { return status_; }
  size_t left() const { return bytes_.size() - pos_; }

  void Fail(absl::string_view what) {
    if (!status_.ok()) return;
    status_ =
        absl::DataLossError(absl::StrCat("tokenizer tables: byte ", pos_, ": ",
                                         what, "; compile the plan again"));
  }

  const char* Take(uint64_t size, absl::string_view what) {
    if (!ok() || size > left()) {
      Fail(absl::StrCat(what, " needs ", size, " bytes, ", left(), " left"));
      return nullptr;
    }
    const char* p = bytes_.data() + pos_;
    pos_ += size;
    return p;
  }

  uint8_t U8(absl::string_view what) {
    const char* p = Take(1, what);
    return p ? static_cast<uint8_t>(*p) : 0;
  }

  uint32_t U32(absl::string_view what) {
    const char* p = Take(4, what);
    return p ? Load(p) : 0;
  }

  // A length whose items of `item_bytes` must still fit into what is left.
  uint32_t Count(uint64_t max, uint64_t item_bytes, absl::string_view what) {
    const uint32_t n = U32(what);
    if (n > max || n * item_bytes > left()) {
      Fail(absl::StrCat(what, " count is ", n, ", at most ", max, " and ",
                        left(), " bytes are possible"));
      return 0;
    }
    return n;
  }

  // An id below `vocab`, or -1 where `or_none`.
  int32_t Id(int32_t vocab, bool or_none, absl::string_view what) {
    const int32_t id = static_cast<int32_t>(U32(what));
    if (id >= vocab || id < (or_none ? -1 : 0)) {
      Fail(absl::StrCat(what, " is ", id, ", the vocabulary has ", vocab));
      return or_none ? -1 : 0;
    }
    return id;
  }

  uint8_t Flags(uint8_t known, absl::string_view what) {
    const uint8_t flags = U8(what);
    if (flags & ~known) Fail(absl::StrCat(what, " has unknown flags"));
    return flags & known;
  }

  template <typename Enum>
  Enum Kind(Enum first, Enum last, absl::string_view what) {
    const uint8_t v = U8(what);
    if (v < static_cast<uint8_t>(first) || v > static_cast<uint8_t>(last)) {
      Fail(absl::StrCat(what, " has unknown kind ", v));
      return first;
    }
    return static_cast<Enum>(v);
  }

  static uint32_t Load(const char* p) {
    uint32_t v = 0;
    for (int i = 0; i < 4; ++i) {
      v |= static_cast<uint32_t>(static_cast<uint8_t>(p[i])) << (8 * i);
    }
    return v;
  }

 private:
  absl::string_view bytes_;
  size_t pos_ = 0;
  absl::Status status_;
};

void ReadVocabulary(Reader& r, TokenizerSpec* spec) {
  const uint32_t n = r.Count(limits::kVocab, 5, "vocabulary");
  spec->token_ends.resize(n);
  const char* ends = r.Take(uint64_t{4} * n, "token ends");
  if (!ends) return;
  uint32_t previous = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t end = Reader::Load(ends + 4 * i);
    if (end < previous || end > kMaxTokenText) {
      return r.Fail(absl::StrCat("text of token ", i, " ends at ", end,
                                 ", before the one before it or too far"));
    }
    spec->token_ends[i] = previous = end;
  }
  if (const char* text = r.Take(previous, "token text")) {
    spec->token_text.assign(text, previous);
  }
  const char* bits = r.Take(n, "token roles");
  if (!bits) return;
  spec->token_bits.assign(bits, bits + n);
  for (uint32_t i = 0; i < n; ++i) {
    if (spec->token_bits[i] & ~(kTokenInModel | kTokenAdded | kTokenSpecial)) {
      return r.Fail(absl::StrCat("token ", i, " has unknown roles"));
    }
  }
}

void ReadModel(Reader& r, TokenizerSpec* spec) {
  const int32_t vocab = spec->vocab_size();
  spec->model = r.Kind(ModelKind::kBpe, ModelKind::kBpe, "model");
  const uint8_t flags = r.Flags(kFlagIgnoreMerges | kFlagFuseUnk, "model");
  spec->ignore_merges = flags & kFlagIgnoreMerges;
  spec->fuse_unk = flags & kFlagFuseUnk;
  spec->unk_id = r.Id(vocab, true, "unknown token");
  const uint32_t n = r.Count(limits::kTokenizerMerges, 12, "merges");
  const char* p = r.Take(uint64_t{12} * n, "merges");
  if (!p) return;
  spec->merges.resize(n);
  for (uint32_t i = 0; i < n; ++i, p += 12) {
    BpeMerge& m = spec->merges[i];
    m.left = static_cast<int32_t>(Reader::Load(p));
    m.right = static_cast<int32_t>(Reader::Load(p + 4));
    m.merged = static_cast<int32_t>(Reader::Load(p + 8));
    for (int32_t id : {m.left, m.right, m.merged}) {
      if (id < 0 || id >= vocab) {
        return r.Fail(absl::StrCat("merge ", i, " names token ", id,
                                   ", the vocabulary has ", vocab));
      }
    }
  }
}

void ReadAdded(Reader& r, TokenizerSpec* spec) {
  const uint32_t n = r.Count(limits::kAddedTokens, 5, "added tokens");
  std::vector<bool> seen(spec->token_ends.size());
  for (uint32_t i = 0; i < n && r.ok(); ++i) {
    AddedToken t;
    t.id = r.Id(spec->vocab_size(), false, "added token");
    const uint8_t flags = r.Flags(kFlagSingleWord | kFlagLstrip | kFlagRstrip |
                                      kFlagNormalized | kFlagSpecial,
                                  "added token");
    if (!r.ok()) return;
    t.single_word = flags & kFlagSingleWord;
    t.lstrip = flags & kFlagLstrip;
    t.rstrip = flags & kFlagRstrip;
    t.normalized = flags & kFlagNormalized;
    t.special = flags & kFlagSpecial;
    // Text that is not UTF-8 could match a part of a character.
    const absl::string_view text = spec->token(t.id);
    if (seen[t.id] || text.empty() || !IsValidUtf8(text) ||
        text.size() > static_cast<size_t>(limits::kAddedTokenBytes)) {
      return r.Fail(absl::StrCat("added token ", t.id,
                                 " is listed twice, "
                                 "empty, too long or not UTF-8"));
    }
    const uint8_t bits = kTokenAdded | (t.special ? kTokenSpecial : 0);
    if ((spec->token_bits[t.id] & (kTokenAdded | kTokenSpecial)) != bits) {
      return r.Fail(absl::StrCat("added token ", t.id,
                                 " differs from its entry in the vocabulary"));
    }
    seen[t.id] = true;
    spec->added.push_back(t);
  }
  for (int32_t id = 0; id < spec->vocab_size(); ++id) {
    if ((spec->token_bits[id] & (kTokenAdded | kTokenSpecial)) && !seen[id]) {
      return r.Fail(absl::StrCat("token ", id, " is no added token"));
    }
  }
}

void ReadSteps(Reader& r, TokenizerSpec* spec) {
  uint32_t n = r.Count(kMaxSteps, 1, "normalizers");
  for (uint32_t i = 0; i < n && r.ok(); ++i) {
    spec->normalizers.push_back(
        r.Kind(NormalizerKind::kNfc, NormalizerKind::kNfkd, "normalizer"));
  }
  n = r.Count(kMaxSteps, 7, "pre-tokenizers");
  for (uint32_t i = 0; i < n && r.ok(); ++i) {
    PreTokenizerStep s;
    s.kind = r.Kind(PreTokenizerKind::kSplit, PreTokenizerKind::kByteLevel,
                    "pre-tokenizer");
    s.behavior = r.Kind(SplitBehavior::kRemoved, SplitBehavior::kContiguous,
                        "split behavior");
    const uint8_t flags = r.Flags(kFlagRegex | kFlagInvert | kFlagIndividual |
                                      kFlagPrefixSpace | kFlagUseRegex,
                                  "pre-tokenizer");
    s.is_regex = flags & kFlagRegex;
    s.invert = flags & kFlagInvert;
    s.individual_digits = flags & kFlagIndividual;
    s.add_prefix_space = flags & kFlagPrefixSpace;
    s.use_regex = flags & kFlagUseRegex;
    const uint32_t size = r.Count(kMaxPatternBytes, 1, "pattern");
    if (const char* p = r.Take(size, "pattern")) s.pattern.assign(p, size);
    spec->pre_tokenizers.push_back(std::move(s));
  }
}

void ReadIds(Reader& r, int32_t vocab, absl::string_view what,
             std::vector<int32_t>* ids) {
  const uint32_t n = r.Count(kMaxAffixIds, 4, what);
  for (uint32_t i = 0; i < n && r.ok(); ++i) {
    ids->push_back(r.Id(vocab, false, what));
  }
}

}  // namespace

std::string SerializeTokenizer(const TokenizerSpec& spec) {
  std::string out(kMagic, kMagicSize);
  PutU32(static_cast<uint32_t>(spec.token_ends.size()), &out);
  for (uint32_t end : spec.token_ends) PutU32(end, &out);
  out += spec.token_text;
  out.append(spec.token_bits.begin(), spec.token_bits.end());

  out.push_back(static_cast<char>(spec.model));
  out.push_back((spec.ignore_merges ? kFlagIgnoreMerges : 0) |
                (spec.fuse_unk ? kFlagFuseUnk : 0));
  PutU32(static_cast<uint32_t>(spec.unk_id), &out);
  PutU32(static_cast<uint32_t>(spec.merges.size()), &out);
  for (const BpeMerge& m : spec.merges) {
    PutU32(static_cast<uint32_t>(m.left), &out);
    PutU32(static_cast<uint32_t>(m.right), &out);
    PutU32(static_cast<uint32_t>(m.merged), &out);
  }

  PutU32(static_cast<uint32_t>(spec.added.size()), &out);
  for (const AddedToken& t : spec.added) {
    PutU32(static_cast<uint32_t>(t.id), &out);
    out.push_back((t.single_word ? kFlagSingleWord : 0) |
                  (t.lstrip ? kFlagLstrip : 0) | (t.rstrip ? kFlagRstrip : 0) |
                  (t.normalized ? kFlagNormalized : 0) |
                  (t.special ? kFlagSpecial : 0));
  }

  PutU32(static_cast<uint32_t>(spec.normalizers.size()), &out);
  for (NormalizerKind k : spec.normalizers) out.push_back(static_cast<char>(k));
  PutU32(static_cast<uint32_t>(spec.pre_tokenizers.size()), &out);
  for (const PreTokenizerStep& s : spec.pre_tokenizers) {
    out.push_back(static_cast<char>(s.kind));
    out.push_back(static_cast<char>(s.behavior));
    out.push_back((s.is_regex ? kFlagRegex : 0) | (s.invert ? kFlagInvert : 0) |
                  (s.individual_digits ? kFlagIndividual : 0) |
                  (s.add_prefix_space ? kFlagPrefixSpace : 0) |
                  (s.use_regex ? kFlagUseRegex : 0));
    PutString(s.pattern, &out);
  }
  PutIds(spec.prefix_ids, &out);
  PutIds(spec.suffix_ids, &out);
  PutU32(static_cast<uint32_t>(spec.decoders.size()), &out);
  for (DecoderKind k : spec.decoders) out.push_back(static_cast<char>(k));
  PutU32(static_cast<uint32_t>(spec.bos_id), &out);
  PutU32(static_cast<uint32_t>(spec.eos_id), &out);
  return out;
}

absl::StatusOr<TokenizerSpec> ParseTokenizer(absl::string_view bytes) {
  Reader r(bytes);
  const char* magic = r.Take(kMagicSize, "magic");
  if (magic && std::memcmp(magic, kMagic, kMagicSize - 1) != 0) {
    r.Fail("does not start with DSTOKEN");
  } else if (magic && magic[kMagicSize - 1] != kMagic[kMagicSize - 1]) {
    r.Fail(absl::StrCat("format ", static_cast<int>(magic[kMagicSize - 1]),
                        ", this reads ", kMagic[kMagicSize - 1] + 0));
  }
  TokenizerSpec spec;
  ReadVocabulary(r, &spec);
  if (r.ok()) ReadModel(r, &spec);
  if (r.ok()) ReadAdded(r, &spec);
  if (r.ok()) ReadSteps(r, &spec);
  ReadIds(r, spec.vocab_size(), "prefix", &spec.prefix_ids);
  ReadIds(r, spec.vocab_size(), "suffix", &spec.suffix_ids);
  const uint32_t n = r.Count(kMaxSteps, 1, "decoders");
  for (uint32_t i = 0; i < n && r.ok(); ++i) {
    spec.decoders.push_back(
        r.Kind(DecoderKind::kByteLevel, DecoderKind::kFuse, "decoder"));
  }
  spec.bos_id = r.Id(spec.vocab_size(), true, "bos");
  spec.eos_id = r.Id(spec.vocab_size(), true, "eos");
  if (r.left() != 0) r.Fail(absl::StrCat(r.left(), " bytes too many"));
  if (!r.ok()) return r.status();
  return spec;
}

}  // namespace deepslice
