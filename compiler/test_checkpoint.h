// Small Hugging Face folders for the tests of this folder; tests only.
#ifndef DEEPSLICE_COMPILER_TEST_CHECKPOINT_H_
#define DEEPSLICE_COMPILER_TEST_CHECKPOINT_H_

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/checkpoint/checkpoint.h"
#include "compiler/checkpoint/test_files.h"
#include "schema/base/check.h"
#include "schema/base/json.h"

namespace deepslice {

// A path below the repository's root.
inline std::string SourcePath(absl::string_view path) {
  const char* root = std::getenv("DS_SOURCE_ROOT");
  DS_CHECK(root != nullptr);
  return JoinPath(root, path);
}
inline std::string GoldenCasePath(absl::string_view name) {
  return SourcePath(absl::StrCat("tests/golden_cases/models/", name));
}

// The element at `index` of the test tensor of that name.
inline float TestValue(absl::string_view name, int64_t index) {
  uint32_t h = 2166136261u;
  for (char c : name) h = (h ^ static_cast<uint8_t>(c)) * 16777619u;
  h = (h ^ static_cast<uint32_t>(index)) * 2654435761u;
  return static_cast<float>(static_cast<int32_t>(h >> 8) - (1 << 23)) /
         static_cast<float>(1 << 24);
}

// Name to shape; each tensor is F32 of TestValues, or of those of another name,
// or of numbers given.
struct TestTensor {
  std::vector<int64_t> shape;
  std::string values_of = {};  // empty: its own name
  std::vector<float> values = {};
};
using TestTensors = std::map<std::string, TestTensor>;

inline std::string SafetensorsOf(const TestTensors& tensors) {
  json::Value header = json::Value::Object();
  std::vector<float> data;
  for (const auto& [name, tensor] : tensors) {
    int64_t n = 1;
    json::Value shape = json::Value::Array();
    for (int64_t d : tensor.shape) {
      n *= d;
      shape.Add(d);
    }
    json::Value& entry = header.Set(name, json::Value::Object());
    entry.Set("dtype", "F32");
    entry.Set("shape", shape);
    json::Value offsets = json::Value::Array();
    offsets.Add(static_cast<int64_t>(data.size() * 4));
    const std::string& source =
        tensor.values_of.empty() ? name : tensor.values_of;
    for (int64_t i = 0; i < n; ++i) {
      data.push_back(tensor.values.empty() ? TestValue(source, i)
                                           : tensor.values[i]);
    }
    offsets.Add(static_cast<int64_t>(data.size() * 4));
    entry.Set("data_offsets", offsets);
  }
  return SafetensorsBytes(json::Write(header), FloatBytes(data));
}

// Writes the folder and opens it.
inline absl::StatusOr<std::unique_ptr<Checkpoint>> MakeTestCheckpoint(
    const TempFolder& folder, absl::string_view config,
    const TestTensors& tensors) {
  folder.Write("config.json", config);
  folder.Write("model.safetensors", SafetensorsOf(tensors));
  return OpenCheckpoint(folder.path());
}

// A Llama of 6 heads of 10 over 2 keys, hidden 12, inner 20, vocabulary 131,
// its tensors' names with that prefix.
inline std::string LlamaConfig(absl::string_view more = "") {
  return absl::StrCat(
      R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 12,
          "intermediate_size": 20, "num_hidden_layers": 2,
          "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 10,
          "vocab_size": 131, "max_position_embeddings": 64)",
      more.empty() ? "" : ", ", more, "}");
}
inline TestTensors LlamaTensors(absl::string_view prefix = "model.",
                                int layers = 2) {
  TestTensors t;
  t[absl::StrCat(prefix, "embed_tokens.weight")] = {{131, 12}};
  for (int i = 0; i < layers; ++i) {
    const std::string p = absl::StrCat(prefix, "layers.", i, ".");
    t[p + "input_layernorm.weight"] = {{12}};
    t[p + "self_attn.q_proj.weight"] = {{60, 12}};
    t[p + "self_attn.k_proj.weight"] = {{20, 12}};
    t[p + "self_attn.v_proj.weight"] = {{20, 12}};
    t[p + "self_attn.o_proj.weight"] = {{12, 60}};
    t[p + "post_attention_layernorm.weight"] = {{12}};
    t[p + "mlp.gate_proj.weight"] = {{20, 12}};
    t[p + "mlp.up_proj.weight"] = {{20, 12}};
    t[p + "mlp.down_proj.weight"] = {{12, 20}};
  }
  t[absl::StrCat(prefix, "norm.weight")] = {{12}};
  t["lm_head.weight"] = {{131, 12}};
  return t;
}

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_TEST_CHECKPOINT_H_
