// Joins rendered pieces and marks what users wrote.
#include "runtime/text/chat_encode.h"

#include <string>

namespace deepslice {

absl::StatusOr<std::vector<int32_t>> EncodeChat(
    const Tokenizer& tokenizer, const std::vector<RenderedPiece>& pieces) {
  std::string text;
  std::vector<ByteRange> plain;
  for (const RenderedPiece& piece : pieces) {
    const size_t begin = text.size();
    text += piece.text;
    if (piece.from_user && !piece.text.empty()) {
      plain.push_back({begin, text.size()});
    }
  }
  EncodeOptions options;
  options.add_special = false;
  return tokenizer.EncodeWithPlainRanges(text, options, plain);
}

}  // namespace deepslice
