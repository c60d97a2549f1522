// What each family makes of a config.json that gives little more than sizes:
// the published defaults, and the keys that change the block.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/model_attributes.h"
#include "compiler/policy.h"
#include "gtest/gtest.h"
#include "schema/base/status_matchers.h"
#include "schema/ops.h"

namespace deepslice {
namespace {

constexpr absl::string_view kPlacements[] = {"pre", "post", "sandwich",
                                             "branch"};
constexpr absl::string_view kQkNorms[] = {"", "head_rms", "head_layer",
                                          "head_layer_shared", "rms"};

std::string RopeText(const RopeAttributes& rope) {
  std::string out = absl::StrCat(
      rope.formula, rope.style == RopeStyle::kHalf ? " half" : " interleaved");
  for (const auto& [name, value] : rope.arguments) {
    absl::StrAppend(&out, " ", name, " ", value);
  }
  if (rope.ntk_factor > 0) absl::StrAppend(&out, " ntk ", rope.ntk_factor);
  if (rope.long_from > 0) absl::StrAppend(&out, " long from ", rope.long_from);
  if (rope.scale != 1) absl::StrAppend(&out, " scale ", rope.scale);
  return out;
}

std::string PositionText(const ModelDescription& m, const ModelFlags& flags) {
  switch (m.positions) {
    case PositionKind::kRope:
      return RopeText(m.rope);
    case PositionKind::kLearned:
      return absl::StrCat("learned from ", flags.position_offset);
    case PositionKind::kAlibi:
      return m.alibi == Alibi::kPlain ? "alibi" : "alibi scaled_bf16";
    case PositionKind::kNone:
      return "none";
  }
  return "";
}

// The description in words: sizes, norms, MLP, positions, then what is not the
// default.
std::string Text(const ModelDescription& m, const ModelFlags& flags) {
  std::vector<std::string> out;
  out.push_back(absl::StrCat("kv ", m.kv_heads, " dim ", m.head_dim, " inner ",
                             m.inner_size, " positions ", m.max_positions));
  out.push_back(absl::StrCat(m.norm == NormKind::kRms ? "rms " : "layer ",
                             kPlacements[static_cast<int>(m.norm_placement)],
                             " eps ", m.norm_eps));
  out.push_back(
      absl::StrCat(m.gated ? "gated " : "",
                   EnumValues("Act")[static_cast<int>(m.activation)]));
  out.push_back(PositionText(m, flags));
  if (m.local_rope) out.push_back("local " + RopeText(*m.local_rope));
  if (m.residual == ResidualKind::kParallel) out.push_back("parallel");
  if (m.qk_norm != QkNorm::kNone) {
    out.push_back(absl::StrCat("qk ", kQkNorms[static_cast<int>(m.qk_norm)]));
  }
  for (const auto& [name, value, usual] :
       {std::make_tuple("offset", m.norm_offset, 0.0),
        std::make_tuple("embed scale", m.embed_scale, 1.0),
        std::make_tuple("residual scale", m.residual_scale, 1.0),
        std::make_tuple("logit scale", m.logit_scale, 1.0),
        std::make_tuple("logit cap", m.logit_softcap, 0.0),
        std::make_tuple("attention cap", m.attention_softcap, 0.0),
        std::make_tuple("embed dim", static_cast<double>(m.embed_dim),
                        static_cast<double>(m.hidden_size)),
        std::make_tuple("scale", m.layer[0].attention_scale,
                        1 / std::sqrt(static_cast<double>(m.head_dim)))}) {
    if (value != usual) out.push_back(absl::StrCat(name, " ", value));
  }
  if (m.embed_norm) out.push_back("embed norm");
  if (!m.final_norm) out.push_back("no final norm");
  if (!m.norm_affine) out.push_back("no norm weights");
  std::vector<int64_t> windows;
  for (const LayerAttributes& a : m.layer) windows.push_back(a.window);
  if (*std::max_element(windows.begin(), windows.end()) > 0) {
    out.push_back(absl::StrCat("windows ", absl::StrJoin(windows, " ")));
  }
  std::vector<std::string> yes;
  for (const auto& [name, flag] : flags.biases) {
    if (flag.value) yes.push_back(name);
  }
  if (!yes.empty()) out.push_back(absl::StrJoin(yes, " "));
  out.push_back(flags.tied_head.value ? "tied" : "untied");
  return absl::StrJoin(out, "; ");
}

// Width 48, 6 heads, 2 layers, an MLP of 76, under every name that a family
// gives them; `more` comes before them.
absl::StatusOr<std::string> Describe(absl::string_view model_type,
                                     absl::string_view more = "") {
  DS_ASSIGN_OR_RETURN(
      const json::Value config,
      json::Parse(absl::StrCat(
          "{\"model_type\": \"", model_type, "\", ", more,
          more.empty() ? "" : ", ",
          R"("hidden_size": 48, "n_embd": 48, "num_hidden_layers": 2,
             "n_layer": 2, "num_layers": 2, "num_attention_heads": 6,
             "n_head": 6, "num_heads": 6, "intermediate_size": 76,
             "ffn_dim": 76, "vocab_size": 131})")));
  DS_ASSIGN_OR_RETURN(const Policy* policy, MatchPolicy(config));
  ModelDescription model;
  ModelFlags flags;
  DS_RETURN_IF_ERROR(DescribeAttributes(*policy, config, &model, &flags));
  return Text(model, flags);
}

void Expect(absl::string_view model_type, absl::string_view more,
            absl::string_view text) {
  SCOPED_TRACE(absl::StrCat(model_type, " ", more));
  DS_ASSERT_OK_AND_ASSIGN(const std::string got, Describe(model_type, more));
  EXPECT_EQ(got, text);
}

constexpr char kOneKv[] = "\"num_key_value_heads\": 1, ";
constexpr char kRope[] = "rope_freqs half base 10000 rotary_dim 8";

// By the configuration classes of transformers 5.24, and of Qwen 1 and InternLM
// in their own repositories.
TEST(Families, TakeThePublishedDefaults) {
  const std::string sizes = "kv 6 dim 8 inner 76 positions ";
  const std::string llama =
      absl::StrCat(sizes, "2048; rms pre eps 1e-06; gated silu; ", kRope);
  Expect("llama", "", llama + "; untied");
  Expect("internlm", "", llama + "; bias; untied");
  Expect("internlm2", "", llama + "; bias; untied");
  Expect("granite", "", llama + "; scale 1; untied");
  Expect("mistral", R"("num_key_value_heads": 6)",
         absl::StrCat(sizes, "131072; rms pre eps 1e-06; gated silu; ", kRope,
                      "; windows 4096 4096; untied"));
  Expect("qwen2", R"("num_key_value_heads": 6)",
         absl::StrCat(sizes, "32768; rms pre eps 1e-06; gated silu; ", kRope,
                      "; qkv_bias; untied"));
  Expect("qwen3", R"("num_key_value_heads": 6)",
         "kv 6 dim 128 inner 76 positions 32768; rms pre eps 1e-06; gated "
         "silu; rope_freqs half base 10000 rotary_dim 128; qk head_rms; "
         "untied");
  Expect("qwen", R"("kv_channels": 8)",
         absl::StrCat("kv 6 dim 8 inner 38 positions 8192; rms pre eps 1e-06; "
                      "gated silu; ",
                      kRope, "; untied"));
  Expect("olmo2", "",
         absl::StrCat(sizes, "2048; rms branch eps 1e-05; gated silu; ", kRope,
                      "; qk rms; untied"));
  Expect("cohere", "",
         sizes +
             "8192; layer pre eps 1e-05; gated silu; rope_freqs interleaved "
             "base 500000 rotary_dim 8; parallel; logit scale 0.0625; tied");
  Expect("phi", "",
         sizes +
             "2048; layer pre eps 1e-05; gelu_tanh; rope_freqs half base 10000 "
             "rotary_dim 4; parallel; untied");
  Expect("phi3", "",
         absl::StrCat(sizes, "4096; rms pre eps 1e-05; gated silu; ", kRope,
                      "; untied"));
  Expect("stablelm", R"("num_key_value_heads": 6)",
         sizes +
             "4096; layer pre eps 1e-05; gated silu; rope_freqs half base "
             "10000 rotary_dim 2; untied");
  Expect("starcoder2", "",
         absl::StrCat("kv 2 dim 8 inner 76 positions 4096; layer pre eps "
                      "1e-05; gelu_tanh; ",
                      kRope, "; use_bias; tied"));
}

TEST(Families, TakeThePublishedDefaultsOfGemma) {
  const std::string scaled = "; offset 1; embed scale 6.9282";
  const std::string rope = "rope_freqs half base 10000 rotary_dim 256";
  Expect("gemma", R"("num_key_value_heads": 6)",
         "kv 6 dim 256 inner 76 positions 8192; rms pre eps 1e-06; gated "
         "gelu_tanh; " +
             rope + scaled + "; tied");
  const std::string two = "kv 2 dim 256 inner 76 positions ";
  Expect("gemma2", R"("num_key_value_heads": 2)",
         two + "8192; rms sandwich eps 1e-06; gated gelu_tanh; " + rope +
             scaled + "; logit cap 30; attention cap 50; windows 4096 0; tied");
  Expect("gemma3_text", R"("num_key_value_heads": 2)",
         two +
             "131072; rms sandwich eps 1e-06; gated gelu_tanh; rope_freqs half "
             "base 1e+06 rotary_dim 256; local " +
             rope + "; qk head_rms" + scaled + "; windows 4096 4096; tied");
}

TEST(Families, TakeThePublishedDefaultsOfTheGpts) {
  const std::string sizes = "kv 6 dim 8 inner ";
  Expect("bloom", "",
         sizes +
             "192 positions 2048; layer pre eps 1e-05; gelu_tanh; alibi; embed "
             "norm; tied");
  Expect("falcon", "",
         absl::StrCat("kv 1 dim 8 inner 192 positions 2048; layer pre eps "
                      "1e-05; gelu; ",
                      kRope, "; parallel; tied"));
  Expect("gpt2", "",
         sizes +
             "192 positions 1024; layer pre eps 1e-05; gelu_tanh; learned from "
             "0; tied");
  Expect("gpt_neo", R"("attention_types": [[["global", "local"], 1]])",
         sizes +
             "76 positions 2048; layer pre eps 1e-05; gelu_tanh; learned from "
             "0; scale 1; windows 0 256; tied");
  Expect("gpt_neox", "",
         sizes +
             "76 positions 2048; layer pre eps 1e-05; gelu; rope_freqs half "
             "base 10000 rotary_dim 2; parallel; attention_bias; untied");
  Expect("gptj", R"("rotary_dim": 4)",
         sizes +
             "192 positions 2048; layer pre eps 1e-05; gelu_tanh; rope_freqs "
             "interleaved base 10000 rotary_dim 4; parallel; untied");
  Expect("opt", "",
         sizes +
             "76 positions 2048; layer pre eps 1e-05; relu; learned from 2; "
             "affine enable_bias final_norm plain_embed; tied");
}

TEST(Families, HonourWhatChangesTheBlock) {
  const std::string falcon = absl::StrCat(
      "dim 8 inner 192 positions 2048; layer pre eps 1e-05; gelu; ");
  Expect("falcon",
         R"("new_decoder_architecture": true, "num_kv_heads": 2,
            "multi_query": false, "parallel_attn": false, "alibi": false)",
         absl::StrCat("kv 2 ", falcon, kRope, "; parallel; two_norms; tied"));
  Expect("falcon",
         R"("new_decoder_architecture": true, "num_kv_heads": 2,
            "num_ln_in_parallel_attn": 1, "bias": true)",
         absl::StrCat("kv 2 ", falcon, kRope, "; parallel; bias; tied"));
  Expect("falcon",
         R"("multi_query": false, "parallel_attn": false, "alibi": true,
            "num_kv_heads": 2)",
         absl::StrCat("kv 6 ", falcon, "alibi scaled_bf16; sequential; tied"));
  // Falcon's first names: 40B, then 7B and the RW models.
  Expect("RefinedWeb", R"("n_head_kv": 2)",
         absl::StrCat("kv 2 ", falcon, kRope, "; parallel; two_norms; tied"));
  Expect("RefinedWebModel", R"("multi_query": true)",
         absl::StrCat("kv 1 ", falcon, kRope, "; parallel; tied"));

  const std::string gpt_neox =
      "kv 6 dim 8 inner 76 positions 2048; layer pre eps 1e-05; gelu; ";
  Expect("gpt_neox",
         R"("use_parallel_residual": false, "rotary_pct": 0.5,
            "rotary_emb_base": 500, "attention_bias": false)",
         gpt_neox + "rope_freqs half base 500 rotary_dim 4; untied");
  // The spelling of transformers 5 comes before the older one.
  Expect("gpt_neox",
         R"("rotary_pct": 0.5, "rope_parameters": {"rope_type": "linear",
            "partial_rotary_factor": 0.75, "factor": 2.0})",
         gpt_neox +
             "rope_freqs_linear half base 10000 rotary_dim 6 factor 2; "
             "parallel; attention_bias; untied");

  const std::string opt = "kv 6 dim 8 inner 76 positions 2048; layer ";
  Expect("opt", R"("do_layer_norm_before": false, "word_embed_proj_dim": 20)",
         opt +
             "post eps 1e-05; relu; learned from 2; embed dim 20; no final "
             "norm; affine enable_bias; tied");
  Expect("opt",
         R"("_remove_final_layer_norm": true, "activation_function": "gelu",
            "enable_bias": false, "word_embed_proj_dim": null)",
         opt +
             "pre eps 1e-05; gelu; learned from 2; no final norm; affine "
             "plain_embed; tied");
  Expect("opt", R"("layer_norm_elementwise_affine": false)",
         opt +
             "pre eps 1e-05; relu; learned from 2; no norm weights; "
             "enable_bias plain_embed; tied");
}

TEST(Families, HonourScalesAndCaps) {
  Expect("granite",
         R"("attention_multiplier": 0.25, "embedding_multiplier": 12,
            "residual_multiplier": 0.22, "logits_scaling": 8,
            "attention_bias": true, "mlp_bias": true)",
         absl::StrCat("kv 6 dim 8 inner 76 positions 2048; rms pre eps 1e-06; "
                      "gated silu; ",
                      kRope,
                      "; embed scale 12; residual scale 0.22; logit scale "
                      "0.125; scale 0.25; attention_bias mlp_bias; untied"));
  Expect("gemma2",
         R"("num_key_value_heads": 2, "head_dim": 8,
            "query_pre_attn_scalar": 16, "attn_logit_softcapping": null,
            "final_logit_softcapping": 7.5, "sliding_window": 5,
            "layer_types": ["full_attention", "sliding_attention"])",
         absl::StrCat("kv 2 dim 8 inner 76 positions 8192; rms sandwich eps "
                      "1e-06; gated gelu_tanh; ",
                      kRope,
                      "; offset 1; embed scale 6.9282; logit cap 7.5; scale "
                      "0.25; windows 0 5; tied"));
  Expect("gemma3_text",
         R"("num_key_value_heads": 2, "head_dim": 8, "sliding_window": 5,
            "sliding_window_pattern": 2, "rope_theta": 500,
            "rope_local_base_freq": 300, "query_pre_attn_scalar": 8,
            "rope_scaling": {"rope_type": "linear", "factor": 8})",
         "kv 2 dim 8 inner 76 positions 131072; rms sandwich eps 1e-06; gated "
         "gelu_tanh; rope_freqs_linear half base 500 rotary_dim 8 factor 8; "
         "local rope_freqs half base 300 rotary_dim 8; qk head_rms; offset 1; "
         "embed scale 6.9282; windows 5 0; tied");
  // Gemma's first files say gelu and mean its approximation.
  for (const char* act :
       {R"("hidden_act": "gelu")", R"("hidden_act": "gelu_new")",
        R"("hidden_act": "gelu", "hidden_activation": "gelu_pytorch_tanh")"}) {
    DS_ASSERT_OK_AND_ASSIGN(const std::string text,
                            Describe("gemma", absl::StrCat(kOneKv, act)));
    EXPECT_TRUE(absl::StrContains(text, "; gated gelu_tanh; ")) << text;
  }
  DS_ASSERT_OK_AND_ASSIGN(
      const std::string text,
      Describe(
          "gemma",
          absl::StrCat(
              kOneKv, R"("hidden_act": "gelu", "hidden_activation": "relu")")));
  EXPECT_TRUE(absl::StrContains(text, "; gated relu; ")) << text;
}

// Defaults of Megatron-LM's arguments; every generation of their names.
TEST(Families, ReadMegatronsArguments) {
  const auto expect = [](absl::string_view more, absl::string_view text) {
    Expect("megatron_gpt",
           absl::StrCat(R"("max_position_embeddings": 96)",
                        more.empty() ? "" : ", ", more),
           text);
  };
  const std::string sizes = "kv 6 dim 8 inner 192 positions 96; ";
  const std::string norm = "layer pre eps 1e-05; ";
  const std::string learned =
      "learned from 0; bias learned_positions norm_bias qkv_bias; tied";
  expect("", sizes + norm + "gelu_tanh; " + learned);
  expect(R"("bias_gelu_fusion": false)", sizes + norm + "gelu; " + learned);
  expect(R"("bias_gelu_fusion": false, "openai_gelu": true)",
         sizes + norm + "gelu_tanh; " + learned);
  expect(R"("squared_relu": true)", sizes + norm + "relu2; " + learned);
  // Without biases there is nothing to fuse.
  expect(R"("add_bias_linear": false, "bias_gelu_fusion": true,
            "position_embedding_type": "none")",
         sizes + norm + "gelu; none; norm_bias; tied");
  expect(R"("add_position_embedding": false, "encoder_num_layers": 9,
            "num_experts": [1], "softmax_scale": 0.5,
            "untie_embeddings_and_output_weights": true)",
         sizes + norm +
             "gelu_tanh; none; scale 0.5; bias norm_bias qkv_bias; untied");
  expect(R"("swiglu": true, "ffn_hidden_size": 76, "add_bias_linear": false,
            "add_qkv_bias": true, "normalization": "RMSNorm",
            "norm_epsilon": 1e-6, "use_rotary_position_embeddings": true,
            "rotary_percent": 0.5, "add_position_embedding": false,
            "group_query_attention": true, "num_query_groups": 2)",
         "kv 2 dim 8 inner 76 positions 96; rms pre eps 1e-06; gated silu; "
         "rope_freqs half base 10000 rotary_dim 4; gated qkv_bias; tied");
  expect(R"("quick_geglu": true, "kv_channels": 10, "qk_layernorm": true,
            "position_embedding_type": "rope", "rotary_base": 500,
            "rotary_interleaved": true, "apply_layernorm_1p": true,
            "num_query_groups": 3, "layernorm_epsilon": 0.001)",
         "kv 3 dim 10 inner 192 positions 96; layer pre eps 0.001; gated "
         "quick_gelu; rope_freqs interleaved base 500 rotary_dim 10; qk "
         "head_layer_shared; offset 1; bias gated gated_bias norm_bias qk_norm "
         "qk_norm_bias qkv_bias; tied");
  expect(R"("group_query_attention": true, "qk_layernorm": true,
            "normalization": "rmsnorm", "layernorm_zero_centered_gamma": true)",
         "kv 1 dim 8 inner 192 positions 96; rms pre eps 1e-05; gelu_tanh; "
         "learned from 0; qk head_rms; offset 1; bias learned_positions "
         "qk_norm qkv_bias; tied");
  // The arguments' own default for the groups is 1, whether they count or not.
  expect(R"("group_query_attention": false, "num_query_groups": 1)",
         sizes + norm + "gelu_tanh; " + learned);
}

TEST(Families, HonourPositionsAndNormsOfQueries) {
  const std::string sizes = "kv 6 dim 8 inner 76 positions ";
  Expect("phi",
         R"("qk_layernorm": true, "partial_rotary_factor": 0.75,
            "tie_word_embeddings": true)",
         sizes +
             "2048; layer pre eps 1e-05; gelu_tanh; rope_freqs half base 10000 "
             "rotary_dim 6; parallel; qk head_layer_shared; qk_layernorm; "
             "tied");
  Expect("stablelm_epoch",
         R"("num_key_value_heads": 6, "norm_eps": 1e-3, "rope_pct": 0.5,
            "use_parallel_residual": true, "qk_layernorm": true,
            "use_qkv_bias": true, "rotary_scaling_factor": 1)",
         sizes +
             "4096; layer pre eps 0.001; gated silu; rope_freqs half base "
             "10000 rotary_dim 4; parallel; qk head_layer; parallel_residual "
             "qk_layernorm qkv_bias; untied");
  Expect("cohere",
         R"("use_qk_norm": true, "attention_bias": true, "logit_scale": null,
            "model_max_length": 131072, "max_position_embeddings": 8192)",
         sizes +
             "131072; layer pre eps 1e-05; gated silu; rope_freqs interleaved "
             "base 500000 rotary_dim 8; parallel; qk head_layer; "
             "attention_bias qk_norm; tied");
  // Qwen 1 changes its attention beyond seq_length, unless both switches are
  // off: as far as that it is exact.
  Expect("qwen",
         R"("kv_channels": 8, "seq_length": 2048,
            "max_position_embeddings": 32768, "use_dynamic_ntk": false)",
         absl::StrCat("kv 6 dim 8 inner 38 positions 2048; rms pre eps 1e-06; "
                      "gated silu; ",
                      kRope, "; untied"));
  Expect("qwen",
         R"("kv_channels": 8, "seq_length": 2048, "no_bias": false,
            "max_position_embeddings": 32768, "use_dynamic_ntk": false,
            "use_logn_attn": false, "rotary_pct": 0.5)",
         "kv 6 dim 8 inner 38 positions 32768; rms pre eps 1e-06; gated silu; "
         "rope_freqs half base 10000 rotary_dim 4; bias; untied");
  Expect("phi3",
         R"("sliding_window": 5, "max_position_embeddings": 131072,
            "rope_scaling": {"type": "su",
            "short_factor": [1, 1, 1, 2], "long_factor": [1, 2, 3, 4]})",
         sizes +
             "131072; rms pre eps 1e-05; gated silu; rope_freqs_factors half "
             "base 10000 rotary_dim 8 factor_0 1 factor_1 1 factor_2 1 "
             "factor_3 2 long from 4096 scale 1.19024; windows 5 5; untied");
  Expect("internlm2",
         R"("max_position_embeddings": 100, "bias": false,
            "rope_scaling": {"type": "dynamic", "factor": 2.5})",
         absl::StrCat(sizes, "250; rms pre eps 1e-06; gated silu; ", kRope,
                      " ntk 2.5 long from 100; untied"));
  Expect("internlm", R"("rotary": {"type": "dynamic", "base": 500})",
         sizes +
             "2048; rms pre eps 1e-06; gated silu; rope_freqs half base 500 "
             "rotary_dim 8; bias; untied");
}

}  // namespace
}  // namespace deepslice
