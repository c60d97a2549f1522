#include "compiler/checkpoint/presharded_names.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace deepslice {
namespace {

constexpr InjectedFamily kFamilies[] = {
    {"bert", PublishedQkv::kSplit, false, false, "attention.self.query",
     "attention.self.key", "attention.self.value", "attention.output.dense",
     "intermediate.dense", "", "output.dense", "output.LayerNorm",
     "attention.output.LayerNorm"},
    {"roberta", PublishedQkv::kSplit, false, false, "attention.self.query",
     "attention.self.key", "attention.self.value", "attention.output.dense",
     "intermediate.dense", "", "output.dense", "output.LayerNorm",
     "attention.output.LayerNorm"},
    {"distilbert", PublishedQkv::kSplit, false, false, "attention.q_lin",
     "attention.k_lin", "attention.v_lin", "attention.out_lin", "ffn.lin1", "",
     "ffn.lin2", "output_layer_norm", "sa_layer_norm"},
    {"bloom", PublishedQkv::kPerHead, true, false,
     "self_attention.query_key_value", "", "", "self_attention.dense",
     "mlp.dense_h_to_4h", "", "mlp.dense_4h_to_h", "input_layernorm",
     "post_attention_layernorm"},
    {"gpt2", PublishedQkv::kFused, false, true, "attn.c_attn", "", "",
     "attn.c_proj", "mlp.c_fc", "", "mlp.c_proj", "ln_1", "ln_2"},
    {"gpt_neo", PublishedQkv::kSplit, false, false, "attn.attention.q_proj",
     "attn.attention.k_proj", "attn.attention.v_proj",
     "attn.attention.out_proj", "mlp.c_fc", "", "mlp.c_proj", "ln_1", "ln_2"},
    {"gpt_neox", PublishedQkv::kPerHead, false, false,
     "attention.query_key_value", "", "", "attention.dense",
     "mlp.dense_h_to_4h", "", "mlp.dense_4h_to_h", "input_layernorm",
     "post_attention_layernorm"},
    {"gptj", PublishedQkv::kSplit, false, false, "attn.q_proj", "attn.k_proj",
     "attn.v_proj", "attn.out_proj", "mlp.fc_in", "", "mlp.fc_out", "ln_1", ""},
    {"internlm", PublishedQkv::kSplit, false, false, "self_attn.q_proj",
     "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.up_proj",
     "mlp.gate_proj", "mlp.down_proj", "input_layernorm",
     "post_attention_layernorm"},
    {"llama", PublishedQkv::kSplit, false, false, "self_attn.q_proj",
     "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.up_proj",
     "mlp.gate_proj", "mlp.down_proj", "input_layernorm",
     "post_attention_layernorm"},
    {"opt", PublishedQkv::kSplit, false, false, "self_attn.q_proj",
     "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj", "fc1", "",
     "fc2", "self_attn_layer_norm", "final_layer_norm"},
};

struct Name {
  absl::string_view name;
  Injected what;
  bool is_bias;
};
constexpr Name kNames[] = {
    {"attention.attn_qkvw", Injected::kQkv, false},
    {"attention.attn_qkvb", Injected::kQkv, true},
    {"attention.attn_ow", Injected::kOut, false},
    {"attention.attn_ob", Injected::kOut, true},
    {"mlp.inter_w", Injected::kUp, false},
    {"mlp.inter_b", Injected::kUp, true},
    {"mlp.output_w", Injected::kDown, false},
    {"mlp.output_b", Injected::kDown, true},
    {"mlp.attn_nw", Injected::kMlpNorm, false},
    {"mlp.attn_nb", Injected::kMlpNorm, true},
    {"norm_w", Injected::kNorm, false},
    {"norm_b", Injected::kNorm, true},
};

}  // namespace

const InjectedFamily* FindInjectedFamily(absl::string_view model_type) {
  for (const InjectedFamily& f : kFamilies) {
    if (f.model_type == model_type) return &f;
  }
  return nullptr;
}

std::string InjectedFamilyNames() {
  std::string out;
  for (const InjectedFamily& f : kFamilies) {
    absl::StrAppend(&out, out.empty() ? "" : ", ", f.model_type);
  }
  return out;
}

absl::optional<InjectedName> ParseInjectedName(absl::string_view name) {
  for (const Name& n : kNames) {
    if (!absl::EndsWith(name, n.name)) continue;
    const absl::string_view prefix =
        name.substr(0, name.size() - n.name.size());
    if (!absl::EndsWith(prefix, ".")) continue;
    return InjectedName{std::string(prefix), n.what, n.is_bias};
  }
  return absl::nullopt;
}

}  // namespace deepslice
