#include "compiler/checkpoint/universal.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "compiler/checkpoint/deepspeed.h"
#include "compiler/checkpoint/deepspeed_files.h"
#include "compiler/checkpoint/deepspeed_shard.h"
#include "compiler/checkpoint/loaded_checkpoint.h"
#include "compiler/checkpoint/megatron.h"
#include "compiler/checkpoint/pipeline_layers.h"
#include "compiler/checkpoint/shard_set.h"
#include "compiler/checkpoint/side_files.h"
#include "compiler/checkpoint/torch_file.h"
#include "compiler/checkpoint/torch_weights.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/file.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

constexpr absl::string_view kLatest = "latest_universal";
constexpr absl::string_view kFile = "fp32.pt";

bool HoldsParameters(const std::string& folder) {
  const std::string zero = JoinPath(folder, "zero");
  if (!DirectoryExists(zero)) return false;
  const auto names = ListDirectory(zero);
  return names.ok() &&
         std::any_of(names->begin(), names->end(), [&](const std::string& n) {
           return FileExists(JoinPath(JoinPath(zero, n), kFile));
         });
}

// What a parameter's file says beside its values.
struct Parameter {
  TensorInfo tensor;
  bool cut_vocabulary = false;  // rows that padded it were left out
  int64_t joined = 1;           // parts that were joined one by one
  bool shaped = false;          // of parts of other sizes
};

class Opener {
 public:
  Opener(const std::string& step, const std::vector<std::string>& folders,
         const OpenOptions& options, std::vector<std::string> notes)
      : step_(step), folder_(FindSideFolder(folders)), options_(options) {
    parts_.notes = std::move(notes);
  }

  absl::StatusOr<std::unique_ptr<Checkpoint>> Open() {
    DS_RETURN_IF_ERROR(ReadParameters());
    DS_RETURN_IF_ERROR(ReadState());
    if (IsPipeline()) return OpenAsPipeline();
    DS_RETURN_IF_ERROR(ReadSideFilesButConfig(folder_, &parts_));
    const std::string config = JoinPath(folder_, "config.json");
    if (FileExists(config)) {
      DS_ASSIGN_OR_RETURN(parts_.config, ReadConfigObject(config));
      parts_.config_place = config;
    }
    return HasMegatronNames() ? OpenAsMegatron() : OpenAsHuggingFace();
  }

 private:
  absl::Status ReadParameters() {
    const std::string zero = JoinPath(step_, "zero");
    DS_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                        ListDirectory(zero));
    std::vector<std::string> without;
    for (const std::string& name : names) {
      const std::string folder = JoinPath(zero, name);
      if (!DirectoryExists(folder)) continue;  // optimizer_state.pt
      const std::string path = JoinPath(folder, kFile);
      if (!FileExists(path)) {
        without.push_back(name);
        continue;
      }
      if (static_cast<int64_t>(parameters_.size()) == limits::kShards) {
        return absl::ResourceExhaustedError(absl::StrCat(
            zero, ": has more than ", limits::kShards, " parameters"));
      }
      DS_RETURN_IF_ERROR(ReadParameter(path, name));
    }
    if (without.empty()) return absl::OkStatus();
    return absl::NotFoundError(absl::StrFormat(
        "%s: %d of %d parameters have no %s: %s; copy their folders again",
        zero, without.size(), without.size() + parameters_.size(), kFile,
        ShortList(without)));
  }

  absl::Status ReadParameter(const std::string& path, const std::string& name) {
    DS_ASSIGN_OR_RETURN(SourceBytes source, MapSource(path));
    DS_ASSIGN_OR_RETURN(const auto torch, TorchFile::Open(source.bytes, path));
    const pickle::Value* value = &torch->root();
    Parameter out;
    if (const pickle::Value* dict = value->AsDict(); dict != nullptr) {
      value = dict->Find("param");
      const pickle::Value* joined = dict->Find("param_n_sub_params");
      if (joined != nullptr && joined->is_int()) out.joined = joined->as_int();
      const pickle::Value* vocab = dict->Find("vocab_tensor");
      out.cut_vocabulary = vocab != nullptr && vocab->as_bool();
      const pickle::Value* shape = dict->Find("sub_param_shape");
      out.shaped = shape != nullptr && !shape->is_none();
    }
    if (value == nullptr || !value->is_tensor()) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": param: holds ",
          value == nullptr ? std::string("nothing") : value->Describe(),
          "; must be the parameter's values"));
    }
    auto tensor = torch->Tensor(*value);
    if (!tensor.ok()) {
      return Annotate(Annotate(tensor.status(), "param"), path);
    }
    out.tensor = *std::move(tensor);
    out.tensor.name = name;
    out.tensor.file = static_cast<int>(parts_.sources.size());
    parts_.sources.push_back(std::move(source));
    parameters_.push_back(std::move(out));
    return absl::OkStatus();
  }

  // Arguments and version, of the first file of model states.
  absl::Status ReadState() {
    DS_ASSIGN_OR_RETURN(const DeepSpeedFiles files, ListDeepSpeedStep(step_));
    std::string path;
    if (!files.model_states.empty()) {
      path = files.model_states[0];
    } else if (!files.zero_states.empty()) {
      path = files.zero_states[0][0];
    }
    if (path.empty()) return absl::OkStatus();
    DS_ASSIGN_OR_RETURN(SourceBytes source, MapSource(path));
    DS_ASSIGN_OR_RETURN(
        state_,
        ReadDeepSpeedShard(source, static_cast<int>(parts_.sources.size())));
    parts_.sources.push_back(std::move(source));
    return absl::OkStatus();
  }

  bool HasMegatronNames() const {
    return std::any_of(
        parameters_.begin(), parameters_.end(), [](const Parameter& p) {
          return absl::StrContains(p.tensor.name,
                                   "language_model.embedding.") ||
                 absl::StrContains(p.tensor.name, "language_model.encoder.") ||
                 absl::StrContains(p.tensor.name, ".linear_qkv.");
        });
  }

  // The number of a pipeline's layer, and what its name is below it; a tied
  // module is the first layer.
  static bool ParsePipelineName(absl::string_view name, int64_t* index,
                                std::string* rest) {
    if (absl::ConsumePrefix(&name, "tied_modules.")) {
      const size_t dot = name.find('.');
      if (dot == name.npos) return false;
      *index = -1;
      *rest = std::string(name.substr(dot + 1));
      return true;
    }
    const size_t dot = name.find('.');
    if (dot == name.npos || dot == 0 || dot > 9 ||
        !std::all_of(name.begin(), name.begin() + dot, absl::ascii_isdigit) ||
        !absl::SimpleAtoi(name.substr(0, dot), index)) {
      return false;
    }
    *rest = std::string(name.substr(dot + 1));
    return true;
  }

  bool IsPipeline() const {
    int64_t index = 0;
    std::string rest;
    return std::all_of(parameters_.begin(), parameters_.end(),
                       [&](const Parameter& p) {
                         return ParsePipelineName(p.tensor.name, &index, &rest);
                       });
  }

  // The ranks that the parameters were joined of; 0: not known.
  int64_t RanksBefore() const {
    if (!state_.has_value()) return 0;
    for (const char* key :
         {"tensor_model_parallel_size", "model_parallel_size"}) {
      const json::Value* v = state_->state.args.Find(key);
      if (v != nullptr && v->is_int()) return v->as_int();
    }
    return state_->mp_world_size.value_or(0);
  }

  // Whether what each rank held several parts of was joined part by part: side
  // by side, these would be out of order.
  absl::Status CheckJoined() const {
    const int64_t ranks = RanksBefore();
    const json::Value* gated =
        state_.has_value() ? state_->state.args.Find("swiglu") : nullptr;
    const bool thirds = options_.qkv_layout.empty()
                            ? state_.has_value() && state_->has_version &&
                                  state_->state.version == 0
                            : options_.qkv_layout == "thirds";
    for (const Parameter& p : parameters_) {
      const std::string& name = p.tensor.name;
      const bool qkv = absl::StrContains(name, "query_key_value.");
      if (qkv && p.shaped) {
        return absl::UnimplementedError(absl::StrCat(
            Place(p),
            ": sub_param_shape: parts of several sizes are not read; "
            "give the folder that the universal one was made of"));
      }
      const bool up = absl::StrContains(name, "dense_h_to_4h.");
      if (ranks == 1 || p.joined > 1 ||
          !((qkv && thirds) ||
            (up && gated != nullptr && gated->is_bool() && gated->as_bool()))) {
        continue;
      }
      return absl::InvalidArgumentError(absl::StrCat(
          Place(p), ": is of ",
          ranks == 0 ? std::string("several") : absl::StrCat(ranks),
          " ranks joined side by side, although each rank holds ",
          up ? "a gate and what it multiplies"
             : "queries, keys and values one after another",
          " (param_n_sub_params is not there); give the folder that the "
          "universal one was made of"));
    }
    return absl::OkStatus();
  }

  std::string Place(const Parameter& p) const {
    return parts_.sources[p.tensor.file].path;
  }

  // The state of a model that one rank holds, whose vocabulary has `rows`.
  absl::optional<DeepSpeedShard> StateOfOne(int64_t rows) const {
    absl::optional<DeepSpeedShard> out = state_;
    if (!out.has_value() || !out->state.args.is_object()) return out;
    json::Value& args = out->state.args;
    for (const char* key : {"tensor_model_parallel_size", "model_parallel_size",
                            "pipeline_model_parallel_size"}) {
      if (args.Find(key) != nullptr) args.Set(key, 1);
    }
    if (rows > 0) args.Set("padded_vocab_size", rows);
    return out;
  }

  // Rows of an embedding of which those that padded it were left out; 0: they
  // are there.
  int64_t RowsLeft() const {
    for (const Parameter& p : parameters_) {
      if (p.cut_vocabulary &&
          absl::StrContains(p.tensor.name, "word_embeddings.weight")) {
        return p.tensor.rows();
      }
    }
    return 0;
  }

  absl::StatusOr<std::unique_ptr<Checkpoint>> OpenAsMegatron() {
    DS_RETURN_IF_ERROR(CheckJoined());
    const int64_t rows = RowsLeft();
    const absl::optional<DeepSpeedShard> state = StateOfOne(rows);
    MegatronHints hints;
    if (!state.has_value() || !state->has_version) {
      const json::Value* v = parts_.config.Find("checkpoint_version");
      if (v != nullptr && v->is_number()) {
        DS_ASSIGN_OR_RETURN(hints.version, MegatronVersion(v->as_double()));
      } else if (options_.qkv_layout.empty()) {
        return absl::InvalidArgumentError(absl::StrCat(
            step_,
            ": no mp_rank_00_model_states.pt says a checkpoint_version; "
            "say how query_key_value lies with --qkv-layout"));
      }
    }
    MegatronFiles files;
    files.where = step_;
    files.tensor_ranks = files.stages = 1;
    MegatronShard shard;
    if (state.has_value()) {
      shard.path = state->state.path;
      shard.args = state->state.args;
      shard.version = state->state.version;
      shard.iteration = state->state.iteration;
    } else {
      shard.path = JoinPath(step_, "zero");
    }
    files.paths.push_back(shard.path);
    shard.chunks.emplace_back();
    for (Parameter& p : parameters_) {
      shard.chunks[0].push_back(std::move(p.tensor));
    }
    OpenOptions options = options_;
    if (options.vocab_size == 0) options.vocab_size = rows;
    return JoinMegatron(files, {std::move(shard)}, folder_, hints, options,
                        std::move(parts_));
  }

  absl::StatusOr<std::unique_ptr<Checkpoint>> OpenAsPipeline() {
    DS_RETURN_IF_ERROR(CheckJoined());
    std::map<int64_t, PipelineLayer> layers;
    for (const Parameter& p : parameters_) {
      TensorInfo t = p.tensor;
      int64_t index = 0;
      ParsePipelineName(p.tensor.name, &index, &t.name);
      PipelineLayer& layer = layers[index];
      if (layer.of_ranks.empty()) {
        layer.index = index;
        layer.of_ranks.emplace_back();
        layer.file = Place(p);
      }
      layer.of_ranks[0].push_back(std::move(t));
    }
    std::vector<PipelineLayer> in_order;
    for (auto& [index, layer] : layers) in_order.push_back(std::move(layer));
    const int64_t rows = RowsLeft();
    const absl::optional<DeepSpeedShard> state = StateOfOne(rows);
    return JoinPipelineLayers(step_, in_order,
                              state.has_value() ? &*state : nullptr, rows,
                              folder_, options_, std::move(parts_));
  }

  absl::StatusOr<std::unique_ptr<Checkpoint>> OpenAsHuggingFace() {
    DS_RETURN_IF_ERROR(RefuseMegatronOptions(step_, options_));
    if (parts_.config.is_null()) {
      return ReadConfigObject(JoinPath(folder_, "config.json")).status();
    }
    for (Parameter& p : parameters_) {
      parts_.tensors.push_back(std::move(p.tensor));
    }
    StripWrapperPrefixes(step_, &parts_.tensors, &parts_.notes);
    return MakeCheckpoint(std::move(parts_));
  }

  const std::string& step_;
  const std::string folder_;
  const OpenOptions& options_;
  CheckpointParts parts_;
  std::vector<Parameter> parameters_;
  absl::optional<DeepSpeedShard> state_;
};

}  // namespace

bool IsUniversal(const std::string& step) { return HoldsParameters(step); }

absl::StatusOr<std::string> FindUniversal(const std::string& folder) {
  if (HoldsParameters(folder)) return folder;
  if (!FileExists(JoinPath(folder, kLatest)) ||
      FileExists(JoinPath(folder, "latest"))) {
    return std::string();
  }
  DS_ASSIGN_OR_RETURN(const std::string tag, ReadDeepSpeedTag(folder, kLatest));
  const std::string step = JoinPath(folder, tag);
  if (HoldsParameters(step)) return step;
  return absl::NotFoundError(
      absl::StrCat(step, ": has no zero/NAME/fp32.pt, although ",
                   JoinPath(folder, kLatest), " names it; copy it again"));
}

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenUniversal(
    const std::string& step, const std::vector<std::string>& folders,
    const OpenOptions& options, std::vector<std::string> notes) {
  return Opener(step, folders, options, std::move(notes)).Open();
}

}  // namespace deepslice
