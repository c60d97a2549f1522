// From tokens back to text: decoder steps that hand pieces of text on, one
// after the other, as far as they are decided.
#ifndef DEEPSLICE_RUNTIME_TEXT_DECODER_CHAIN_H_
#define DEEPSLICE_RUNTIME_TEXT_DECODER_CHAIN_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/text/pcre_regex.h"
#include "runtime/text/text_allowance.h"
#include "runtime/text/tokenizer_spec.h"

namespace deepslice {

// What a token is, for the steps that ask.
struct DecodedToken {
  absl::string_view text;
  uint8_t bits = 0;      // kToken...
  bool unknown = false;  // the spec's unk_id
};

// One step at work on one text.
class DecoderStage {
 public:
  virtual ~DecoderStage() = default;
  // The next piece of text; `token` is what it came from, null after a Fuse.
  virtual absl::Status Push(std::string piece, const DecodedToken* token) = 0;
  virtual absl::Status Finish() = 0;
};

// The steps of a spec, with their patterns compiled. Immutable, thread-safe.
class DecoderChain {
 public:
  // InvalidArgument or Unimplemented for a pattern that can't be used.
  static absl::StatusOr<DecoderChain> Create(
      const std::vector<DecoderStep>& steps);

  // A chain at work whose last step appends to `*out`. The chain, `out` and
  // `allowance`, on which its steps draw, outlive it.
  std::unique_ptr<DecoderStage> Start(TextAllowance* allowance,
                                      std::string* out) const;

 private:
  struct Step {
    DecoderStep spec;
    std::shared_ptr<const Regex> regex;
  };
  std::vector<Step> steps_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_DECODER_CHAIN_H_
