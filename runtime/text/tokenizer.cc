// The tokenizer: added tokens, normaliser, pre-tokeniser, model, and the ids
// around a sequence; and back.
#include "runtime/text/tokenizer.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "runtime/text/added_tokens.h"
#include "runtime/text/decoder_chain.h"
#include "runtime/text/normalizer.h"
#include "runtime/text/pre_tokenize.h"
#include "runtime/text/token_model.h"
#include "runtime/text/tokenizer_spec.h"
#include "runtime/text/utf8.h"
#include "runtime/text/word_cache.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// Offsets are 32 bits; a ByteLevel step may double a text and prefix spaces.
constexpr size_t kMaxTextBytes = limits::kTextBytes;

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
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(TokenizerSpec spec);

  absl::StatusOr<std::vector<int32_t>> Encode(
      absl::string_view text, const EncodeOptions& options) const override {
    return EncodeWithPlainRanges(text, options, {});
  }

  absl::StatusOr<std::vector<int32_t>> EncodeWithPlainRanges(
      absl::string_view text, const EncodeOptions& options,
      const std::vector<ByteRange>& plain) const override;

  absl::StatusOr<std::string> Decode(const std::vector<int32_t>& ids,
                                     bool skip_special) const override;
  std::unique_ptr<Decoding> StartDecoding(bool skip_special) const override;

  int32_t vocab_size() const override { return spec_.vocab_size(); }
  int32_t bos_id() const override { return spec_.bos_id; }
  int32_t eos_id() const override { return spec_.eos_id; }
  int32_t unk_id() const override { return spec_.unk_id; }
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
  friend class TableDecoding;

  // One thread's memory, kept from text to text.
  struct Work {
    Normalizer::Text normalized;
    PreTokens pre;
    TokenModel::Scratch scratch;
    WordCache cache;
    std::vector<AddedSegment> raw_segments, segments;
    std::vector<int32_t> ids;
  };
  // What is trusted in a text, and how it is read.
  struct Trust {
    bool parse_special;
    const std::vector<ByteRange>& plain;
  };

  // An added token that the normaliser changes decodes to what it became, and
  // counts as special only when that is the text of a special token: as the
  // published tokenizers have it.
  struct Renamed {
    std::string text;
    bool special;
  };

  explicit TableTokenizer(TokenizerSpec spec) : spec_(std::move(spec)) {}
  absl::Status Build();

  bool InVocabulary(int32_t id) const { return id >= 0 && id < vocab_size(); }

  std::unique_ptr<Work> TakeWork() const;
  void GiveBack(std::unique_ptr<Work> work) const;

  absl::Status EncodeClean(absl::string_view text, const Trust& trust,
                           Work* work) const;
  // A stretch of the cleaned text, at `offset`, without raw added tokens.
  absl::Status EncodeStretch(absl::string_view text, size_t offset,
                             const Trust& trust, Work* work) const;
  // Normalised text without added tokens.
  absl::Status EncodeText(absl::string_view text, bool at_start,
                          Work* work) const;
  absl::Status EncodeWord(absl::string_view word, Work* work) const;

  const TokenizerSpec spec_;
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  TokenIndex index_;
  std::unique_ptr<const TokenModel> model_;
  DecoderChain decoders_;
  absl::flat_hash_map<int32_t, Renamed> renamed_;
  AddedTokenMatcher raw_tokens_;         // matched in the text as it came
  AddedTokenMatcher normalized_tokens_;  // matched after the normaliser
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Work>> idle_;
};

absl::StatusOr<std::unique_ptr<Tokenizer>> TableTokenizer::Create(
    TokenizerSpec spec) {
  auto tokenizer =
      std::unique_ptr<TableTokenizer>(new TableTokenizer(std::move(spec)));
  DS_RETURN_IF_ERROR(tokenizer->Build());
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

absl::Status TableTokenizer::Build() {
  DS_ASSIGN_OR_RETURN(normalizer_, Normalizer::Create(spec_));
  DS_ASSIGN_OR_RETURN(pre_tokenizer_,
                      PreTokenizer::Create(spec_.pre_tokenizers));
  DS_ASSIGN_OR_RETURN(decoders_, DecoderChain::Create(spec_.decoders));
  index_.reserve(spec_.token_ends.size());
  for (int32_t id = 0; id < vocab_size(); ++id) {
    if (spec_.token_bits[id] != 0) index_.emplace(spec_.token(id), id);
  }
  model_ = MakeTokenModel(spec_, index_, pre_tokenizer_.raw_bytes());
  for (const AddedToken& token : spec_.added) {
    std::string text(spec_.token(token.id));
    if (!token.normalized) {
      raw_tokens_.Add(token, std::move(text));
      continue;
    }
    Normalizer::Text normalized;
    normalized.view = text;
    normalized.at_start = true;
    DS_RETURN_IF_ERROR(normalizer_.Run(&normalized));
    text = std::string(normalized.view);
    if (text != spec_.token(token.id)) {
      renamed_.emplace(token.id, Renamed{text, false});
    }
    normalized_tokens_.Add(token, std::move(text));
  }
  for (auto& [id, renamed] : renamed_) {
    const auto it = index_.find(renamed.text);
    renamed.special = it != index_.end() && IsSpecial(it->second);
  }
  raw_tokens_.Build();
  normalized_tokens_.Build();
  return absl::OkStatus();
}

std::unique_ptr<TableTokenizer::Work> TableTokenizer::TakeWork() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (idle_.empty()) return std::make_unique<Work>();
  std::unique_ptr<Work> work = std::move(idle_.back());
  idle_.pop_back();
  return work;
}

void TableTokenizer::GiveBack(std::unique_ptr<Work> work) const {
  // What a huge text took is not kept.
  constexpr size_t kKeep = 1 << 20;
  if (work->normalized.buffer.capacity() > kKeep ||
      work->pre.buffer.capacity() > kKeep ||
      work->scratch.ids.capacity() > kKeep ||
      work->scratch.path.capacity() > kKeep ||
      work->pre.pieces.capacity() > kKeep) {
    return;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (idle_.size() < 16) idle_.push_back(std::move(work));
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
  std::vector<ByteRange> moved;
  std::string cleaned;
  const bool clean = IsValidUtf8(text);
  if (!clean) {
    moved = plain;
    cleaned = CleanText(text, &moved);
    text = cleaned;
  }
  std::unique_ptr<Work> work = TakeWork();
  work->cache.Expect(text.size());
  work->ids.clear();
  if (options.add_special) work->ids = spec_.prefix_ids;
  DS_RETURN_IF_ERROR(EncodeClean(
      text, {options.parse_special, clean ? plain : moved}, work.get()));
  if (options.add_special) {
    work->ids.insert(work->ids.end(), spec_.suffix_ids.begin(),
                     spec_.suffix_ids.end());
  }
  std::vector<int32_t> ids = work->ids;
  GiveBack(std::move(work));
  return ids;
}

absl::Status TableTokenizer::EncodeClean(absl::string_view text,
                                         const Trust& trust, Work* work) const {
  if (raw_tokens_.empty()) return EncodeStretch(text, 0, trust, work);
  work->raw_segments.clear();
  raw_tokens_.Split(
      text,
      [&](const AddedToken& token, size_t begin, size_t end) {
        return !token.special ||
               (trust.parse_special && !Touches(trust.plain, begin, end));
      },
      &work->raw_segments);
  for (const AddedSegment& s : work->raw_segments) {
    if (s.id >= 0) {
      work->ids.push_back(s.id);
    } else {
      DS_RETURN_IF_ERROR(EncodeStretch(text.substr(s.begin, s.end - s.begin),
                                       s.begin, trust, work));
    }
  }
  return absl::OkStatus();
}

absl::Status TableTokenizer::EncodeStretch(absl::string_view text,
                                           size_t offset, const Trust& trust,
                                           Work* work) const {
  const size_t size = text.size();
  Normalizer::Text& n = work->normalized;
  n.view = text;
  n.at_start = offset == 0;
  DS_RETURN_IF_ERROR(normalizer_.Run(&n));
  if (normalized_tokens_.empty()) return EncodeText(n.view, n.at_start, work);
  const bool changed = n.view != text;
  work->segments.clear();
  normalized_tokens_.Split(
      n.view,
      [&](const AddedToken& token, size_t begin, size_t end) {
        if (!token.special) return true;
        if (!trust.parse_special) return false;
        // Offsets of changed text no longer say who wrote it.
        return changed ? !Touches(trust.plain, offset, offset + size)
                       : !Touches(trust.plain, offset + begin, offset + end);
      },
      &work->segments);
  for (const AddedSegment& s : work->segments) {
    if (s.id >= 0) {
      work->ids.push_back(s.id);
    } else {
      DS_RETURN_IF_ERROR(EncodeText(n.view.substr(s.begin, s.end - s.begin),
                                    n.at_start && s.begin == 0, work));
    }
  }
  return absl::OkStatus();
}

absl::Status TableTokenizer::EncodeWord(absl::string_view word,
                                        Work* work) const {
  if (word.size() > WordCache::kMaxWordBytes) {
    return model_->Encode(word, &work->scratch, &work->ids);
  }
  WordCache::Entry* entry = work->cache.Find(word);
  if (entry->count > 0) {
    work->ids.insert(work->ids.end(), entry->ids, entry->ids + entry->count);
    return absl::OkStatus();
  }
  const size_t first = work->ids.size();
  DS_RETURN_IF_ERROR(model_->Encode(word, &work->scratch, &work->ids));
  WordCache::Keep(word, work->ids.data() + first, work->ids.size() - first,
                  entry);
  return absl::OkStatus();
}

absl::Status TableTokenizer::EncodeText(absl::string_view text, bool at_start,
                                        Work* work) const {
  PreTokens& pre = work->pre;
  pre.text = text;
  pre.at_start = at_start;
  DS_RETURN_IF_ERROR(pre_tokenizer_.Run(&pre));
  const bool cuts = model_->CutsAtSpaceSymbol();
  for (const PreTokens::Piece& p : pre.pieces) {
    const absl::string_view piece = pre.text.substr(p.begin, p.end - p.begin);
    if (!cuts || piece.size() <= WordCache::kMaxWordBytes) {
      DS_RETURN_IF_ERROR(EncodeWord(piece, work));
      continue;
    }
    size_t begin = 0, from = 0;  // of the word; where to look for the next
    while (begin < piece.size()) {
      const size_t symbol = piece.find(token_model::kSpaceSymbol, from);
      const size_t end = std::min(symbol, piece.size());
      from = end + token_model::kSpaceSymbol.size();
      // Not between two symbols.
      if (end < piece.size() &&
          (end == begin ||
           (end >= begin + 3 &&
            piece.substr(end - 3, 3) == token_model::kSpaceSymbol))) {
        continue;
      }
      DS_RETURN_IF_ERROR(EncodeWord(piece.substr(begin, end - begin), work));
      begin = end;
    }
  }
  return absl::OkStatus();
}

// The decoder steps at work.
class TableDecoding final : public Tokenizer::Decoding {
 public:
  TableDecoding(const TableTokenizer& tokenizer, bool skip_special)
      : tokenizer_(tokenizer), skip_special_(skip_special) {
    Restart();
  }

  absl::Status Add(int32_t id, std::string* out) override {
    const TokenizerSpec& spec = tokenizer_.spec_;
    if (!tokenizer_.InVocabulary(id)) {
      return absl::InvalidArgumentError(
          absl::StrCat("token id ", id, " is outside the vocabulary of ",
                       spec.vocab_size(), " tokens"));
    }
    const uint8_t bits = spec.token_bits[id];
    DecodedToken token{spec.token(id), bits, id == spec.unk_id};
    bool special = (bits & kTokenSpecial) != 0;
    const auto renamed = tokenizer_.renamed_.find(id);
    if (renamed != tokenizer_.renamed_.end()) {
      token.text = renamed->second.text;
      special = renamed->second.special;
    }
    if (bits == 0 || (skip_special_ && special)) return absl::OkStatus();
    DS_RETURN_IF_ERROR(chain_->Push(std::string(token.text), &token));
    Write(out);
    return absl::OkStatus();
  }

  absl::Status Finish(std::string* out) override {
    DS_RETURN_IF_ERROR(chain_->Finish());
    Write(out);
    utf8_.Finish(out);
    Restart();
    return absl::OkStatus();
  }

 private:
  void Restart() {
    written_.clear();
    chain_ = tokenizer_.decoders_.Start(&written_);
  }
  // Steps keep text valid; a vocabulary from a damaged plan need not be.
  void Write(std::string* out) {
    utf8_.Add(written_, out);
    written_.clear();
  }

  const TableTokenizer& tokenizer_;
  const bool skip_special_;
  std::string written_;
  Utf8Stream utf8_;
  std::unique_ptr<DecoderStage> chain_;
};

std::unique_ptr<Tokenizer::Decoding> TableTokenizer::StartDecoding(
    bool skip_special) const {
  return std::make_unique<TableDecoding>(*this, skip_special);
}

absl::StatusOr<std::string> TableTokenizer::Decode(
    const std::vector<int32_t>& ids, bool skip_special) const {
  TableDecoding decoding(*this, skip_special);
  std::string out;
  for (int32_t id : ids) DS_RETURN_IF_ERROR(decoding.Add(id, &out));
  DS_RETURN_IF_ERROR(decoding.Finish(&out));
  return out;
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

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special)
    : decoding_(tokenizer.StartDecoding(skip_special)) {}

absl::StatusOr<std::string> StreamDecoder::Add(int32_t id) {
  std::string out;
  DS_RETURN_IF_ERROR(decoding_->Add(id, &out));
  return out;
}

absl::StatusOr<std::string> StreamDecoder::Finish() {
  std::string out;
  DS_RETURN_IF_ERROR(decoding_->Finish(&out));
  return out;
}

}  // namespace deepslice
