// A model whose layers were saved one by one, as DeepSpeed's pipelines do:
// layer_NN-model_MM-model_states.pt, NN the layer and MM the model-parallel
// rank, or layer_NN-model_states.pt.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_PIPELINE_LAYERS_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_PIPELINE_LAYERS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/checkpoint/checkpoint.h"
#include "compiler/checkpoint/deepspeed_files.h"
#include "compiler/checkpoint/deepspeed_shard.h"
#include "compiler/checkpoint/loaded_checkpoint.h"

namespace deepslice {

struct PipelineLayer {
  int64_t index = 0;  // in the pipeline; some have no tensors and no file
  // By model-parallel rank; names are those below the layer.
  std::vector<std::vector<TensorInfo>> of_ranks;
  std::string file;  // its first rank's, for errors
};

// The layers, by index, as one model. What each is shows in its tensors: the
// embedding, then blocks, the last norm, and the head if it has one of its own.
// Blocks of Megatron's names are a Megatron GPT by `state`'s arguments and
// checkpoint_version, or what a config.json of BLOOM or GPT-NeoX says; others
// have Hugging Face's names and need a config.json in `folder`. `state` may be
// nullptr. `vocab_rows`: those of the vocabulary, when what padded it is known
// to be cut off, else 0. `where` stands before errors; the tensors lie in
// parts.sources.
absl::StatusOr<std::unique_ptr<Checkpoint>> JoinPipelineLayers(
    const std::string& where, const std::vector<PipelineLayer>& layers,
    const DeepSpeedShard* state, int64_t vocab_rows, const std::string& folder,
    const OpenOptions& options, CheckpointParts parts);

// The files of a step that has such layers; `folder` is that of config.json
// and tokenizer.
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenPipelineLayers(
    const DeepSpeedFiles& files, const std::string& folder,
    const OpenOptions& options, std::vector<std::string> notes);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_PIPELINE_LAYERS_H_
