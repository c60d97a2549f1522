// Whole sequences through a program of kind encode: packs them into steps and
// hands out what each made.
#ifndef DEEPSLICE_RUNTIME_ENCODE_H_
#define DEEPSLICE_RUNTIME_ENCODE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "runtime/engine.h"
#include "runtime/executor.h"
#include "schema/plan_generated.h"

namespace deepslice {

struct EncodeInput {
  std::vector<int32_t> ids;
  std::vector<int32_t> types;  // as many, or none: zeros
};

// The part of the program's outputs that is one sequence's (or image's), in
// their order: rows of a token output are its tokens', a row output has one.
using EncodeSink = std::function<absl::Status(
    int sequence, const std::vector<NamedOutput>& outputs)>;

// FailedPrecondition unless the plan encodes; InvalidArgument for a sequence
// that is empty or too long, ids and types out of range, and a padding token
// that the model's positions would skip, each with its place. Nothing runs
// before all are checked. Calls `sink` once for each, in order.
absl::Status EncodeSequences(const std::vector<EncodeInput>& inputs,
                             const fb::Plan& plan, const Executor& executor,
                             Engine* engine, const EncodeSink& sink);

// The same of images, each [3, size, size] as EncoderSettings::image says, one
// plane after the other; what the program makes of texts is left out.
absl::Status EncodeImages(const std::vector<std::vector<float>>& images,
                          const fb::Plan& plan, const Executor& executor,
                          Engine* engine, const EncodeSink& sink);

// The tokens of an image: a class token of zeros, then its patches in rows,
// each [3, patch, patch].
std::vector<float> PatchesOf(const std::vector<float>& pixels, int64_t size,
                             int64_t patch);

// The most tokens of a sequence.
int64_t MostEncodeTokens(const Executor& executor);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_ENCODE_H_
