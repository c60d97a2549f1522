// Decoder steps that put bytes together again.
#ifndef DEEPSLICE_RUNTIME_TEXT_DECODER_BYTES_H_
#define DEEPSLICE_RUNTIME_TEXT_DECODER_BYTES_H_

#include <memory>
#include <utility>

#include "runtime/text/decoder_chain.h"
#include "runtime/text/tokenizer_spec.h"

namespace deepslice {

// A stage with one after it; `step` outlives it.
class LinkedStage : public DecoderStage {
 public:
  LinkedStage(const DecoderStep& step, std::unique_ptr<DecoderStage> next)
      : step_(step), next_(std::move(next)) {}
  absl::Status Finish() override { return next_->Finish(); }

 protected:
  const DecoderStep& step_;
  std::unique_ptr<DecoderStage> next_;
};

// A run of byte tokens: its text, or U+FFFD for each when it is not UTF-8.
std::unique_ptr<DecoderStage> MakeByteFallback(
    const DecoderStep& step, std::unique_ptr<DecoderStage> next);

// sentencepiece's own decoder.
std::unique_ptr<DecoderStage> MakeSentencePieceDecoder(
    const DecoderStep& step, std::unique_ptr<DecoderStage> next);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_DECODER_BYTES_H_
