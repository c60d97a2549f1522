// Viterbi over the characters of a word. sentencepiece adds scores as floats,
// the published tokenizers as doubles: each is followed, so that ties fall the
// same way.
#include "runtime/text/unigram.h"

#include <algorithm>
#include <cfloat>

#include "runtime/text/byte_level.h"
#include "runtime/text/utf8.h"

namespace deepslice {
namespace {

// An unknown character costs this much more than the rarest token.
constexpr double kUnknownPenalty = 10;

}  // namespace

Unigram::Unigram(const TokenizerSpec& spec, const TokenIndex& index,
                 bool raw_bytes)
    : spec_(spec), index_(index), raw_bytes_(raw_bytes) {
  double least = spec.sentencepiece ? FLT_MAX : DBL_MAX;
  max_score_ = FLT_MIN;  // not -FLT_MAX: as sentencepiece has it
  std::vector<std::pair<absl::string_view, int32_t>> keys;
  for (int32_t id = 0; id < spec.vocab_size(); ++id) {
    const uint8_t bits = spec.token_bits[id];
    if (!(bits & kTokenInModel) || spec.token(id).empty()) continue;
    if (token_model::Makes(spec, id)) keys.emplace_back(spec.token(id), id);
    if (spec.sentencepiece && (bits & (kTokenUserDefined | kTokenUnused))) {
      continue;
    }
    least = std::min(least, spec.scores[id]);
    max_score_ = std::max(max_score_, static_cast<float>(spec.scores[id]));
  }
  if (!keys.empty()) tokens_.Build(std::move(keys));
  unknown_score_ = least - kUnknownPenalty;
  if (spec.byte_fallback) {
    fallback_ids_ = token_model::ByteTokens(spec, index);
  }
}

double Unigram::ScoreOf(int32_t id, size_t bytes) const {
  // So high that a symbol which a user defined always wins.
  if (spec_.sentencepiece && (spec_.token_bits[id] & kTokenUserDefined)) {
    return static_cast<float>(bytes) * max_score_ - 0.1;
  }
  return spec_.scores[id];
}

void Unigram::FindPath(absl::string_view word, Scratch* s) const {
  s->path.assign(word.size() + 1, {0, -1, UINT32_MAX});
  s->path[0] = {0, -1, 0};
  for (size_t pos = 0; pos < word.size();) {
    const double here = s->path[pos].score;
    const size_t size = DecodeUtf8(word, pos).size;
    bool single = false;
    const auto offer = [&](size_t end, int32_t id, double score) {
      Scratch::PathNode& node = s->path[end];
      double candidate = score + here;
      if (spec_.sentencepiece && id < 0) {
        candidate = static_cast<float>(candidate);
      }
      if (node.begin != UINT32_MAX && candidate <= node.score) return;
      node = {spec_.sentencepiece ? static_cast<float>(candidate) : candidate,
              id, static_cast<uint32_t>(pos)};
    };
    ByteTrie::Cursor cursor(tokens_);
    for (size_t i = pos; i < word.size() && cursor.Step(word[i]); ++i) {
      const int32_t id = cursor.value();
      if (id < 0 ||
          (spec_.sentencepiece && (spec_.token_bits[id] & kTokenUnused))) {
        continue;
      }
      const size_t bytes = i + 1 - pos;
      offer(i + 1, id, ScoreOf(id, bytes));
      single |= bytes == size;
    }
    if (!single) {
      double unknown = unknown_score_;
      if (spec_.sentencepiece) unknown = static_cast<float>(unknown);
      offer(pos + size, -1, unknown);
    }
    pos += size;
  }
}

// `id` -1: a run of unknown characters.
absl::Status Unigram::Emit(absl::string_view text, int32_t id,
                           std::vector<int32_t>* out) const {
  if (id < 0 && !spec_.sentencepiece) {
    // A run may spell a token after all.
    id = token_model::Find(spec_, index_, text);
  }
  if (id < 0 && spec_.byte_fallback) {
    bool all = true;
    for (char c : text) all &= fallback_ids_[static_cast<uint8_t>(c)] >= 0;
    if (all) {
      for (char c : text) {
        out->push_back(fallback_ids_[static_cast<uint8_t>(c)]);
      }
      return absl::OkStatus();
    }
  }
  if (id < 0) id = spec_.unk_id;
  if (id < 0) return token_model::UnknownText(text);
  out->push_back(id);
  return absl::OkStatus();
}

absl::Status Unigram::Encode(absl::string_view word, Scratch* s,
                             std::vector<int32_t>* out) const {
  if (raw_bytes_) {
    s->mapped.clear();
    AppendByteLevel(word, &s->mapped);
    word = s->mapped;
  }
  FindPath(word, s);
  // Ends of the tokens, from the back.
  s->next.clear();
  for (size_t end = word.size(); end > 0; end = s->path[end].begin) {
    s->next.push_back(static_cast<int32_t>(end));
  }
  const auto is_unknown = [&](int32_t id) {
    return id < 0 || id == spec_.unk_id;
  };
  for (size_t i = s->next.size(); i > 0; --i) {
    auto end = static_cast<size_t>(s->next[i - 1]);
    const size_t begin = s->path[end].begin;
    int32_t id = s->path[end].id;
    if (is_unknown(id) && spec_.fuse_unk) {
      id = -1;
      while (i > 1 && is_unknown(s->path[s->next[i - 2]].id)) {
        --i;
        end = static_cast<size_t>(s->next[i - 1]);
      }
    }
    absl::Status status = Emit(word.substr(begin, end - begin), id, out);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace deepslice
