// Token ids of a rendered conversation.
#ifndef DEEPSLICE_RUNTIME_TEXT_CHAT_ENCODE_H_
#define DEEPSLICE_RUNTIME_TEXT_CHAT_ENCODE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/tokenizer.h"

namespace deepslice {

// Encodes the pieces as one text, so that words and merges cross their borders
// as in the whole string. No ids are added around it: a template writes its own
// BOS. Special tokens that touch a piece from a user stay text.
absl::StatusOr<std::vector<int32_t>> EncodeChat(
    const Tokenizer& tokenizer, const std::vector<RenderedPiece>& pieces);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_CHAT_ENCODE_H_
