// Reads the serialised form of a tokenizer from bytes that nobody vouches for.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/text/tokenizer_spec.h"
#include "runtime/text/tokenizer_spec_format.h"
#include "runtime/text/utf8.h"
#include "schema/base/limits.h"

namespace deepslice {
namespace {

namespace format = tokenizer_format;

// Beyond these a file is damaged or hostile.
constexpr uint32_t kMaxTokenText = limits::kTokenizerTextBytes;
constexpr uint32_t kMaxSteps = limits::kTokenizerSteps;
constexpr uint32_t kMaxPatternBytes = limits::kRegexBytes;
constexpr uint32_t kMaxContentBytes = limits::kTokenizerContentBytes;
constexpr uint32_t kMaxAffixIds = limits::kTokenizerAffixIds;
constexpr uint32_t kMaxVectors = limits::kTokenizerVectors;

constexpr uint8_t kKnownRoles = kTokenInModel | kTokenAdded | kTokenSpecial |
                                kTokenUserDefined | kTokenUnused | kTokenNamed;

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

  std::string String(uint64_t max, absl::string_view what) {
    const uint32_t size = Count(max, 1, what);
    const char* p = Take(size, what);
    return p ? std::string(p, size) : std::string();
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
  static double LoadDouble(const char* p) {
    const uint64_t bits = Load(p) | static_cast<uint64_t>(Load(p + 4)) << 32;
    double v;
    std::memcpy(&v, &bits, 8);
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
    if (end - previous > limits::kTokenBytes) {
      return r.Fail(absl::StrCat("token ", i, " has ", end - previous,
                                 " bytes, at most ", limits::kTokenBytes,
                                 " are allowed"));
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
    if (spec->token_bits[i] & ~kKnownRoles) {
      return r.Fail(absl::StrCat("token ", i, " has unknown roles"));
    }
  }
}

// Never 0, so that parts are shorter than the whole.
size_t SymbolBytes(const TokenizerSpec& spec, int32_t symbol) {
  if (symbol < spec.vocab_size()) {
    return std::max<size_t>(spec.token(symbol).size(), 1);
  }
  std::string text;
  AppendUtf8(spec.extra_symbols[symbol - spec.vocab_size()], &text);
  return text.size();
}

void ReadMerges(Reader& r, TokenizerSpec* spec) {
  const int32_t vocab = spec->vocab_size();
  uint32_t n = r.Count(limits::kVocab, 4, "extra symbols");
  for (uint32_t i = 0; i < n && r.ok(); ++i) {
    spec->extra_symbols.push_back(r.U32("extra symbol"));
  }
  const int64_t symbols = int64_t{vocab} + n;
  n = r.Count(limits::kTokenizerMerges, 12, "merges");
  const char* p = r.Take(uint64_t{12} * n, "merges");
  if (!p) return;
  spec->merges.resize(n);
  for (uint32_t i = 0; i < n; ++i, p += 12) {
    BpeMerge& m = spec->merges[i];
    const uint32_t left = Reader::Load(p);
    m.same_rank = left & format::kSameRank;
    m.left = static_cast<int32_t>(left & ~format::kSameRank);
    m.right = static_cast<int32_t>(Reader::Load(p + 4));
    m.merged = static_cast<int32_t>(Reader::Load(p + 8));
    for (int32_t id : {m.left, m.right}) {
      if (id < 0 || id >= symbols) {
        return r.Fail(absl::StrCat("merge ", i, " names symbol ", id,
                                   ", the vocabulary has ", symbols));
      }
    }
    if (m.merged < 0 || m.merged >= vocab) {
      return r.Fail(absl::StrCat("merge ", i, " names token ", m.merged,
                                 ", the vocabulary has ", vocab));
    }
    // What is taken back must get shorter, or it would never end.
    if ((spec->token_bits[m.merged] & kTokenUnused) &&
        SymbolBytes(*spec, m.left) + SymbolBytes(*spec, m.right) !=
            spec->token(m.merged).size()) {
      return r.Fail(absl::StrCat("merge ", i, " gives token ", m.merged,
                                 ", which is not its parts"));
    }
  }
}

void ReadModel(Reader& r, TokenizerSpec* spec) {
  spec->model = r.Kind(ModelKind::kBpe, ModelKind::kLongest, "model");
  const uint8_t flags =
      r.Flags(format::kIgnoreMerges | format::kFuseUnk | format::kByteFallback |
                  format::kSentencePiece,
              "model");
  spec->ignore_merges = flags & format::kIgnoreMerges;
  spec->fuse_unk = flags & format::kFuseUnk;
  spec->byte_fallback = flags & format::kByteFallback;
  spec->sentencepiece = flags & format::kSentencePiece;
  spec->unk_id = r.Id(spec->vocab_size(), true, "unknown token");
  spec->continuing_prefix = r.String(limits::kAddedTokenBytes, "prefix");
  spec->end_of_word_suffix = r.String(limits::kAddedTokenBytes, "suffix");
  spec->max_word_chars = r.U32("longest word");
  ReadMerges(r, spec);
  const uint32_t n = r.Count(limits::kVocab, 8, "scores");
  if (n != 0 && n != spec->token_ends.size()) {
    return r.Fail(absl::StrCat("has ", n, " scores, the vocabulary has ",
                               spec->vocab_size()));
  }
  const char* p = r.Take(uint64_t{8} * n, "scores");
  if (!p) return;
  for (uint32_t i = 0; i < n; ++i, p += 8) {
    spec->scores.push_back(Reader::LoadDouble(p));
    if (!std::isfinite(spec->scores.back())) {
      return r.Fail(absl::StrCat("score of token ", i, " is no number"));
    }
  }
  if (spec->model == ModelKind::kUnigram && n == 0 && spec->vocab_size() > 0) {
    r.Fail("the tokens have no scores");
  }
}

void ReadAdded(Reader& r, TokenizerSpec* spec) {
  const uint32_t n = r.Count(limits::kAddedTokens, 5, "added tokens");
  std::vector<bool> seen(spec->token_ends.size());
  for (uint32_t i = 0; i < n && r.ok(); ++i) {
    AddedToken t;
    t.id = r.Id(spec->vocab_size(), false, "added token");
    const uint8_t flags =
        r.Flags(format::kSingleWord | format::kLstrip | format::kRstrip |
                    format::kNormalized | format::kSpecial,
                "added token");
    if (!r.ok()) return;
    t.single_word = flags & format::kSingleWord;
    t.lstrip = flags & format::kLstrip;
    t.rstrip = flags & format::kRstrip;
    t.normalized = flags & format::kNormalized;
    t.special = flags & format::kSpecial;
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
    if ((spec->token_bits[id] & kTokenAdded) && !seen[id]) {
      return r.Fail(absl::StrCat("token ", id, " is no added token"));
    }
  }
}

void ReadPreTokenizers(Reader& r, TokenizerSpec* spec) {
  const uint32_t n = r.Count(kMaxSteps, 12, "pre-tokenizers");
  for (uint32_t i = 0; i < n && r.ok(); ++i) {
    PreTokenizerStep s;
    s.kind = r.Kind(PreTokenizerKind::kSplit, PreTokenizerKind::kFixedLength,
                    "pre-tokenizer");
    s.behavior = r.Kind(SplitBehavior::kRemoved, SplitBehavior::kContiguous,
                        "split behavior");
    s.prepend_scheme =
        r.Kind(PrependScheme::kAlways, PrependScheme::kNever, "prefix scheme");
    const uint8_t flags =
        r.Flags(format::kRegex | format::kInvert | format::kIndividual |
                    format::kPrefixSpace | format::kUseRegex | format::kSplit,
                "pre-tokenizer");
    s.is_regex = flags & format::kRegex;
    s.invert = flags & format::kInvert;
    s.individual_digits = flags & format::kIndividual;
    s.add_prefix_space = flags & format::kPrefixSpace;
    s.use_regex = flags & format::kUseRegex;
    s.split = flags & format::kSplit;
    s.length = r.U32("length");
    s.pattern = r.String(kMaxPatternBytes, "pattern");
    spec->pre_tokenizers.push_back(std::move(s));
  }
}

void ReadNormalizers(Reader& r, TokenizerSpec* spec) {
  const uint32_t n = r.Count(kMaxSteps, 11, "normalizers");
  for (uint32_t i = 0; i < n && r.ok(); ++i) {
    NormalizerStep s;
    s.kind = r.Kind(NormalizerKind::kNfc, NormalizerKind::kSentencePiece,
                    "normalizer");
    s.flags = r.U8("normalizer");
    s.flags |= static_cast<uint16_t>(r.U8("normalizer") << 8);
    if (s.flags & ~NormalizerStep::kAllFlags) {
      r.Fail("normalizer has unknown flags");
    }
    s.pattern = r.String(kMaxPatternBytes, "normalizer's pattern");
    s.content = r.String(kMaxContentBytes, "normalizer's content");
    spec->normalizers.push_back(std::move(s));
  }
}

void ReadDecoders(Reader& r, TokenizerSpec* spec) {
  const uint32_t n = r.Count(kMaxSteps, 18, "decoders");
  for (uint32_t i = 0; i < n && r.ok(); ++i) {
    DecoderStep s;
    s.kind =
        r.Kind(DecoderKind::kByteLevel, DecoderKind::kSentencePiece, "decoder");
    s.flags = r.Flags(DecoderStep::kAllFlags, "decoder");
    s.start = r.U32("decoder");
    s.stop = r.U32("decoder");
    s.pattern = r.String(kMaxPatternBytes, "decoder's pattern");
    s.content = r.String(kMaxPatternBytes, "decoder's content");
    spec->decoders.push_back(std::move(s));
  }
}

void ReadIds(Reader& r, int32_t vocab, uint64_t max, absl::string_view what,
             std::vector<int32_t>* ids) {
  const uint32_t n = r.Count(max, 4, what);
  for (uint32_t i = 0; i < n && r.ok(); ++i) {
    ids->push_back(r.Id(vocab, false, what));
  }
}

}  // namespace

absl::StatusOr<TokenizerSpec> ParseTokenizer(absl::string_view bytes) {
  Reader r(bytes);
  const char* magic = r.Take(format::kMagicSize, "magic");
  if (magic &&
      std::memcmp(magic, format::kMagic, format::kMagicSize - 1) != 0) {
    r.Fail("does not start with DSTOKEN");
  } else if (magic && magic[7] != format::kMagic[7]) {
    r.Fail(absl::StrCat("format ", static_cast<int>(magic[7]), ", this reads ",
                        format::kMagic[7] + 0));
  }
  TokenizerSpec spec;
  ReadVocabulary(r, &spec);
  if (r.ok()) ReadModel(r, &spec);
  if (r.ok()) ReadAdded(r, &spec);
  if (r.ok()) ReadNormalizers(r, &spec);
  if (r.ok()) ReadPreTokenizers(r, &spec);
  const int32_t vocab = spec.vocab_size();
  ReadIds(r, vocab, kMaxAffixIds, "prefix", &spec.prefix_ids);
  ReadIds(r, vocab, kMaxAffixIds, "suffix", &spec.suffix_ids);
  if (r.ok()) ReadDecoders(r, &spec);
  spec.bos_id = r.Id(vocab, true, "bos");
  spec.eos_id = r.Id(vocab, true, "eos");
  const uint32_t n = r.Count(kMaxVectors, 8, "vectors");
  for (uint32_t i = 0; i < n && r.ok(); ++i) {
    TokenizerVector v;
    v.text = r.String(kMaxPatternBytes, "vector's text");
    ReadIds(r, vocab, kMaxPatternBytes, "vector's ids", &v.ids);
    spec.vectors.push_back(std::move(v));
  }
  if (r.left() != 0) r.Fail(absl::StrCat(r.left(), " bytes too many"));
  if (!r.ok()) return r.status();
  return spec;
}

}  // namespace deepslice
