// Longest matches by tries.
#include "runtime/text/word_models.h"

#include "absl/strings/match.h"
#include "runtime/text/byte_level.h"
#include "runtime/text/utf8.h"

namespace deepslice {
namespace {

using Keys = std::vector<std::pair<absl::string_view, int32_t>>;

absl::string_view Mapped(absl::string_view word, bool raw_bytes,
                         std::string* buffer) {
  if (!raw_bytes) return word;
  buffer->clear();
  AppendByteLevel(word, buffer);
  return *buffer;
}

absl::Status AppendUnknown(const TokenizerSpec& spec, absl::string_view text,
                           std::vector<int32_t>* out) {
  if (spec.unk_id < 0) return token_model::UnknownText(text);
  out->push_back(spec.unk_id);
  return absl::OkStatus();
}

}  // namespace

WordPiece::WordPiece(const TokenizerSpec& spec, bool raw_bytes)
    : spec_(spec), raw_bytes_(raw_bytes) {
  Keys first, continuing;
  for (int32_t id = 0; id < spec.vocab_size(); ++id) {
    const absl::string_view text = spec.token(id);
    if (!token_model::Makes(spec, id) || text.empty()) continue;
    first.emplace_back(text, id);
    if (absl::StartsWith(text, spec.continuing_prefix) &&
        text.size() > spec.continuing_prefix.size()) {
      continuing.emplace_back(text.substr(spec.continuing_prefix.size()), id);
    }
  }
  if (!first.empty()) first_.Build(std::move(first));
  if (!continuing.empty()) continuing_.Build(std::move(continuing));
}

absl::Status WordPiece::Encode(absl::string_view word, Scratch* s,
                               std::vector<int32_t>* out) const {
  word = Mapped(word, raw_bytes_, &s->mapped);
  if (word.size() > spec_.max_word_chars &&
      Utf8Length(word) > spec_.max_word_chars) {
    return AppendUnknown(spec_, word, out);
  }
  const size_t start = out->size();
  for (size_t pos = 0; pos < word.size();) {
    size_t size = 0;
    const int32_t id =
        (pos == 0 ? first_ : continuing_).Longest(word, pos, &size);
    if (id < 0) {
      out->resize(start);
      return AppendUnknown(spec_, word, out);
    }
    out->push_back(id);
    pos += size;
  }
  return absl::OkStatus();
}

absl::Status WordLevel::Encode(absl::string_view word, Scratch* s,
                               std::vector<int32_t>* out) const {
  word = Mapped(word, raw_bytes_, &s->mapped);
  const int32_t id = token_model::Find(spec_, index_, word);
  if (id < 0) return AppendUnknown(spec_, word, out);
  out->push_back(id);
  return absl::OkStatus();
}

LongestToken::LongestToken(const TokenizerSpec& spec, bool raw_bytes)
    : spec_(spec), raw_bytes_(raw_bytes) {
  Keys keys;
  for (int32_t id = 0; id < spec.vocab_size(); ++id) {
    if (token_model::Makes(spec, id) && !spec.token(id).empty()) {
      keys.emplace_back(spec.token(id), id);
    }
  }
  if (!keys.empty()) tokens_.Build(std::move(keys));
}

absl::Status LongestToken::Encode(absl::string_view word, Scratch* s,
                                  std::vector<int32_t>* out) const {
  word = Mapped(word, raw_bytes_, &s->mapped);
  for (size_t pos = 0; pos < word.size();) {
    size_t size = 0;
    const int32_t id = tokens_.Longest(word, pos, &size);
    if (id >= 0) {
      out->push_back(id);
    } else {
      size = DecodeUtf8(word, pos).size;
      absl::Status status = AppendUnknown(spec_, word.substr(pos, size), out);
      if (!status.ok()) return status;
    }
    pos += size;
  }
  return absl::OkStatus();
}

}  // namespace deepslice
