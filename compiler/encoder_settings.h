// What a plan says about reading whole texts: which of its tokens count, the
// names of classes, and how an embedding is made.
#ifndef DEEPSLICE_COMPILER_ENCODER_SETTINGS_H_
#define DEEPSLICE_COMPILER_ENCODER_SETTINGS_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/checkpoint/checkpoint.h"
#include "compiler/model.h"
#include "schema/plan_generated.h"

namespace deepslice {

// Whether the model's program is one of kind encode.
inline bool IsEncoder(const ModelDescription& model) {
  return model.head != TaskHead::kCausalLm;
}

// From the model, and from the files that sentence-transformers keeps beside
// it. Unimplemented for modules and poolings other than its Transformer, its
// Pooling by mean or first token, and its Normalize.
absl::StatusOr<fb::EncoderSettingsT> MakeEncoderSettings(
    const Checkpoint& checkpoint, const ModelDescription& model,
    const std::function<void(const std::string&)>& log);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_ENCODER_SETTINGS_H_
