#include "compiler/checkpoint/pipeline_layers.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "compiler/checkpoint/megatron.h"
#include "compiler/checkpoint/megatron_merge.h"
#include "compiler/checkpoint/pipeline_names.h"
#include "compiler/checkpoint/side_files.h"
#include "compiler/checkpoint/torch_file.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/file.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

class Joiner {
 public:
  Joiner(const std::string& where, const std::vector<PipelineLayer>& layers,
         const DeepSpeedShard* state, int64_t vocab_rows,
         const std::string& folder, const OpenOptions& options,
         CheckpointParts parts)
      : where_(where),
        layers_(layers),
        state_(state),
        vocab_rows_(vocab_rows),
        folder_(folder),
        options_(options),
        parts_(std::move(parts)) {}

  absl::StatusOr<std::unique_ptr<Checkpoint>> Run() {
    DS_RETURN_IF_ERROR(FindRoles());
    DS_RETURN_IF_ERROR(ReadSideFilesButConfig(folder_, &parts_));
    const std::string path = JoinPath(folder_, "config.json");
    if (FileExists(path)) {
      DS_ASSIGN_OR_RETURN(parts_.config, ReadConfigObject(path));
      parts_.config_place = path;
    }
    const json::Value* type = parts_.config.Find("model_type");
    const std::string model_type =
        type != nullptr && type->is_string() ? type->as_string() : "";
    if (!megatron_) return JoinAsHuggingFace();
    if (model_type == "bloom") return JoinAsPublished(PipelineNames::kBloom);
    if (model_type == "gpt_neox") return JoinAsPublished(PipelineNames::kNeox);
    return JoinAsMegatron(model_type);
  }

 private:
  int ranks() const { return static_cast<int>(layers_[0].of_ranks.size()); }

  absl::Status FindRoles() {
    if (std::none_of(layers_.begin(), layers_.end(), [](const auto& layer) {
          return RoleOfLayer(layer.of_ranks[0], true) == PipelineRole::kBlock;
        })) {
      return absl::NotFoundError(absl::StrFormat(
          "%s: none of the %d layers is a block (attention and MLP); copy the "
          "files of all layers",
          where_, layers_.size()));
    }
    bool blocks = false, ended = false;
    int64_t last = 0;
    for (const PipelineLayer& layer : layers_) {
      const auto role = RoleOfLayer(layer.of_ranks[0], blocks);
      if (!role.has_value()) {
        const auto& tensors = layer.of_ranks[0];
        return absl::UnimplementedError(absl::StrCat(
            layer.file, ": holds ",
            tensors.empty() ? std::string("no tensors")
                            : absl::StrCat("tensor ", Quoted(tensors[0].name)),
            "; must be an embedding, a block, the norm after the blocks or the "
            "head"));
      }
      if (*role == PipelineRole::kBlock) {
        if (blocks && (ended || layer.index != last + 1)) {
          return absl::NotFoundError(absl::StrFormat(
              "%s: layer %d is missing between blocks %d and %d; copy the "
              "files of all layers",
              where_, last + 1, last, layer.index));
        }
        if (!blocks) megatron_ = HasMegatronBlockNames(layer.of_ranks[0]);
        blocks = true;
        last = layer.index;
      } else if (blocks) {
        ended = true;
      }
      roles_.push_back(*role);
    }
    for (const auto& [role, what] :
         {std::make_pair(PipelineRole::kEmbedding, "the embedding"),
          std::make_pair(PipelineRole::kFinalNorm,
                         "the norm after the "
                         "blocks")}) {
      const int64_t count = std::count(roles_.begin(), roles_.end(), role);
      if (count == 1) continue;
      return absl::NotFoundError(absl::StrFormat(
          "%s: of %d layers %d are %s; one must be: copy the files of all "
          "layers and no others",
          where_, layers_.size(), count, what));
    }
    return absl::OkStatus();
  }

  // What a rank has, under the names of the whole model.
  std::vector<TensorInfo> OfRank(PipelineNames names, int rank) const {
    std::vector<TensorInfo> out;
    int64_t block = 0;
    for (size_t i = 0; i < layers_.size(); ++i) {
      for (const TensorInfo& stored : layers_[i].of_ranks[rank]) {
        std::string name = NameInModel(names, roles_[i], block, stored.name);
        if (name.empty()) continue;
        TensorInfo t = stored;
        t.stored_name = stored.name;
        t.name = std::move(name);
        out.push_back(std::move(t));
      }
      block += roles_[i] == PipelineRole::kBlock;
    }
    return out;
  }

  absl::StatusOr<std::unique_ptr<Checkpoint>> JoinAsHuggingFace() {
    DS_RETURN_IF_ERROR(RefuseMegatronOptions(where_, options_));
    if (parts_.config.is_null()) {
      return ReadConfigObject(JoinPath(folder_, "config.json")).status();
    }
    if (ranks() > 1) {
      return absl::UnimplementedError(absl::StrFormat(
          "%s: has the parts of %d model-parallel ranks, whose tensors have "
          "names of Hugging Face; how these are cut is written nowhere: save "
          "the whole model",
          where_, ranks()));
    }
    parts_.tensors = OfRank(PipelineNames::kModel, 0);
    return MakeCheckpoint(std::move(parts_));
  }

  // Files and shards as if of Megatron's ranks.
  MegatronFiles Files() const {
    MegatronFiles out;
    out.where = where_;
    out.tensor_ranks = ranks();
    out.stages = 1;
    for (int r = 0; r < ranks(); ++r) {
      out.paths.push_back(JoinPath(
          where_, absl::StrFormat("layer_*-model_%02d-model_states.pt", r)));
    }
    return out;
  }
  std::vector<MegatronShard> Shards() const {
    std::vector<MegatronShard> out;
    for (int r = 0; r < ranks(); ++r) {
      MegatronShard shard;
      shard.path = state_ == nullptr ? where_ : state_->state.path;
      if (state_ != nullptr) {
        shard.args = state_->state.args;
        // The layers of all stages are here.
        if (shard.args.Find("pipeline_model_parallel_size") != nullptr) {
          shard.args.Set("pipeline_model_parallel_size", 1);
        }
        shard.version = state_->state.version;
        shard.iteration = state_->state.iteration;
      }
      shard.chunks.push_back(OfRank(PipelineNames::kMegatron, r));
      out.push_back(std::move(shard));
    }
    return out;
  }

  // BLOOM and GPT-NeoX, published under Megatron's names of a block.
  absl::StatusOr<std::unique_ptr<Checkpoint>> JoinAsPublished(
      PipelineNames names) {
    DS_RETURN_IF_ERROR(RefuseMegatronOptions(where_, options_));
    std::vector<MegatronShard> shards = Shards();
    if (names == PipelineNames::kNeox && ranks() > 1) {
      for (const TensorInfo& t : shards[0].chunks[0]) {
        if (!absl::EndsWith(t.name, "attention.dense.bias") &&
            !absl::EndsWith(t.name, "mlp.dense_4h_to_h.bias")) {
          continue;
        }
        return absl::UnimplementedError(absl::StrCat(
            parts_.sources[t.file].path, ": tensor ", Quoted(t.stored_name),
            ": whether GPT-NeoX adds such biases of several ranks up depends "
            "on its version; convert the step with its "
            "tools/ckpts/convert_neox_to_hf.py"));
      }
    }
    const MegatronFiles files = Files();
    DS_ASSIGN_OR_RETURN(parts_.tensors,
                        MergeMegatron(files, shards, {}, parts_.sources));
    const json::Value* vocab = parts_.config.Find("vocab_size");
    for (TensorInfo& t : parts_.tensors) {
      const bool words = HasVocabRows(t.name);
      t.name = FromMegatronName(names, t.name);
      if (!words || vocab == nullptr || !vocab->is_int() ||
          vocab->as_int() < 1 || vocab->as_int() >= t.rows()) {
        continue;
      }
      parts_.notes.push_back(absl::StrFormat(
          "%s: tensor %s has %d rows, which pad a vocabulary of %d "
          "(config.json); those after it are left out",
          where_, Quoted(t.name), t.rows(), vocab->as_int()));
      CutRows(vocab->as_int(), &t);
    }
    return MakeCheckpoint(std::move(parts_));
  }

  // One of the training run, or of a config.json in its place.
  const json::Value* Argument(absl::string_view key) const {
    return state_ != nullptr && state_->state.args.is_object()
               ? state_->state.args.Find(key)
               : parts_.config.Find(key);
  }

  absl::StatusOr<std::unique_ptr<Checkpoint>> JoinAsMegatron(
      const std::string& model_type) {
    const bool told = state_ != nullptr && state_->state.args.is_object();
    if (!told && !model_type.empty() && model_type != "megatron_gpt") {
      return absl::InvalidArgumentError(absl::StrCat(
          JoinPath(folder_, "config.json"), ": model_type: holds ",
          Quoted(model_type), ", but the layers are of a Megatron GPT (",
          Quoted(layers_[0].file),
          "); put the arguments of the training run into it, with model_type "
          "megatron_gpt"));
    }
    MegatronHints hints;
    if (state_ == nullptr || !state_->has_version) {
      const json::Value* v = parts_.config.Find("checkpoint_version");
      if (v != nullptr && v->is_number()) {
        DS_ASSIGN_OR_RETURN(hints.version, MegatronVersion(v->as_double()));
      } else if (options_.qkv_layout.empty()) {
        return absl::InvalidArgumentError(absl::StrCat(
            where_,
            ": no mp_rank_00_model_states.pt says a "
            "checkpoint_version; say how query_key_value lies in the "
            "layers with --qkv-layout"));
      }
    }
    const json::Value* told_layers = Argument("num_layers");
    const int64_t blocks =
        std::count(roles_.begin(), roles_.end(), PipelineRole::kBlock);
    if (told_layers != nullptr && told_layers->is_int() &&
        told_layers->as_int() != blocks) {
      return absl::NotFoundError(absl::StrFormat(
          "%s: has %d blocks, but args: num_layers is %d; copy the files of "
          "all layers",
          where_, blocks, told_layers->as_int()));
    }
    const std::vector<MegatronShard> shards = Shards();
    OpenOptions options = options_;
    if (options.vocab_size == 0) options.vocab_size = vocab_rows_;
    return JoinMegatron(Files(), shards, folder_, hints, options,
                        std::move(parts_));
  }

  const std::string& where_;
  const std::vector<PipelineLayer>& layers_;
  const DeepSpeedShard* state_;
  const int64_t vocab_rows_;
  const std::string& folder_;
  const OpenOptions& options_;
  CheckpointParts parts_;
  std::vector<PipelineRole> roles_;
  bool megatron_ = false;  // the blocks' names
};

// NN and MM of layer_NN-model_MM-model_states.pt; MM is 0 where only the
// pipeline was parallel and the name has none.
bool ParseLayerName(absl::string_view name, int64_t* layer, int64_t* rank) {
  if (!absl::ConsumePrefix(&name, "layer_") ||
      !absl::ConsumeSuffix(&name, "-model_states.pt")) {
    return false;
  }
  const size_t at = name.find("-model_");
  *rank = 0;
  if (at != name.npos &&
      (!absl::SimpleAtoi(name.substr(at + 7), rank) || *rank < 0)) {
    return false;
  }
  return absl::SimpleAtoi(name.substr(0, at), layer) && *layer >= 0;
}

absl::StatusOr<std::vector<TensorInfo>> ReadLayer(const std::string& path,
                                                  CheckpointParts* parts) {
  DS_ASSIGN_OR_RETURN(SourceBytes source, MapSource(path));
  DS_ASSIGN_OR_RETURN(const auto torch, TorchFile::Open(source.bytes, path));
  if (torch->root().AsDict() == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": holds ", torch->root().Describe(),
                     "; must be a layer's dict of tensors"));
  }
  DS_ASSIGN_OR_RETURN(TorchTensors listed, torch->ListTensors(torch->root()));
  for (TensorInfo& t : listed.tensors) {
    t.file = static_cast<int>(parts->sources.size());
  }
  parts->sources.push_back(std::move(source));
  return std::move(listed.tensors);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoint>> JoinPipelineLayers(
    const std::string& where, const std::vector<PipelineLayer>& layers,
    const DeepSpeedShard* state, int64_t vocab_rows, const std::string& folder,
    const OpenOptions& options, CheckpointParts parts) {
  return Joiner(where, layers, state, vocab_rows, folder, options,
                std::move(parts))
      .Run();
}

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenPipelineLayers(
    const DeepSpeedFiles& files, const std::string& folder,
    const OpenOptions& options, std::vector<std::string> notes) {
  std::map<std::pair<int64_t, int64_t>, std::string> found;
  int64_t ranks = 0;
  for (const std::string& path : files.layers) {
    int64_t layer = 0, rank = 0;
    if (!ParseLayerName(Basename(path), &layer, &rank)) continue;
    if (rank >= limits::kShards) {
      return absl::ResourceExhaustedError(
          absl::StrCat(path, ": ranks below ", limits::kShards, " are read"));
    }
    const auto added = found.insert({{layer, rank}, path});
    if (!added.second) {
      return absl::InvalidArgumentError(absl::StrCat(
          files.where, ": ", Quoted(path), " and ", Quoted(added.first->second),
          " are of the same layer and rank; keep one"));
    }
    ranks = std::max(ranks, rank + 1);
  }
  CheckpointParts parts;
  parts.training_mp_size = static_cast<int>(ranks);
  parts.notes = std::move(notes);
  std::vector<PipelineLayer> layers;
  for (const auto& [at, path] : found) {
    if (layers.empty() || layers.back().index != at.first) {
      layers.emplace_back();
      layers.back().index = at.first;
      layers.back().file = path;
    }
    PipelineLayer& layer = layers.back();
    const int64_t next = static_cast<int64_t>(layer.of_ranks.size());
    DS_ASSIGN_OR_RETURN(std::vector<TensorInfo> tensors,
                        ReadLayer(path, &parts));
    if (at.second == next) layer.of_ranks.push_back(std::move(tensors));
  }
  for (const PipelineLayer& layer : layers) {
    const int64_t have = static_cast<int64_t>(layer.of_ranks.size());
    if (have == ranks) continue;
    return absl::NotFoundError(absl::StrFormat(
        "%s: layer_%02d-model_%02d-model_states.pt is missing; every layer "
        "has the files of all %d ranks: copy them",
        files.where, layer.index, have, ranks));
  }
  absl::optional<DeepSpeedShard> state;
  if (!files.model_states.empty()) {
    DS_ASSIGN_OR_RETURN(SourceBytes source, MapSource(files.model_states[0]));
    DS_ASSIGN_OR_RETURN(
        state,
        ReadDeepSpeedShard(source, static_cast<int>(parts.sources.size())));
    parts.sources.push_back(std::move(source));
  }
  return JoinPipelineLayers(files.where, layers,
                            state.has_value() ? &*state : nullptr, 0, folder,
                            options, std::move(parts));
}

}  // namespace deepslice
