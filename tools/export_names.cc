#include "tools/export_names.h"

#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "compiler/checkpoint/loaded_checkpoint.h"
#include "compiler/import.h"
#include "compiler/model.h"
#include "compiler/random_weights.h"
#include "ir/printer.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using Json = json::Value;

std::string ActivationName(Act act) {
  switch (act) {
    case Act::kSilu:
      return "silu";
    case Act::kGelu:
      return "gelu";
    case Act::kGeluTanh:
      return "gelu_new";
    case Act::kRelu:
      return "relu";
    case Act::kQuickGelu:
      return "quick_gelu";
    case Act::kTanh:
      return "tanh";
    case Act::kRelu2:
      return "relu2";
  }
  return "";
}

bool Has(const ModelDescription& m, absl::string_view weight) {
  return m.FindWeight(absl::StrCat("layers.0.", weight)) != nullptr;
}

double RopeBase(const ModelDescription& m) {
  for (const auto& [name, value] : m.rope.arguments) {
    if (name == "base") return value;
  }
  return 10000;
}

Json Config(absl::string_view architecture, absl::string_view type,
            const std::vector<std::pair<const char*, Json>>& members) {
  Json out = Json::Object();
  out.Set("architectures", Json::Array()).Add(architecture);
  out.Set("model_type", type);
  for (const auto& [key, value] : members) out.Set(key, value);
  return out;
}

Json Gpt2Config(const ModelDescription& m) {
  return Config("GPT2LMHeadModel", "gpt2",
                {{"n_embd", m.hidden_size},
                 {"n_head", m.heads},
                 {"n_layer", m.layers},
                 {"n_inner", m.inner_size},
                 {"n_positions", m.max_positions},
                 {"vocab_size", m.vocab_size},
                 {"activation_function", ActivationName(m.activation)},
                 {"layer_norm_epsilon", m.norm_eps},
                 {"tie_word_embeddings", m.tied_head}});
}

Json GptNeoxConfig(const ModelDescription& m) {
  const double share =
      m.head_dim == 0 ? 0 : static_cast<double>(m.rope.rotary_dim) / m.head_dim;
  return Config("GPTNeoXForCausalLM", "gpt_neox",
                {{"hidden_size", m.hidden_size},
                 {"num_attention_heads", m.heads},
                 {"num_hidden_layers", m.layers},
                 {"intermediate_size", m.inner_size},
                 {"max_position_embeddings", m.max_positions},
                 {"vocab_size", m.vocab_size},
                 {"hidden_act", ActivationName(m.activation)},
                 {"layer_norm_eps", m.norm_eps},
                 {"rotary_pct", share},
                 {"rotary_emb_base", RopeBase(m)},
                 {"use_parallel_residual", false},
                 {"attention_bias", Has(m, "attn_q.bias")},
                 {"tie_word_embeddings", m.tied_head}});
}

Json LlamaConfig(const ModelDescription& m) {
  return Config("LlamaForCausalLM", "llama",
                {{"hidden_size", m.hidden_size},
                 {"num_attention_heads", m.heads},
                 {"num_key_value_heads", m.kv_heads},
                 {"head_dim", m.head_dim},
                 {"num_hidden_layers", m.layers},
                 {"intermediate_size", m.inner_size},
                 {"max_position_embeddings", m.max_positions},
                 {"vocab_size", m.vocab_size},
                 {"hidden_act", ActivationName(m.activation)},
                 {"rms_norm_eps", m.norm_eps},
                 {"rope_theta", RopeBase(m)},
                 {"attention_bias", Has(m, "attn_q.bias")},
                 {"mlp_bias", Has(m, "mlp_out.bias")},
                 {"tie_word_embeddings", m.tied_head}});
}

std::unique_ptr<Checkpoint> CheckpointOf(const std::string& folder,
                                         const Json& config,
                                         std::vector<TensorInfo> tensors) {
  CheckpointParts parts;
  parts.sources.push_back({folder, "", {}});
  parts.config = config;
  parts.tensors = std::move(tensors);
  return MakeCheckpoint(std::move(parts));
}

// The model as the source said it, from what the plan knows of its tensors.
absl::StatusOr<ModelDescription> SourceModel(const KnownPlan& known) {
  std::vector<TensorInfo> tensors;
  for (const OriginTensor& t : known.origin.tensors) {
    TensorInfo info;
    info.name = t.name;
    info.dtype = t.dtype;
    info.shape = t.shape;
    tensors.push_back(std::move(info));
  }
  const auto checkpoint = CheckpointOf(
      known.folder, *known.origin.root.Find("config"), std::move(tensors));
  DescribeOptions options;
  options.assume_tied = known.origin.tied_head.value_or(false);
  return DescribeModel(*checkpoint, options);
}

// What a model computes, whatever its tensors are called.
absl::StatusOr<std::string> Computation(ModelDescription model) {
  model.family = "model";
  for (ModelWeight& w : model.weights) w.source = {};
  DS_ASSIGN_OR_RETURN(const Graph graph, ImportGraph(model));
  return PrintGraph(graph);
}

// The tensors of a model of that config, out of the plan's weights; nullopt
// where it is another model.
absl::StatusOr<absl::optional<ExportNames>> Rename(const KnownPlan& known,
                                                   const ModelDescription& from,
                                                   const Json& config) {
  DS_ASSIGN_OR_RETURN(std::vector<TensorInfo> infos, ListTensors(config));
  const auto checkpoint = CheckpointOf(known.folder, config, infos);
  DS_ASSIGN_OR_RETURN(const ModelDescription to, DescribeModel(*checkpoint));
  DS_ASSIGN_OR_RETURN(const std::string wanted, Computation(from));
  DS_ASSIGN_OR_RETURN(const std::string found, Computation(to));
  if (wanted != found) return absl::nullopt;

  ExportNames out;
  out.config = config;
  const PartsOf held = PartsByTensor(known.unsliced);
  std::map<std::string, DType> types;
  for (const OriginTensor& t : known.origin.tensors) {
    if (!t.rest.empty()) return absl::nullopt;
    types[t.name] = t.dtype;
  }
  std::map<std::string, DType> type_of;
  for (const ModelWeight& w : to.weights) {
    const ModelWeight* source = from.FindWeight(w.name);
    // Of one piece each, which is to say no weight of several tensors.
    if (source == nullptr || source->source.pieces.size() != 1 ||
        w.source.pieces.size() != 1) {
      return absl::nullopt;
    }
    const SourcePiece& piece = source->source.pieces[0];
    const auto parts = held.find(piece.tensor);
    if (parts == held.end()) return absl::nullopt;
    const HeldPart* part = nullptr;
    for (const HeldPart& p : parts->second) {
      if (*p.piece == piece) part = &p;
    }
    if (part == nullptr) return absl::nullopt;
    const SourcePiece& to_piece = w.source.pieces[0];
    // A head that is the embedding is written once.
    std::vector<HeldPart>& list = out.parts[to_piece.tensor];
    list.push_back({part->weight, part->piece, to_piece, w.source.plus});
    type_of[to_piece.tensor] = types[piece.tensor];
  }
  for (const TensorInfo& info : infos) {
    if (!out.parts.contains(info.name)) continue;
    OriginTensor t;
    t.name = info.name;
    t.dtype = type_of[info.name];
    t.shape = info.shape;
    out.tensors.push_back(std::move(t));
  }
  return out;
}

}  // namespace

absl::StatusOr<ExportNames> ChooseNames(const KnownPlan& known,
                                        std::vector<std::string>* notes) {
  ExportNames own;
  own.config = *known.origin.root.Find("config");
  own.tensors = known.origin.tensors;
  own.parts = PartsByTensor(known.unsliced);
  const Json* type = own.config.Find("model_type");
  if (type == nullptr || !type->is_string() ||
      type->as_string() != "megatron_gpt") {
    return own;
  }
  absl::StatusOr<ModelDescription> model = SourceModel(known);
  if (!model.ok()) return Annotate(model.status(), known.folder);
  for (const auto& make : {Gpt2Config, GptNeoxConfig, LlamaConfig}) {
    const Json config = make(*model);
    absl::StatusOr<absl::optional<ExportNames>> renamed =
        Rename(known, *model, config);
    // A config that its family refuses is not the one.
    if (!renamed.ok() || !renamed->has_value()) continue;
    notes->push_back(
        absl::StrCat("Megatron-LM's tensors are written as those of ",
                     config.Find("architectures")->items()[0].as_string(),
                     ", which computes the same"));
    return **std::move(renamed);
  }
  notes->push_back(
      "the tensors have Megatron-LM's names, which dscompile reads and "
      "transformers does not: neither GPT-2 nor GPT-NeoX nor Llama computes "
      "the same");
  return own;
}

}  // namespace deepslice
