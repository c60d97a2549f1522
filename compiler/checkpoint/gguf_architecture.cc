#include "compiler/checkpoint/gguf_architecture.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "schema/base/limits.h"

namespace deepslice {
namespace {

// Tables of constants outlive every use.
template <typename T, size_t n>
constexpr absl::Span<const T> Table(const T (&rows)[n]) {
  return absl::Span<const T>(rows, n);
}

constexpr GgufName kLlamaNames[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
    {"blk.{i}.attn_norm", "model.layers.{i}.input_layernorm"},
    {"blk.{i}.attn_q", "model.layers.{i}.self_attn.q_proj",
     GgufRows::kQueryPairs},
    {"blk.{i}.attn_k", "model.layers.{i}.self_attn.k_proj",
     GgufRows::kKeyPairs},
    {"blk.{i}.attn_v", "model.layers.{i}.self_attn.v_proj"},
    {"blk.{i}.attn_output", "model.layers.{i}.self_attn.o_proj"},
    {"blk.{i}.ffn_norm", "model.layers.{i}.post_attention_layernorm"},
    {"blk.{i}.ffn_gate", "model.layers.{i}.mlp.gate_proj"},
    {"blk.{i}.ffn_up", "model.layers.{i}.mlp.up_proj"},
    {"blk.{i}.ffn_down", "model.layers.{i}.mlp.down_proj"},
    {"blk.{i}.attn_rot_embd", "model.layers.{i}.self_attn.rotary_emb.inv_freq",
     GgufRows::kBuffer},
};

// The converter permutes llama's rows only: Qwen2's graph rotates halves.
constexpr GgufName kQwen2Names[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
    {"blk.{i}.attn_norm", "model.layers.{i}.input_layernorm"},
    {"blk.{i}.attn_q", "model.layers.{i}.self_attn.q_proj"},
    {"blk.{i}.attn_k", "model.layers.{i}.self_attn.k_proj"},
    {"blk.{i}.attn_v", "model.layers.{i}.self_attn.v_proj"},
    {"blk.{i}.attn_output", "model.layers.{i}.self_attn.o_proj"},
    {"blk.{i}.ffn_norm", "model.layers.{i}.post_attention_layernorm"},
    {"blk.{i}.ffn_gate", "model.layers.{i}.mlp.gate_proj"},
    {"blk.{i}.ffn_up", "model.layers.{i}.mlp.up_proj"},
    {"blk.{i}.ffn_down", "model.layers.{i}.mlp.down_proj"},
};

constexpr GgufName kGpt2Names[] = {
    {"token_embd", "transformer.wte"},
    {"position_embd", "transformer.wpe"},
    {"output_norm", "transformer.ln_f"},
    {"output", "lm_head"},
    {"blk.{i}.attn_norm", "transformer.h.{i}.ln_1"},
    {"blk.{i}.attn_qkv", "transformer.h.{i}.attn.c_attn",
     GgufRows::kTransposed},
    {"blk.{i}.attn_output", "transformer.h.{i}.attn.c_proj",
     GgufRows::kTransposed},
    {"blk.{i}.ffn_norm", "transformer.h.{i}.ln_2"},
    {"blk.{i}.ffn_up", "transformer.h.{i}.mlp.c_fc", GgufRows::kTransposed},
    {"blk.{i}.ffn_down", "transformer.h.{i}.mlp.c_proj", GgufRows::kTransposed},
};

constexpr GgufIntKey kLlamaKeys[] = {
    {"embedding_length", "hidden_size", limits::kHiddenSize},
    {"block_count", "num_hidden_layers", limits::kLayers},
    {"feed_forward_length", "intermediate_size", limits::kHiddenSize * 16},
    {"attention.head_count", "num_attention_heads", limits::kHeads},
    {"attention.head_count_kv", "num_key_value_heads", limits::kHeads, false},
    {"context_length", "max_position_embeddings", limits::kPositions},
    {"attention.key_length", "head_dim", limits::kHiddenSize, false},
    {"attention.sliding_window", "sliding_window", limits::kPositions, false},
};

constexpr GgufIntKey kGpt2Keys[] = {
    {"embedding_length", "n_embd", limits::kHiddenSize},
    {"block_count", "n_layer", limits::kLayers},
    {"feed_forward_length", "n_inner", limits::kHiddenSize * 16},
    {"attention.head_count", "n_head", limits::kHeads},
    {"context_length", "n_positions", limits::kPositions},
};

constexpr GgufConstant kLlamaConstants[] = {{"model_type", "llama"},
                                            {"hidden_act", "silu"}};
constexpr GgufConstant kQwen2Constants[] = {{"model_type", "qwen2"},
                                            {"hidden_act", "silu"}};
constexpr GgufConstant kGpt2Constants[] = {{"model_type", "gpt2"},
                                           {"activation_function", "gelu_new"}};

constexpr absl::string_view kRmsEps = "attention.layer_norm_rms_epsilon";
constexpr GgufArchitecture kArchitectures[] = {
    {"gpt2", Table(kGpt2Names), Table(kGpt2Keys), Table(kGpt2Constants),
     "GPT2LMHeadModel", "attention.layer_norm_epsilon", "layer_norm_epsilon",
     false},
    {"llama", Table(kLlamaNames), Table(kLlamaKeys), Table(kLlamaConstants),
     "LlamaForCausalLM", kRmsEps, "rms_norm_eps", true},
    {"qwen2", Table(kQwen2Names), Table(kLlamaKeys), Table(kQwen2Constants),
     "Qwen2ForCausalLM", kRmsEps, "rms_norm_eps", true},
};

constexpr absl::string_view kLayer = "{i}";

// The layer's digits when `stem` matches `pattern`: "" for a pattern without
// {i}. False when it does not match.
bool Match(absl::string_view pattern, absl::string_view stem,
           absl::string_view* layer) {
  const size_t at = pattern.find(kLayer);
  *layer = {};
  if (at == absl::string_view::npos) return pattern == stem;
  const absl::string_view tail = pattern.substr(at + kLayer.size());
  if (stem.size() <= at + tail.size() ||
      !absl::StartsWith(stem, pattern.substr(0, at)) ||
      !absl::EndsWith(stem, tail)) {
    return false;
  }
  *layer = stem.substr(at, stem.size() - at - tail.size());
  // One spelling a layer: "00" would be a second name of layer 0.
  return layer->find_first_not_of("0123456789") == absl::string_view::npos &&
         (layer->size() == 1 || layer->front() != '0');
}

}  // namespace

const GgufArchitecture* FindGgufArchitecture(absl::string_view name) {
  for (const GgufArchitecture& a : kArchitectures) {
    if (a.name == name) return &a;
  }
  return nullptr;
}

std::string GgufArchitectureNames() {
  return absl::StrJoin(kArchitectures, ", ",
                       [](std::string* out, const GgufArchitecture& a) {
                         absl::StrAppend(out, a.name);
                       });
}

PublishedName TranslateGgufName(const GgufArchitecture& architecture,
                                absl::string_view stored) {
  const size_t dot = stored.rfind('.');
  const absl::string_view suffix =
      dot == absl::string_view::npos ? "" : stored.substr(dot);
  if (suffix != ".weight" && suffix != ".bias") return {};
  for (const GgufName& row : architecture.names) {
    absl::string_view layer;
    if (Match(row.stored, stored.substr(0, dot), &layer)) {
      return {
          absl::StrCat(absl::StrReplaceAll(row.published, {{kLayer, layer}}),
                       row.rows == GgufRows::kBuffer ? "" : suffix),
          row.rows};
    }
  }
  return {};
}

}  // namespace deepslice
