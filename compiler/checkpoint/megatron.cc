#include "compiler/checkpoint/megatron.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "compiler/checkpoint/megatron_merge.h"
#include "compiler/checkpoint/side_files.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/file.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// Arguments that must be the same on all ranks: what the model or its cut
// depends on.
constexpr absl::string_view kShared[] = {
    "num_layers",
    "encoder_num_layers",
    "hidden_size",
    "ffn_hidden_size",
    "num_attention_heads",
    "kv_channels",
    "group_query_attention",
    "num_query_groups",
    "num_key_value_heads",
    "max_position_embeddings",
    "padded_vocab_size",
    "tensor_model_parallel_size",
    "model_parallel_size",
    "pipeline_model_parallel_size",
    "num_layers_per_virtual_pipeline_stage",
    "layernorm_epsilon",
    "norm_epsilon",
    "normalization",
    "apply_layernorm_1p",
    "layernorm_zero_centered_gamma",
    "swiglu",
    "quick_geglu",
    "squared_relu",
    "openai_gelu",
    "bias_gelu_fusion",
    "onnx_safe",
    "add_bias_linear",
    "add_qkv_bias",
    "add_position_embedding",
    "position_embedding_type",
    "use_rotary_position_embeddings",
    "rotary_percent",
    "rotary_base",
    "rotary_interleaved",
    "qk_layernorm",
    "softmax_scale",
    "untie_embeddings_and_output_weights",
    "apply_residual_connection_post_layernorm",
    "num_experts"};

const json::Value* FindInt(const json::Value& config, absl::string_view key) {
  const json::Value* v = config.Find(key);
  return v != nullptr && v->is_int() ? v : nullptr;
}

// Whether `key` holds true or false; neither when absent or null.
absl::optional<bool> FindBool(const json::Value& config,
                              absl::string_view key) {
  const json::Value* v = config.Find(key);
  if (v == nullptr || !v->is_bool()) return absl::nullopt;
  return v->as_bool();
}

std::string Show(const json::Value* v) {
  return v == nullptr ? "nothing" : Quoted(json::Write(*v));
}

// The ranks agree on what they are parts of.
absl::Status CheckRanks(const std::vector<MegatronShard>& shards) {
  const MegatronShard& first = shards[0];
  for (const MegatronShard& s : shards) {
    const auto differs = [&](absl::string_view what, const std::string& a,
                             const std::string& b) {
      return absl::InvalidArgumentError(absl::StrCat(
          s.path, ": ", what, ": holds ", b, ", but ", first.path, " ", a,
          "; the ranks are of different checkpoints, copy them again"));
    };
    if (s.version != first.version) {
      return differs("checkpoint_version", absl::StrCat(first.version),
                     absl::StrCat(s.version));
    }
    if (s.iteration != first.iteration) {
      const auto number = [](const absl::optional<int64_t>& i) {
        return i.has_value() ? absl::StrCat(*i) : "nothing";
      };
      return differs("iteration", number(first.iteration), number(s.iteration));
    }
    for (const absl::string_view key : kShared) {
      const json::Value* a = first.args.Find(key);
      const json::Value* b = s.args.Find(key);
      if (Show(a) != Show(b)) {
        return differs(absl::StrCat("args: ", key), Show(a), Show(b));
      }
    }
  }
  return absl::OkStatus();
}

// The arguments say how many ranks there were.
absl::Status CheckCount(const MegatronFiles& files, const json::Value& args) {
  const auto check = [&](std::initializer_list<absl::string_view> keys,
                         int found, absl::string_view what) {
    for (const absl::string_view key : keys) {
      const json::Value* v = FindInt(args, key);
      if (v == nullptr || v->as_int() == found) continue;
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s: holds %d %s, but args: %s is %d; give the files of all ranks "
          "and no others",
          files.where, found, what, key, v->as_int()));
    }
    return absl::OkStatus();
  };
  DS_RETURN_IF_ERROR(
      check({"tensor_model_parallel_size", "model_parallel_size"},
            files.tensor_ranks, "tensor-parallel ranks"));
  return check({"pipeline_model_parallel_size"}, files.stages,
               "pipeline stages");
}

MegatronShape ShapeOf(const json::Value& config, bool thirds) {
  MegatronShape out;
  out.thirds = thirds;
  out.cut_experts =
      FindBool(config, "enable_expert_tensor_parallelism").value_or(false);
  out.gated = FindBool(config, "swiglu").value_or(false) ||
              FindBool(config, "quick_geglu").value_or(false);
  const json::Value* heads = FindInt(config, "num_attention_heads");
  if (heads == nullptr || heads->as_int() < 1 ||
      heads->as_int() > limits::kHeads) {
    return out;
  }
  // As policy megatron_gpt has it.
  const absl::optional<bool> grouped =
      FindBool(config, "group_query_attention");
  const json::Value* groups = FindInt(config, "num_query_groups");
  int64_t count = heads->as_int();
  if (grouped.value_or(true) && groups != nullptr) {
    count = groups->as_int();
  } else if (grouped.has_value()) {
    count = *grouped ? 1 : count;
  } else if (const json::Value* v = FindInt(config, "num_key_value_heads")) {
    count = v->as_int();
  }
  int64_t width = 0;
  if (const json::Value* v = FindInt(config, "kv_channels")) {
    width = v->as_int();
  } else if (const json::Value* v = FindInt(config, "hidden_size")) {
    width = v->as_int() / heads->as_int();
  }
  if (count < 1 || count > heads->as_int() || width < 1 ||
      width > limits::kHiddenSize) {
    return out;  // the policy refuses it
  }
  out.heads = heads->as_int();
  out.groups = count;
  out.head_dim = width;
  return out;
}

absl::StatusOr<int> VersionOfLayout(absl::string_view layout) {
  const std::string name = absl::StrReplaceAll(layout, {{"-", "_"}});
  if (name == "thirds") return 0;
  if (name == "per_row") return 1;
  if (name == "per_group" || name == "per_head") return 2;
  return absl::InvalidArgumentError(
      absl::StrCat("--qkv-layout ", Quoted(layout),
                   ": allowed are thirds, per_row and per_group"));
}

// The version that counts, with notes about those that do not.
absl::StatusOr<int> ChooseVersion(const MegatronFiles& files, int of_files,
                                  const MegatronHints& hints,
                                  const OpenOptions& options,
                                  std::vector<std::string>* notes) {
  const int listed = hints.version.value_or(of_files);
  if (listed != of_files) {
    notes->push_back(absl::StrFormat(
        "%s: version %d counts, although the files' checkpoint_version is %d",
        files.where, listed, of_files));
  }
  if (options.qkv_layout.empty()) return listed;
  DS_ASSIGN_OR_RETURN(const int version, VersionOfLayout(options.qkv_layout));
  if (version != std::min(listed, 2)) {
    notes->push_back(
        absl::StrFormat("%s: --qkv-layout %s counts, not that of version %d",
                        files.where, options.qkv_layout, listed));
  }
  return version;
}

// The layers that are there are those of the arguments.
absl::Status CheckLayers(const MegatronFiles& files, const json::Value& config,
                         const std::vector<TensorInfo>& tensors) {
  const json::Value* v = FindInt(config, "num_layers");
  if (v == nullptr) v = FindInt(config, "encoder_num_layers");
  int64_t layers = 0;
  for (const TensorInfo& t : tensors) {
    size_t at =
        absl::StartsWith(t.name, "layers.") ? 0 : t.name.find(".layers.");
    if (at == std::string::npos) continue;
    at = t.name.find('.', at + 1) + 1;
    int64_t layer = 0;
    if (absl::SimpleAtoi(t.name.substr(at, t.name.find('.', at) - at),
                         &layer)) {
      layers = std::max(layers, layer + 1);
    }
  }
  if (v == nullptr || layers == v->as_int()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("%s: %d stages hold %d layers, but args: num_layers is "
                      "%d; give the files "
                      "of all stages",
                      files.where, files.stages, layers, v->as_int()));
}

// Settles the vocabulary's rows.
absl::Status FitVocabulary(const MegatronFiles& files,
                           const OpenOptions& options, CheckpointParts* parts) {
  int64_t rows = 0;
  for (const TensorInfo& t : parts->tensors) {
    if (absl::EndsWith(t.name, "word_embeddings.weight")) rows = t.rows();
  }
  if (rows == 0) return absl::OkStatus();  // the policy misses it
  const json::Value* padded = FindInt(parts->config, "padded_vocab_size");
  if (padded != nullptr && padded->as_int() != rows) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: %d ranks hold %d rows of the embedding, but args: "
        "padded_vocab_size is %d; give the files of all ranks",
        files.where, files.tensor_ranks, rows, padded->as_int()));
  }
  if (options.vocab_size < 0 || options.vocab_size > rows) {
    return absl::InvalidArgumentError(
        absl::StrFormat("--vocab-size %d: %s has %d rows; allowed: 1 to %d",
                        options.vocab_size, files.where, rows, rows));
  }
  if (options.vocab_size == 0) {
    parts->padded_vocab = rows;
    parts->notes.push_back(absl::StrFormat(
        "%s: the vocabulary keeps its %d rows, those among them that pad it "
        "too; --vocab-size N keeps the first N",
        files.where, rows));
  } else {
    for (TensorInfo& t : parts->tensors) {
      if (!HasVocabRows(t.name)) continue;
      if (t.rows() != rows) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "%s: tensor %s: has %d rows, the embedding %d; must have as many",
            files.where, Quoted(t.name), t.rows(), rows));
      }
      CutRows(options.vocab_size, &t);
    }
    rows = options.vocab_size;
  }
  parts->config.Set("padded_vocab_size", rows);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenMegatron(
    const MegatronFiles& files, const std::string& folder,
    const MegatronHints& hints, const OpenOptions& options) {
  CheckpointParts parts;
  parts.training_mp_size = files.tensor_ranks;
  DS_RETURN_IF_ERROR(ReadSideFilesButConfig(folder, &parts));
  parts.notes.insert(parts.notes.end(), hints.notes.begin(), hints.notes.end());
  parts.notes.insert(parts.notes.end(), files.notes.begin(), files.notes.end());
  std::vector<MegatronShard> shards;
  for (const std::string& path : files.paths) {
    DS_ASSIGN_OR_RETURN(SourceBytes source, MapSource(path));
    DS_ASSIGN_OR_RETURN(
        MegatronShard shard,
        ReadMegatronShard(source.bytes, path,
                          static_cast<int>(parts.sources.size())));
    parts.sources.push_back(std::move(source));
    shards.push_back(std::move(shard));
  }
  return JoinMegatron(files, shards, folder, hints, options, std::move(parts));
}

absl::StatusOr<std::unique_ptr<Checkpoint>> JoinMegatron(
    const MegatronFiles& files, const std::vector<MegatronShard>& shards,
    const std::string& folder, const MegatronHints& hints,
    const OpenOptions& options, CheckpointParts parts) {
  DS_RETURN_IF_ERROR(CheckRanks(shards));
  parts.config = shards[0].args;
  parts.config_place = absl::StrCat(shards[0].path, ": args");
  if (parts.config.is_null()) {
    const std::string path = JoinPath(folder, "config.json");
    if (!FileExists(path)) {
      return absl::NotFoundError(
          absl::StrCat(files.paths[0],
                       ": args: is not there; put the arguments of the "
                       "training run into ",
                       path));
    }
    DS_ASSIGN_OR_RETURN(parts.config, ReadConfigObject(path));
    parts.config_place = path;
  }
  DS_RETURN_IF_ERROR(CheckCount(files, parts.config));
  DS_ASSIGN_OR_RETURN(
      const int version,
      ChooseVersion(files, shards[0].version, hints, options, &parts.notes));
  DS_ASSIGN_OR_RETURN(
      parts.tensors,
      MergeMegatron(files, shards, ShapeOf(parts.config, version == 0),
                    parts.sources));
  DS_RETURN_IF_ERROR(CheckLayers(files, parts.config, parts.tensors));
  DS_RETURN_IF_ERROR(FitVocabulary(files, options, &parts));
  parts.config.Set("model_type", "megatron_gpt");
  parts.config.Set("checkpoint_version", version);
  return MakeCheckpoint(std::move(parts));
}

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenMegatronFolder(
    const std::string& folder, const OpenOptions& options) {
  DS_ASSIGN_OR_RETURN(const MegatronFiles files, FindMegatronFiles(folder));
  return OpenMegatron(files, folder, {}, options);
}

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenMegatronFile(
    const std::string& path, const OpenOptions& options) {
  const std::string folder = Dirname(Dirname(path));
  DS_ASSIGN_OR_RETURN(MegatronFiles files, FindMegatronFiles(folder));
  if (files.paths.size() > 1) {
    files.notes.push_back(absl::StrCat(
        path, ": is one of ", files.paths.size(), " ranks; all of ", folder,
        " are read"));
  }
  return OpenMegatron(files, folder, {}, options);
}

absl::Status RefuseMegatronOptions(const std::string& path,
                                   const OpenOptions& options) {
  if (options.vocab_size == 0 && options.qkv_layout.empty()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      options.qkv_layout.empty() ? "--vocab-size" : "--qkv-layout", ": ", path,
      " is no checkpoint of Megatron; leave the flag out"));
}

}  // namespace deepslice
