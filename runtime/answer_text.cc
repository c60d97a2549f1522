#include "runtime/answer_text.h"

#include <algorithm>
#include <utility>

#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// Tokens in front of an answer that its text may depend on.
constexpr size_t kContextTokens = 8;

}  // namespace

absl::StatusOr<std::unique_ptr<AnswerText>> AnswerText::Make(
    const Tokenizer* tokenizer, absl::Span<const int32_t> before,
    std::vector<std::string> stops) {
  stops.erase(std::remove(stops.begin(), stops.end(), std::string()),
              stops.end());
  std::unique_ptr<AnswerText> out(new AnswerText(tokenizer, std::move(stops)));
  before.remove_prefix(before.size() - std::min(before.size(), kContextTokens));
  for (const int32_t id : before) {
    DS_RETURN_IF_ERROR(out->Decode(id).status());
  }
  return out;
}

absl::StatusOr<std::string> AnswerText::Decode(int32_t id) {
  // Padded rows of a vocabulary have ids, but no text.
  if (id >= tokenizer_.vocab_size()) return std::string();
  return decoder_.Add(id);
}

absl::StatusOr<bool> AnswerText::Add(int32_t id, bool armed, std::string* out) {
  DS_ASSIGN_OR_RETURN(const std::string piece, Decode(id));
  found_ = matcher_.Add(piece, armed, out);
  return found_ >= 0;
}

absl::Status AnswerText::Finish(std::string* out) {
  if (found_ >= 0) return absl::OkStatus();
  DS_ASSIGN_OR_RETURN(const std::string piece, decoder_.Finish());
  found_ = matcher_.Add(piece, /*armed=*/true, out);
  if (found_ < 0) matcher_.Finish(out);
  return absl::OkStatus();
}

}  // namespace deepslice
