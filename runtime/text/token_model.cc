// Chooses the model of a spec.
#include "runtime/text/token_model.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/text/bpe.h"
#include "runtime/text/unigram.h"
#include "runtime/text/word_models.h"

namespace deepslice {

std::unique_ptr<TokenModel> MakeTokenModel(const TokenizerSpec& spec,
                                           const TokenIndex& index,
                                           bool raw_bytes) {
  switch (spec.model) {
    case ModelKind::kBpe:
      return std::make_unique<Bpe>(spec, index, raw_bytes);
    case ModelKind::kUnigram:
      return std::make_unique<Unigram>(spec, index, raw_bytes);
    case ModelKind::kWordPiece:
      return std::make_unique<WordPiece>(spec, raw_bytes);
    case ModelKind::kWordLevel:
      return std::make_unique<WordLevel>(spec, index, raw_bytes);
    case ModelKind::kLongest:
      return std::make_unique<LongestToken>(spec, raw_bytes);
  }
  return nullptr;
}

namespace token_model {

int32_t Find(const TokenizerSpec& spec, const TokenIndex& index,
             absl::string_view text) {
  const auto it = index.find(text);
  if (it == index.end()) return -1;
  return Makes(spec, it->second) ? it->second : -1;
}

std::vector<int32_t> ByteTokens(const TokenizerSpec& spec,
                                const TokenIndex& index) {
  std::vector<int32_t> ids(256, -1);
  for (int b = 0; b < 256; ++b) {
    const auto it = index.find(absl::StrFormat("<0x%02X>", b));
    if (it == index.end()) continue;
    const uint8_t bits = spec.token_bits[it->second];
    if (bits & (kTokenInModel | kTokenNamed)) ids[b] = it->second;
  }
  return ids;
}

absl::Status UnknownText(absl::string_view text) {
  return absl::FailedPreconditionError(absl::StrCat(
      "the vocabulary has no token for \"",
      absl::Utf8SafeCEscape(text.substr(0, 40)),
      "\" and names no unknown token; a text without it can be encoded"));
}

}  // namespace token_model

}  // namespace deepslice
