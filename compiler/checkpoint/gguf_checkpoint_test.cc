#include "compiler/checkpoint/gguf_checkpoint.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "compiler/checkpoint/test_files.h"
#include "schema/base/limits.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

// 1 layer, 6 heads of 10 that share 2 keys, width 12, vocabulary 131.
constexpr int kHeads = 6, kKeys = 2, kHeadDim = 10, kWidth = 12, kVocab = 131;

std::vector<float> Ramp(int64_t n) {
  std::vector<float> v(n);
  for (int64_t i = 0; i < n; ++i) v[i] = static_cast<float>(i);
  return v;
}

// What llama.cpp's converter does to q and k: a head's rows [2, half] become
// [half, 2].
std::vector<float> SidePairs(const std::vector<float>& rows, int heads,
                             int width) {
  std::vector<float> out(rows.size());
  const int half = static_cast<int>(rows.size()) / width / heads / 2;
  for (int h = 0; h < heads; ++h) {
    for (int part = 0; part < 2; ++part) {
      for (int i = 0; i < half; ++i) {
        for (int c = 0; c < width; ++c) {
          out[((h * half + i) * 2 + part) * width + c] =
              rows[((h * 2 + part) * half + i) * width + c];
        }
      }
    }
  }
  return out;
}

// The metadata of a small model of `arch`; further keys are the test's.
GgufBuilder Model(const std::string& arch) {
  GgufBuilder b;
  b.Text("general.architecture", arch).U32(arch + ".block_count", 1);
  b.U32(arch + ".context_length", 64).U32(arch + ".embedding_length", kWidth);
  b.U32(arch + ".feed_forward_length", 20);
  return b;
}
GgufBuilder Llama(const std::string& arch = "llama") {
  GgufBuilder b = Model(arch);
  b.U32(arch + ".attention.head_count", kHeads);
  b.U32(arch + ".attention.head_count_kv", kKeys);
  b.U32(arch + ".attention.key_length", kHeadDim);
  b.F32(arch + ".attention.layer_norm_rms_epsilon", 1e-5f);
  b.U32(arch + ".vocab_size", kVocab);
  return b;
}
// With the least tensor that a file may have.
GgufBuilder WithEmbedding(GgufBuilder b) {
  return b.Tensor("token_embd.weight", {kWidth, kVocab}, 0,
                  FloatBytes(Ramp(kWidth * kVocab)));
}

// The bytes live as long as the checkpoint.
struct Opened {
  std::unique_ptr<char[]> bytes;
  std::unique_ptr<Checkpoint> checkpoint;
  const Checkpoint* operator->() const { return checkpoint.get(); }
};
absl::StatusOr<Opened> OpenBytes(const std::string& bytes) {
  Opened out;
  // An allocation of the exact size, so that the sanitizer sees any overrun.
  out.bytes = std::make_unique<char[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), out.bytes.get());
  DS_ASSIGN_OR_RETURN(
      out.checkpoint,
      OpenGguf(
          {"m.gguf", absl::string_view(out.bytes.get(), bytes.size()), {}}));
  return out;
}
absl::StatusOr<Opened> Open(const GgufBuilder& b) {
  return OpenBytes(b.Build());
}

std::vector<float> AllRows(const Checkpoint& c, absl::string_view name) {
  const TensorInfo* t = c.Find(name);
  if (t == nullptr) return {};
  std::vector<float> out(t->num_elements());
  EXPECT_TRUE(c.ReadRows(*t, 0, t->rows(), absl::MakeSpan(out)).ok());
  return out;
}

TEST(GgufCheckpoint, LlamaGetsPublishedNamesAndConfig) {
  GgufBuilder b = Llama();
  b.F32("llama.rope.freq_base", 5000).U32("llama.rope.dimension_count", 10);
  b.U32("tokenizer.ggml.bos_token_id", 1).U32("tokenizer.ggml.eos_token_id", 2);
  b.Text("tokenizer.chat_template", "T");
  b.Text("tokenizer.chat_template.tool_use", "U");
  DS_ASSERT_OK_AND_ASSIGN(const Opened c, Open(WithEmbedding(b)));
  EXPECT_EQ(json::Write(c->config()),
            R"({"architectures":["LlamaForCausalLM"],"model_type":"llama",)"
            R"("hidden_act":"silu","hidden_size":12,"num_hidden_layers":1,)"
            R"("intermediate_size":20,"num_attention_heads":6,)"
            R"("num_key_value_heads":2,"max_position_embeddings":64,)"
            R"("head_dim":10,"rms_norm_eps":1e-05,"rope_theta":5000.0,)"
            R"("attention_bias":false,"mlp_bias":false,"vocab_size":131,)"
            R"("bos_token_id":1,"eos_token_id":2,)"
            R"("tie_word_embeddings":true,"torch_dtype":"float32"})");
  EXPECT_EQ(c->chat_templates().text, "T");
  ASSERT_EQ(c->chat_templates().named.size(), 1u);
  EXPECT_EQ(c->chat_templates().named[0].first, "tool_use");
  EXPECT_EQ(c->chat_templates().named[0].second, "U");
  EXPECT_TRUE(c->notes().empty());
  EXPECT_EQ(c->gguf_metadata().Find("llama.block_count")->as_int(), 1);
  EXPECT_EQ(AllRows(*c.checkpoint, "model.embed_tokens.weight"),
            Ramp(kWidth * kVocab));
}

TEST(GgufCheckpoint, EveryLlamaTensorHasItsName) {
  GgufBuilder b = WithEmbedding(Llama());
  const std::pair<const char*, const char*> names[] = {
      {"output_norm.weight", "model.norm.weight"},
      {"output.weight", "lm_head.weight"},
      {"blk.0.attn_norm.weight", "model.layers.0.input_layernorm.weight"},
      {"blk.0.attn_v.bias", "model.layers.0.self_attn.v_proj.bias"},
      {"blk.0.attn_output.weight", "model.layers.0.self_attn.o_proj.weight"},
      {"blk.0.ffn_norm.weight",
       "model.layers.0.post_attention_layernorm.weight"},
      {"blk.12.ffn_gate.weight", "model.layers.12.mlp.gate_proj.weight"},
      {"blk.0.ffn_up.weight", "model.layers.0.mlp.up_proj.weight"},
      {"blk.0.ffn_down.weight", "model.layers.0.mlp.down_proj.weight"},
      {"blk.00.ffn_down.weight", "blk.00.ffn_down.weight"},
      {"blk.x.ffn_down.weight", "blk.x.ffn_down.weight"},
      {"blk.0.unknown.weight", "blk.0.unknown.weight"},
      {"blk.0.ffn_up.scale", "blk.0.ffn_up.scale"},
  };
  for (const auto& [stored, published] : names) {
    b.Tensor(stored, {2}, 0, FloatBytes({1, 2}));
  }
  DS_ASSERT_OK_AND_ASSIGN(const Opened c, Open(b));
  for (const auto& [stored, published] : names) {
    const TensorInfo* t = c->Find(published);
    ASSERT_NE(t, nullptr) << published;
    EXPECT_EQ(t->stored_name, stored);
  }
  EXPECT_FALSE(c->config().Find("tie_word_embeddings")->as_bool());
}

TEST(GgufCheckpoint, ReadRowsPutsRotaryRowsBack) {
  const std::vector<float> q = Ramp(kHeads * kHeadDim * kWidth);
  const std::vector<float> k = Ramp(kKeys * kHeadDim * kWidth);
  const std::vector<float> bias = Ramp(kKeys * kHeadDim);
  GgufBuilder b = WithEmbedding(Llama());
  b.Tensor("blk.0.attn_q.weight", {kWidth, kHeads * kHeadDim}, 0,
           FloatBytes(SidePairs(q, kHeads, kWidth)));
  b.Tensor("blk.0.attn_k.weight", {kWidth, kKeys * kHeadDim}, 0,
           FloatBytes(SidePairs(k, kKeys, kWidth)));
  b.Tensor("blk.0.attn_k.bias", {kKeys * kHeadDim}, 0,
           FloatBytes(SidePairs(bias, kKeys, 1)));
  DS_ASSERT_OK_AND_ASSIGN(const Opened c, Open(b));
  const std::string layer = "model.layers.0.self_attn.";
  EXPECT_EQ(c->Find(layer + "q_proj.weight")->rotary_heads, kHeads);
  EXPECT_EQ(c->Find(layer + "k_proj.weight")->rotary_heads, kKeys);
  EXPECT_EQ(AllRows(*c.checkpoint, layer + "q_proj.weight"), q);
  EXPECT_EQ(AllRows(*c.checkpoint, layer + "k_proj.weight"), k);
  EXPECT_EQ(AllRows(*c.checkpoint, layer + "k_proj.bias"), bias);
  EXPECT_EQ(c->RawRows(*c->Find(layer + "q_proj.weight"), 0, 1), "");
  // A part that begins and ends inside heads.
  std::vector<float> part(11 * kWidth);
  DS_ASSERT_OK(c->ReadRows(*c->Find(layer + "q_proj.weight"), 7, 18,
                           absl::MakeSpan(part)));
  EXPECT_EQ(part, std::vector<float>(q.begin() + 7 * kWidth,
                                     q.begin() + 18 * kWidth));
}

TEST(GgufCheckpoint, QuantisedRotaryRowsComeBackToo) {
  // Q8_0 rows of 32 whose scale is their number: row r holds r * element.
  const int heads = 3, rows = heads * 4;
  std::vector<float> numbers = SidePairs(Ramp(rows), heads, 1);
  std::string data;
  for (float r : numbers) {
    data += Bytes(FloatToF16(r));
    for (int8_t i = 0; i < 32; ++i) data += Bytes(i);
  }
  GgufBuilder b = Model("llama");
  b.U32("llama.attention.head_count", heads).U32("llama.vocab_size", 9);
  b.F32("llama.attention.layer_norm_rms_epsilon", 0.125);
  b.Tensor("blk.0.attn_q.weight", {32, rows}, 8, data);
  DS_ASSERT_OK_AND_ASSIGN(const Opened c, Open(b));
  const auto got =
      AllRows(*c.checkpoint, "model.layers.0.self_attn.q_proj.weight");
  for (int r = 0; r < rows; ++r) {
    EXPECT_EQ(got[r * 32 + 3], r * 3.0f) << r;
  }
  EXPECT_EQ(c->config().Find("torch_dtype")->as_string(), "bfloat16");
  EXPECT_EQ(c->config().Find("num_key_value_heads")->as_int(), heads);
}

TEST(GgufCheckpoint, Qwen2RowsStayAsTheyAre) {
  GgufBuilder b = WithEmbedding(Llama("qwen2"));
  const std::vector<float> k = Ramp(kKeys * kHeadDim * kWidth);
  b.Tensor("blk.0.attn_k.weight", {kWidth, kKeys * kHeadDim}, 0, FloatBytes(k));
  DS_ASSERT_OK_AND_ASSIGN(const Opened c, Open(b));
  EXPECT_EQ(AllRows(*c.checkpoint, "model.layers.0.self_attn.k_proj.weight"),
            k);
  EXPECT_EQ(c->config().Find("model_type")->as_string(), "qwen2");
}

TEST(GgufCheckpoint, Gpt2SaysWhichWeightsAreTransposed) {
  GgufBuilder b = Model("gpt2");
  b.U32("gpt2.attention.head_count", 6);
  b.F32("gpt2.attention.layer_norm_epsilon", 0.25);
  b.Texts("tokenizer.ggml.tokens", {"a", "b", "c"});
  b.Tensor("token_embd.weight", {kWidth, 3}, 1, std::string(72, '\0'));
  b.Tensor("blk.0.attn_qkv.weight", {kWidth, 36}, 1, std::string(864, '\0'));
  b.Tensor("blk.0.attn_qkv.bias", {36}, 0, std::string(144, '\0'));
  DS_ASSERT_OK_AND_ASSIGN(const Opened c, Open(b));
  EXPECT_EQ(json::Write(c->config()),
            R"({"architectures":["GPT2LMHeadModel"],"model_type":"gpt2",)"
            R"("activation_function":"gelu_new","n_embd":12,"n_layer":1,)"
            R"("n_inner":20,"n_head":6,"n_positions":64,)"
            R"("layer_norm_epsilon":0.25,"vocab_size":3,)"
            R"("tie_word_embeddings":true,"torch_dtype":"float16"})");
  EXPECT_FALSE(c->Find("transformer.wte.weight")->transposed_from_published);
  const TensorInfo* w = c->Find("transformer.h.0.attn.c_attn.weight");
  EXPECT_TRUE(w->transposed_from_published);
  EXPECT_EQ(w->shape, (std::vector<int64_t>{36, kWidth}));
  EXPECT_FALSE(
      c->Find("transformer.h.0.attn.c_attn.bias")->transposed_from_published);
}

std::string ScalingOf(GgufBuilder b) {
  const auto c = Open(WithEmbedding(b));
  if (!c.ok()) return std::string(c.status().message());
  const json::Value* v = (*c)->config().Find("rope_scaling");
  return v == nullptr ? "none" : json::Write(*v);
}

TEST(GgufCheckpoint, RopeScalingIsTranslatedOrRefused) {
  const std::string rope = "llama.rope.scaling.";
  EXPECT_EQ(ScalingOf(Llama()), "none");
  EXPECT_EQ(ScalingOf(Llama().Text(rope + "type", "none")), "none");
  EXPECT_EQ(ScalingOf(Llama().F32(rope + "factor", 0)), "none");
  EXPECT_EQ(
      ScalingOf(Llama().Text(rope + "type", "linear").F32(rope + "factor", 4)),
      R"({"rope_type":"linear","factor":4.0})");
  EXPECT_EQ(ScalingOf(Llama().F32("llama.rope.scale_linear", 2)),
            R"({"rope_type":"linear","factor":2.0})");
  EXPECT_EQ(ScalingOf(Llama()
                          .Text(rope + "type", "yarn")
                          .F32(rope + "factor", 8)
                          .U32(rope + "original_context_length", 48)
                          .F32(rope + "yarn_beta_fast", 16)),
            R"({"rope_type":"yarn","factor":8.0,)"
            R"("original_max_position_embeddings":48,"beta_fast":16.0})");
  EXPECT_NE(ScalingOf(Llama()
                          .Text(rope + "type", "yarn")
                          .F32(rope + "factor", 8)
                          .F32(rope + "attn_factor", 2))
                .find("attn_factor: found 2; only 1 is supported"),
            std::string::npos);
  EXPECT_NE(ScalingOf(Llama().Text(rope + "type", "longrope"))
                .find("supported: none, linear, yarn"),
            std::string::npos);
  EXPECT_NE(
      ScalingOf(Llama().F32(rope + "factor", 0.5)).find("must be at least 1"),
      std::string::npos);
}

TEST(GgufCheckpoint, RopeFactorsAreATensorThatTheConfigNames) {
  GgufBuilder b = WithEmbedding(Llama());
  b.Tensor("rope_freqs.weight", {kHeadDim / 2}, 0, FloatBytes(Ramp(5)));
  DS_ASSERT_OK_AND_ASSIGN(const Opened c, Open(b));
  EXPECT_EQ(c->config().Find("rope_freq_factors_tensor")->as_string(),
            "rope_freqs.weight");
  EXPECT_EQ(AllRows(*c.checkpoint, "rope_freqs.weight"), Ramp(5));
  GgufBuilder bad = WithEmbedding(Llama());
  bad.Tensor("rope_freqs.weight", {4}, 0, FloatBytes(Ramp(4)));
  DS_EXPECT_ERROR(Open(bad), kInvalidArgument, "has 4 factors; must have 5");
}

TEST(GgufCheckpoint, MistralIsLlamaWithAWindow) {
  DS_ASSERT_OK_AND_ASSIGN(
      const Opened c,
      Open(WithEmbedding(Llama().U32("llama.attention.sliding_window", 16))));
  EXPECT_EQ(c->config().Find("model_type")->as_string(), "mistral");
  EXPECT_EQ(c->config().Find("sliding_window")->as_int(), 16);
}

TEST(GgufCheckpoint, EveryEndTokenStops) {
  GgufBuilder b = Llama();
  b.U32("tokenizer.ggml.eos_token_id", 2).U32("tokenizer.ggml.eot_token_id", 7);
  b.U32("tokenizer.ggml.padding_token_id", 3);
  DS_ASSERT_OK_AND_ASSIGN(const Opened c, Open(WithEmbedding(b)));
  EXPECT_EQ(json::Write(*c->config().Find("eos_token_id")), "[2,7]");
  EXPECT_EQ(c->config().Find("pad_token_id")->as_int(), 3);
}

TEST(GgufCheckpoint, UnknownKeysAreNoted) {
  DS_ASSERT_OK_AND_ASSIGN(
      const Opened c, Open(WithEmbedding(Llama().U32("llama.new_trick", 1))));
  ASSERT_EQ(c->notes().size(), 1u);
  EXPECT_EQ(c->notes()[0],
            "m.gguf: key \"llama.new_trick\" is not known and ignored");
}

absl::Status With(absl::string_view key, uint32_t v) {
  // The later of two values would be a duplicate: build around the key.
  GgufBuilder b;
  b.Text("general.architecture", "llama");
  const std::pair<const char*, uint32_t> keys[] = {
      {"block_count", 1},
      {"context_length", 64},
      {"embedding_length", kWidth},
      {"feed_forward_length", 20},
      {"attention.head_count", kHeads},
      {"attention.head_count_kv", kKeys},
      {"vocab_size", kVocab}};
  for (const auto& [name, usual] : keys) {
    if (name != key) b.U32(absl::StrCat("llama.", name), usual);
  }
  b.U32(absl::StrCat("llama.", key), v);
  b.F32("llama.attention.layer_norm_rms_epsilon", 0.125);
  return Open(WithEmbedding(b)).status();
}

TEST(GgufCheckpoint, SizesAreChecked) {
  DS_ASSERT_OK(With("block_count", limits::kLayers));
  DS_EXPECT_ERROR(With("block_count", limits::kLayers + 1), kInvalidArgument,
                  "llama.block_count: found 4097; must be from 1 to 4096");
  for (const char* key :
       {"block_count", "attention.head_count", "attention.head_count_kv",
        "embedding_length", "context_length"}) {
    DS_EXPECT_ERROR(With(key, 0), kInvalidArgument,
                    absl::StrCat("llama.", key, ": found 0"));
    DS_EXPECT_ERROR(With(key, 1u << 31), kInvalidArgument, "must be from 1 to");
  }
  DS_EXPECT_ERROR(With("attention.head_count_kv", 12), kInvalidArgument,
                  "must divide attention.head_count");
  DS_EXPECT_ERROR(With("attention.head_count", 5), kInvalidArgument,
                  "found 2 for 5 heads");
  DS_EXPECT_ERROR(With("attention.head_count", 8), kInvalidArgument,
                  "must divide embedding_length 12");
  DS_EXPECT_ERROR(With("rope.dimension_count", 4), kInvalidArgument,
                  "must be even and from 2 to the head's 2");
  DS_EXPECT_ERROR(With("attention.value_length", 3), kUnimplemented,
                  "heads of one width");
  DS_EXPECT_ERROR(With("expert_count", 8), kUnimplemented, "with experts");
  DS_EXPECT_ERROR(With("vocab_size", (1u << 24) + 1), kInvalidArgument,
                  "must be from 1 to 16777216");
  GgufBuilder partial = Llama().U32("llama.rope.dimension_count", 6);
  DS_EXPECT_ERROR(Open(WithEmbedding(partial)), kUnimplemented,
                  "found 6 of 10");
}

TEST(GgufCheckpoint, PerLayerValuesMustAgree) {
  const auto heads = [](const std::vector<uint32_t>& v) {
    GgufBuilder b;
    b.Text("general.architecture", "llama").U32("llama.block_count", 2);
    b.U32("llama.context_length", 64).U32("llama.embedding_length", kWidth);
    b.U32("llama.feed_forward_length", 20).U32("llama.vocab_size", kVocab);
    b.U32s("llama.attention.head_count", v);
    b.F32("llama.attention.layer_norm_rms_epsilon", 0.125);
    return Open(WithEmbedding(b)).status();
  };
  DS_ASSERT_OK(heads({6, 6}));
  DS_EXPECT_ERROR(heads({6, 3}), kUnimplemented, "differs between layers");
  DS_EXPECT_ERROR(heads({6}), kInvalidArgument, "an array of 1 items");
  DS_EXPECT_ERROR(heads({}), kInvalidArgument, "an array of 0 items");
}

TEST(GgufCheckpoint, KeysThatChangeTheArithmeticAreRefused) {
  const auto with = [](const GgufBuilder& b) {
    return Open(WithEmbedding(b)).status();
  };
  DS_ASSERT_OK(with(Llama().F32("llama.logit_scale", 1)));
  DS_ASSERT_OK(with(Llama().F32("llama.logit_scale", 0)));
  DS_EXPECT_ERROR(with(Llama().F32("llama.logit_scale", 0.5)), kUnimplemented,
                  "llama.logit_scale: found 0.5; no family here computes with "
                  "it; supported: 1");
  constexpr uint32_t kBool = 7;
  DS_ASSERT_OK(
      with(Llama().Key("llama.attention.causal", kBool, Bytes<uint8_t>(1))));
  DS_EXPECT_ERROR(
      with(Llama().Key("llama.attention.causal", kBool, Bytes<uint8_t>(0))),
      kUnimplemented,
      "llama.attention.causal: found false; no family here computes with it; "
      "supported: true");
  DS_EXPECT_ERROR(with(Llama().U32s("llama.rope.dimension_sections", {1, 2})),
                  kUnimplemented, "found an array; no family");
}

TEST(GgufCheckpoint, OldBlocksAreRefused) {
  const auto version = [](uint32_t v, uint32_t type) {
    GgufBuilder b = Llama().U32("general.quantization_version", v);
    const int64_t bytes = type == 0 ? 128 : 20;
    b.Tensor("token_embd.weight", {32}, type, std::string(bytes, '\0'));
    return Open(b).status();
  };
  DS_ASSERT_OK(version(2, 3));
  DS_ASSERT_OK(version(1, 0));
  DS_EXPECT_ERROR(version(1, 3), kUnimplemented,
                  "general.quantization_version: found 1; quantised tensors "
                  "of version 2 are read");
}

TEST(GgufCheckpoint, BlocksMakeFiniteNumbers) {
  // Three rows of one Q4_1 block each; the scale of the second is bad.
  for (const uint16_t scale : {0x7c00, 0xfc00, 0x7e00}) {
    std::string blocks(60, '\1');
    std::memcpy(&blocks[20], &scale, 2);
    for (const std::string name : {"token_embd", "blk.0.attn_q"}) {
      GgufBuilder b = Llama();
      const uint64_t rows = name == "token_embd" ? 3 : 12;
      blocks.resize(rows * 20, '\1');
      b.Tensor(name + ".weight", {32, rows}, 3, blocks);
      DS_ASSERT_OK_AND_ASSIGN(const Opened c, Open(b));
      const TensorInfo& t = c->tensors()[0];
      std::vector<float> out(rows * 32);
      DS_EXPECT_ERROR(
          c->ReadRows(t, 0, rows, absl::MakeSpan(out)), kDataLoss,
          absl::StrCat("m.gguf: tensor \"", name, ".weight\": row 1 holds ",
                       scale == 0x7e00 ? "NaN" : "infinity",
                       " by a scale of its Q4_1 blocks"));
      DS_ASSERT_OK(c->ReadRows(t, 2, 3, absl::MakeSpan(out.data(), 32)));
    }
  }
}

TEST(GgufCheckpoint, BuffersOfRotationHaveTheirPublishedName) {
  GgufBuilder b = WithEmbedding(Llama());
  b.Tensor("blk.0.attn_rot_embd.weight", {5}, 0, FloatBytes(Ramp(5)));
  DS_ASSERT_OK_AND_ASSIGN(const Opened c, Open(b));
  EXPECT_NE(c->Find("model.layers.0.self_attn.rotary_emb.inv_freq"), nullptr);
}

TEST(GgufCheckpoint, TokensAreChecked) {
  GgufBuilder b = Llama();
  b.Texts("tokenizer.ggml.tokens", std::vector<std::string>(kVocab, "x"));
  GgufBuilder short_types = b;
  short_types.U32s("tokenizer.ggml.token_type", {1, 1});
  DS_EXPECT_ERROR(Open(WithEmbedding(short_types)), kInvalidArgument,
                  "has 2 items; must have as many as there are tokens, 131");
  GgufBuilder eos = b;
  eos.U32("tokenizer.ggml.eos_token_id", kVocab);
  DS_EXPECT_ERROR(Open(WithEmbedding(eos)), kInvalidArgument,
                  "found 131; must be below the vocabulary's 131");
  GgufBuilder longest = Llama().Text("tokenizer.chat_template",
                                     std::string(limits::kTemplateBytes, 'x'));
  DS_ASSERT_OK(Open(WithEmbedding(longest)));
  GgufBuilder longer = Llama().Text(
      "tokenizer.chat_template", std::string(limits::kTemplateBytes + 1, 'x'));
  DS_EXPECT_ERROR(Open(WithEmbedding(longer)), kResourceExhausted,
                  "tokenizer.chat_template: a chat template of 1048577");
}

TEST(GgufCheckpoint, OnlyWholeKnownModelsAreRead) {
  DS_EXPECT_ERROR(Open(WithEmbedding(GgufBuilder())), kInvalidArgument,
                  "general.architecture: is absent");
  DS_EXPECT_ERROR(Open(WithEmbedding(Llama("mamba"))), kUnimplemented,
                  "found \"mamba\"; supported: gpt2, llama, qwen2");
  DS_EXPECT_ERROR(Open(WithEmbedding(Llama().U32("split.count", 3))),
                  kInvalidArgument, "the file is part 1 of 3, but its name");
  DS_EXPECT_ERROR(Open(WithEmbedding(Llama().Text("general.type", "adapter"))),
                  kUnimplemented, "only \"model\" is read");
  DS_EXPECT_ERROR(Open(Llama()), kInvalidArgument, "holds no tensors");
  GgufBuilder odd = WithEmbedding(Llama());
  odd.Tensor("blk.0.attn_q.weight", {kWidth, 7}, 0,
             std::string(7 * kWidth * 4, '\0'));
  DS_EXPECT_ERROR(Open(odd), kInvalidArgument,
                  "has 7 rows; must be 6 heads of an even number of rows");
  GgufBuilder twice = WithEmbedding(Llama());
  twice.Tensor("model.embed_tokens.weight", {2}, 0, FloatBytes({1, 2}));
  DS_EXPECT_ERROR(Open(twice), kInvalidArgument, "another tensor already");
}

// A file with every kind of part, in about a kilobyte.
std::string SmallFile() {
  GgufBuilder b = Llama();
  b.Text("llama.rope.scaling.type", "yarn").F32("llama.rope.scaling.factor", 4);
  b.Texts("tokenizer.ggml.tokens", {"a", "b"});
  b.U32s("tokenizer.ggml.token_type", {1, 3});
  b.U32("tokenizer.ggml.eos_token_id", 1);
  b.Tensor("token_embd.weight", {32, 2}, 3, std::string(40, '\1'));
  b.Tensor("blk.0.attn_q.weight", {1, 12}, 0, FloatBytes(Ramp(12)));
  b.Tensor("rope_freqs.weight", {5}, 0, FloatBytes(Ramp(5)));
  return b.Build();
}

// Opens and, on success, reads every row.
void ExpectSound(const std::string& bytes) {
  const auto c = OpenBytes(bytes);
  if (!c.ok()) {
    ASSERT_EQ(c.status().message().find('\n'), std::string::npos);
    return;
  }
  for (const TensorInfo& t : (*c)->tensors()) {
    ASSERT_LE(t.num_elements(), 1 << 20);
    std::vector<float> out(t.num_elements());
    const absl::Status s = (*c)->ReadRows(t, 0, t.rows(), absl::MakeSpan(out));
    ASSERT_TRUE(s.ok() || !IsFloat(t.dtype) ||
                (t.storage != Storage::kPlain && absl::IsDataLoss(s)))
        << s;
  }
}

TEST(GgufCheckpoint, SurvivesEveryTruncation) {
  const std::string file = SmallFile();
  DS_ASSERT_OK(OpenBytes(file));
  for (size_t n = 0; n < file.size(); ++n) {
    ExpectSound(file.substr(0, n));
    EXPECT_FALSE(OpenBytes(file.substr(0, n)).ok()) << n;
  }
}

TEST(GgufCheckpoint, SurvivesEveryFlippedByte) {
  const std::string file = SmallFile();
  for (size_t i = 0; i < file.size(); ++i) {
    std::string bad = file;
    for (int mask : {1, 2, 4, 8, 16, 32, 64, 128, 255}) {
      bad[i] = static_cast<char>(file[i] ^ mask);
      ExpectSound(bad);
    }
  }
}

}  // namespace
}  // namespace deepslice
