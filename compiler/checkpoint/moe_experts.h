// The experts of DeepSpeed's MoE layers, which lie in files of their own, and
// what a checkpoint has of such layers.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_MOE_EXPERTS_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_MOE_EXPERTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "compiler/checkpoint/checkpoint.h"
#include "compiler/checkpoint/deepspeed_files.h"
#include "compiler/checkpoint/deepspeed_shard.h"
#include "compiler/checkpoint/loaded_checkpoint.h"

namespace deepslice {

// Appends the tensors in files.experts to the modules of `ranks`, one for each
// model-parallel rank, under their names with the experts' numbers in the whole
// layer. Every layer's experts must be there once, be alike, and be as many as
// its gate has rows and num_experts says.
absl::Status AddMoeExperts(const DeepSpeedFiles& files,
                           const std::vector<DeepSpeedShard*>& ranks,
                           CheckpointParts* parts);

// An expert's tensor: MODULE.deepspeed_moe.experts.deepspeed_experts.N.REST.
struct ExpertName {
  std::string module;
  int64_t expert = 0;
  std::string rest;
};
absl::optional<ExpertName> ParseExpertName(absl::string_view name);

// An MoE layer that tensors show.
struct MoeLayer {
  std::string module;     // "language_model.encoder.layers.3.mlp"
  int64_t experts = 0;    // rows of the gate, else experts that are there
  bool residual = false;  // an MLP and a coefficient beside the experts
};
// In the order of the layers' numbers.
std::vector<MoeLayer> FindMoeLayers(absl::Span<const TensorInfo> tensors);

// Unimplemented when there are any: "FOLDER: has 12 MoE layers of 64 experts
// ...".
absl::Status RefuseMoeLayers(const Checkpoint& checkpoint);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_MOE_EXPERTS_H_
