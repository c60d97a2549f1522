// From text to ids.
#include "runtime/text/table_tokenizer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/text/utf8.h"
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

}  // namespace

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
  DS_ASSIGN_OR_RETURN(std::vector<std::string> texts,
                      AddedTokenTexts(spec_, normalizer_));
  for (size_t i = 0; i < spec_.added.size(); ++i) {
    const AddedToken& token = spec_.added[i];
    if (!token.normalized) {
      raw_tokens_.Add(token, std::move(texts[i]));
      continue;
    }
    if (texts[i] != spec_.token(token.id)) {
      renamed_.emplace(token.id, Renamed{texts[i], false});
    }
    normalized_tokens_.Add(token, std::move(texts[i]));
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
  work->allowance = TextAllowance(text.size());
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
  if (word.size() > WordCache::kMaxLongBytes) {
    return model_->Encode(word, &work->scratch, &work->ids);
  }
  if (word.size() > WordCache::kMaxWordBytes) {
    WordCache::LongEntry* entry = work->cache.FindLong(word);
    if (entry->text.empty()) {
      const size_t first = work->ids.size();
      DS_RETURN_IF_ERROR(model_->Encode(word, &work->scratch, &work->ids));
      entry->text.assign(word.data(), word.size());
      entry->ids.assign(work->ids.begin() + first, work->ids.end());
    } else {
      work->ids.insert(work->ids.end(), entry->ids.begin(), entry->ids.end());
    }
    return absl::OkStatus();
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

}  // namespace deepslice
