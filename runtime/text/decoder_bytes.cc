// Bytes of tokens like <0x41>, as text once they are decided.
#include "runtime/text/decoder_bytes.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "runtime/text/utf8.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";
constexpr absl::string_view kSpaceSymbol = "\xE2\x96\x81";  // U+2581

// The byte of "<0x41>", or -1. Digits of either case, as the published
// decoders read them.
int ByteOfToken(absl::string_view token) {
  if (token.size() != 6 || !absl::StartsWith(token, "<0x") || token[5] != '>') {
    return -1;
  }
  int value = 0;
  for (char c : token.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

// A run of byte tokens: its text, or U+FFFD for each when it is not UTF-8.
class ByteFallback final : public LinkedStage {
 public:
  using LinkedStage::LinkedStage;
  absl::Status Push(std::string piece, const DecodedToken* token) override {
    const int byte = ByteOfToken(piece);
    if (byte >= 0) {
      held_.push_back(static_cast<char>(byte));
      return absl::OkStatus();
    }
    DS_RETURN_IF_ERROR(Flush());
    return next_->Push(std::move(piece), token);
  }
  absl::Status Finish() override {
    DS_RETURN_IF_ERROR(Flush());
    return next_->Finish();
  }

 private:
  absl::Status Flush() {
    if (held_.empty()) return absl::OkStatus();
    std::string text;
    if (IsValidUtf8(held_)) {
      text = std::move(held_);
    } else {
      for (size_t i = 0; i < held_.size(); ++i) {
        absl::StrAppend(&text, kReplacement);
      }
    }
    held_.clear();
    return next_->Push(std::move(text), nullptr);
  }
  std::string held_;
};

// sentencepiece's own: control tokens vanish unless they were asked for,
// unknown ones become a sign, bytes are UTF-8 or U+FFFD each.
class SentencePiece final : public LinkedStage {
 public:
  using LinkedStage::LinkedStage;
  absl::Status Push(std::string piece, const DecodedToken* token) override {
    const uint8_t bits = token == nullptr ? 0 : token->bits;
    const int byte = (bits & kTokenNamed) ? ByteOfToken(piece) : -1;
    if (byte >= 0) {
      held_.push_back(static_cast<char>(byte));
      return Drain(/*all=*/false);
    }
    DS_RETURN_IF_ERROR(Drain(/*all=*/true));
    if (space_seen_ || any_text_) at_begin_ = false;
    space_seen_ = false;
    if (token != nullptr && token->unknown) {
      piece = step_.content;
    } else if (!(bits & kTokenSpecial)) {
      if (at_begin_ &&
          (step_.Has(DecoderStep::kSpmDropSpace) ||
           step_.Has(DecoderStep::kSpmDropSpaces)) &&
          absl::StartsWith(piece, kSpaceSymbol)) {
        piece.erase(0, kSpaceSymbol.size());
        space_seen_ = !step_.Has(DecoderStep::kSpmDropSpaces);
      }
      piece = absl::StrReplaceAll(piece, {{kSpaceSymbol, " "}});
    }
    return Hand(std::move(piece));
  }
  absl::Status Finish() override {
    DS_RETURN_IF_ERROR(Drain(/*all=*/true));
    return next_->Finish();
  }

 private:
  absl::Status Hand(std::string piece) {
    any_text_ |= !piece.empty();
    return next_->Push(std::move(piece), nullptr);
  }
  // Bytes so far as they are decided.
  absl::Status Drain(bool all) {
    std::string text;
    size_t pos = 0;
    while (pos < held_.size()) {
      const CodePoint c = DecodeUtf8(held_, pos);
      if (c.truncated && !all) break;
      if (c.valid) {
        text.append(held_, pos, c.size);
        pos += c.size;
      } else {
        absl::StrAppend(&text, kReplacement);
        ++pos;
      }
    }
    held_.erase(0, pos);
    return text.empty() ? absl::OkStatus() : Hand(std::move(text));
  }
  std::string held_;
  bool at_begin_ = true;
  bool space_seen_ = false;
  bool any_text_ = false;
};

}  // namespace

std::unique_ptr<DecoderStage> MakeByteFallback(
    const DecoderStep& step, std::unique_ptr<DecoderStage> next) {
  return std::make_unique<ByteFallback>(step, std::move(next));
}

std::unique_ptr<DecoderStage> MakeSentencePieceDecoder(
    const DecoderStep& step, std::unique_ptr<DecoderStage> next) {
  return std::make_unique<SentencePiece>(step, std::move(next));
}

}  // namespace deepslice
