// The tokenizer: added tokens, normaliser, pre-tokeniser, model, and the ids
// around a sequence; and back.
#include "runtime/text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/text/added_tokens.h"
#include "runtime/text/bpe.h"
#include "runtime/text/byte_level.h"
#include "runtime/text/normalize.h"
#include "runtime/text/pre_tokenize.h"
#include "runtime/text/tokenizer_spec.h"
#include "runtime/text/utf8.h"
#include "runtime/text/word_cache.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// Offsets are 32 bits; a ByteLevel step may double a text and prefix spaces.
constexpr size_t kMaxTextBytes = size_t{1} << 30;

// Whether [begin, end) touches one of the sorted ranges.
bool Touches(const std::vector<ByteRange>& ranges, size_t begin, size_t end) {
  const auto it =
      std::upper_bound(ranges.begin(), ranges.end(), begin,
                       [](size_t b, const ByteRange& r) { return b < r.end; });
  return it != ranges.end() && it->begin < end;
}

// Replaces invalid UTF-8 in each range and between them, so that no code point
// is made of trusted and untrusted bytes; moves the ranges along.
std::string CleanText(absl::string_view text, std::vector<ByteRange>* ranges) {
  std::string out;
  size_t pos = 0;
  for (ByteRange& r : *ranges) {
    out += ReplaceInvalidUtf8(text.substr(pos, r.begin - pos));
    pos = r.end;
    const std::string inside =
        ReplaceInvalidUtf8(text.substr(r.begin, r.end - r.begin));
    r = {out.size(), out.size() + inside.size()};
    out += inside;
  }
  return out + ReplaceInvalidUtf8(text.substr(pos));
}

class TableTokenizer final : public Tokenizer {
 public:
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(TokenizerSpec spec) {
    DS_ASSIGN_OR_RETURN(PreTokenizer pre,
                        PreTokenizer::Create(spec.pre_tokenizers));
    return std::unique_ptr<Tokenizer>(
        new TableTokenizer(std::move(spec), std::move(pre)));
  }

  absl::StatusOr<std::vector<int32_t>> Encode(
      absl::string_view text, const EncodeOptions& options) const override {
    return EncodeWithPlainRanges(text, options, {});
  }

  absl::StatusOr<std::vector<int32_t>> EncodeWithPlainRanges(
      absl::string_view text, const EncodeOptions& options,
      const std::vector<ByteRange>& plain) const override;

  absl::StatusOr<std::string> Decode(const std::vector<int32_t>& ids,
                                     bool skip_special) const override {
    std::string raw;
    bool first = true;
    for (int32_t id : ids) {
      DS_RETURN_IF_ERROR(AppendTokenBytes(id, skip_special, &first, &raw));
    }
    return ReplaceInvalidUtf8(raw);
  }

  absl::Status AppendTokenBytes(int32_t id, bool skip_special, bool* first,
                                std::string* out) const override;

  int32_t vocab_size() const override { return spec_.vocab_size(); }
  int32_t bos_id() const override { return spec_.bos_id; }
  int32_t eos_id() const override { return spec_.eos_id; }
  bool IsSpecial(int32_t id) const override {
    return InVocabulary(id) && (spec_.token_bits[id] & kTokenSpecial);
  }
  int32_t TokenToId(absl::string_view token) const override {
    const auto it = index_.find(token);
    return it == index_.end() ? -1 : it->second;
  }
  std::string IdToToken(int32_t id) const override {
    return InVocabulary(id) ? std::string(spec_.token(id)) : std::string();
  }

 private:
  struct Work {
    PreTokens pre;
    Bpe::Scratch bpe;
    WordCache cache;
    std::vector<int32_t> ids;
  };

  TableTokenizer(TokenizerSpec spec, PreTokenizer pre);

  bool InVocabulary(int32_t id) const { return id >= 0 && id < vocab_size(); }

  // A stretch of the cleaned text, at `offset`, without raw added tokens.
  absl::Status EncodeStretch(absl::string_view text, size_t offset,
                             bool parse_special,
                             const std::vector<ByteRange>& plain,
                             Work* work) const;
  // Text without added tokens.
  absl::Status EncodeText(absl::string_view text, Work* work) const;

  const TokenizerSpec spec_;
  const PreTokenizer pre_tokenizer_;
  TokenIndex index_;
  std::unique_ptr<const Bpe> bpe_;
  AddedTokenMatcher raw_tokens_;         // matched in the text as it came
  AddedTokenMatcher normalized_tokens_;  // matched after the normaliser
};

TableTokenizer::TableTokenizer(TokenizerSpec spec, PreTokenizer pre)
    : spec_(std::move(spec)), pre_tokenizer_(std::move(pre)) {
  index_.reserve(spec_.token_ends.size());
  for (int32_t id = 0; id < vocab_size(); ++id) {
    if (spec_.token_bits[id] != 0) index_.emplace(spec_.token(id), id);
  }
  bpe_ = std::make_unique<Bpe>(spec_, index_, pre_tokenizer_.raw_bytes());
  for (const AddedToken& token : spec_.added) {
    std::string text(spec_.token(token.id));
    if (!token.normalized) {
      raw_tokens_.Add(token, std::move(text));
      continue;
    }
    text = ReplaceInvalidUtf8(text);
    for (NormalizerKind kind : spec_.normalizers) {
      text = NormalizeUnicode(text, kind);
    }
    normalized_tokens_.Add(token, std::move(text));
  }
  raw_tokens_.Build();
  normalized_tokens_.Build();
}

absl::StatusOr<std::vector<int32_t>> TableTokenizer::EncodeWithPlainRanges(
    absl::string_view text, const EncodeOptions& options,
    const std::vector<ByteRange>& plain) const {
  if (text.size() > kMaxTextBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("text has ", text.size(), " bytes; at most ",
                     kMaxTextBytes, " can be encoded at once"));
  }
  size_t previous = 0;
  for (const ByteRange& r : plain) {
    if (r.begin < previous || r.end < r.begin || r.end > text.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "plain range [", r.begin, ", ", r.end, ") of a text of ", text.size(),
          " bytes; ranges must be sorted and inside the text"));
    }
    previous = r.end;
  }
  std::vector<ByteRange> ranges = plain;
  std::string cleaned;
  if (!IsValidUtf8(text)) {
    cleaned = CleanText(text, &ranges);
    text = cleaned;
  }
  Work work;
  work.cache.Reset(text.size());
  if (options.add_special) work.ids = spec_.prefix_ids;
  std::vector<AddedSegment> segments;
  raw_tokens_.Split(
      text,
      [&](const AddedToken& token, size_t begin, size_t end) {
        return !token.special ||
               (options.parse_special && !Touches(ranges, begin, end));
      },
      &segments);
  for (const AddedSegment& s : segments) {
    if (s.id >= 0) {
      work.ids.push_back(s.id);
    } else {
      DS_RETURN_IF_ERROR(EncodeStretch(text.substr(s.begin, s.end - s.begin),
                                       s.begin, options.parse_special, ranges,
                                       &work));
    }
  }
  if (options.add_special) {
    work.ids.insert(work.ids.end(), spec_.suffix_ids.begin(),
                    spec_.suffix_ids.end());
  }
  return std::move(work.ids);
}

absl::Status TableTokenizer::EncodeStretch(absl::string_view text,
                                           size_t offset, bool parse_special,
                                           const std::vector<ByteRange>& plain,
                                           Work* work) const {
  const size_t size = text.size();
  std::string normalized;
  bool changed = false;
  for (NormalizerKind kind : spec_.normalizers) {
    std::string next = NormalizeUnicode(text, kind);
    changed = changed || next != text;
    normalized = std::move(next);
    text = normalized;
  }
  if (normalized_tokens_.empty()) return EncodeText(text, work);
  std::vector<AddedSegment> segments;
  normalized_tokens_.Split(
      text,
      [&](const AddedToken& token, size_t begin, size_t end) {
        if (!token.special) return true;
        if (!parse_special) return false;
        // Offsets of changed text no longer say who wrote it.
        return changed ? !Touches(plain, offset, offset + size)
                       : !Touches(plain, offset + begin, offset + end);
      },
      &segments);
  for (const AddedSegment& s : segments) {
    if (s.id >= 0) {
      work->ids.push_back(s.id);
    } else {
      DS_RETURN_IF_ERROR(
          EncodeText(text.substr(s.begin, s.end - s.begin), work));
    }
  }
  return absl::OkStatus();
}

absl::Status TableTokenizer::EncodeText(absl::string_view text,
                                        Work* work) const {
  work->pre.text.assign(text.data(), text.size());
  DS_RETURN_IF_ERROR(pre_tokenizer_.Run(&work->pre));
  const absl::string_view all = work->pre.text;
  work->cache.NewText();
  for (const PreTokens::Piece& p : work->pre.pieces) {
    const absl::string_view word = all.substr(p.begin, p.end - p.begin);
    WordCache::Entry* entry = work->cache.Find(all, word);
    if (entry->count > 0) {
      work->cache.CopyIds(*entry, &work->ids);
      continue;
    }
    const size_t first = work->ids.size();
    bpe_->Encode(word, &work->bpe, &work->ids);
    work->cache.Keep(p.begin, word, first, work->ids.size() - first, entry);
  }
  return absl::OkStatus();
}

absl::Status TableTokenizer::AppendTokenBytes(int32_t id, bool skip_special,
                                              bool* first,
                                              std::string* out) const {
  if (!InVocabulary(id)) {
    return absl::InvalidArgumentError(
        absl::StrCat("token id ", id, " is outside the vocabulary of ",
                     vocab_size(), " tokens"));
  }
  const uint8_t bits = spec_.token_bits[id];
  if (bits == 0 || (skip_special && (bits & kTokenSpecial))) {
    return absl::OkStatus();
  }
  const absl::string_view token = spec_.token(id);
  if (spec_.decoders.empty() && !*first) out->push_back(' ');
  *first = false;
  const bool byte_level =
      std::find(spec_.decoders.begin(), spec_.decoders.end(),
                DecoderKind::kByteLevel) != spec_.decoders.end();
  if (byte_level) {
    AppendFromByteLevel(token, out);
  } else {
    out->append(token.data(), token.size());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(
    absl::string_view bytes) {
  DS_ASSIGN_OR_RETURN(TokenizerSpec spec, ParseTokenizer(bytes));
  auto tokenizer = TableTokenizer::Create(std::move(spec));
  if (!tokenizer.ok()) {
    // Readers refuse such a pattern, so the bytes changed since.
    return absl::DataLossError(
        absl::StrCat("tokenizer tables: ", tokenizer.status().message(),
                     "; compile the plan again"));
  }
  return tokenizer;
}

struct StreamDecoder::State {
  const Tokenizer& tokenizer;
  const bool skip_special;
  bool first = true;
  Utf8Stream stream;
};

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special)
    : state_(new State{tokenizer, skip_special, true, {}}) {}
StreamDecoder::~StreamDecoder() = default;

absl::StatusOr<std::string> StreamDecoder::Add(int32_t id) {
  std::string raw, out;
  DS_RETURN_IF_ERROR(state_->tokenizer.AppendTokenBytes(
      id, state_->skip_special, &state_->first, &raw));
  state_->stream.Add(raw, &out);
  return out;
}

absl::StatusOr<std::string> StreamDecoder::Finish() {
  std::string out;
  state_->stream.Finish(&out);
  state_->first = true;
  return out;
}

}  // namespace deepslice
