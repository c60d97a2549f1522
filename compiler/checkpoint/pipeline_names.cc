#include "compiler/checkpoint/pipeline_names.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace deepslice {
namespace {

// Whether `name` is `part` or ends with it as parts of a path.
bool Ends(absl::string_view name, absl::string_view part) {
  return absl::EndsWith(name, part) &&
         (name.size() == part.size() ||
          name[name.size() - part.size() - 1] == '.');
}

bool EndsWithAny(absl::string_view name,
                 std::initializer_list<absl::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](absl::string_view p) { return Ends(name, p); });
}

bool IsBuffer(absl::string_view name) {
  return EndsWithAny(name, {"inv_freq", "attention.bias",
                            "attention.masked_bias", "_extra_state"});
}

// Weight or bias, the last part of a name.
absl::string_view LastPart(absl::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == name.npos ? name : name.substr(dot + 1);
}

constexpr absl::string_view kMegatronLayers = "language_model.encoder.layers.";
constexpr absl::string_view kMegatronNorm =
    "language_model.encoder.final_layernorm.";
constexpr absl::string_view kMegatronEmbedding = "language_model.embedding.";
constexpr absl::string_view kMegatronHead =
    "language_model.output_layer.weight";

std::string BlockName(PipelineNames names, absl::string_view block_and_name) {
  switch (names) {
    case PipelineNames::kMegatron:
      return absl::StrCat(kMegatronLayers, block_and_name);
    case PipelineNames::kBloom:
      return absl::StrCat("transformer.h.", block_and_name);
    case PipelineNames::kNeox:
      return absl::StrCat("gpt_neox.layers.", block_and_name);
    case PipelineNames::kModel:
      return absl::StrCat("model.layers.", block_and_name);
  }
  return "";
}

std::string NormName(PipelineNames names, absl::string_view last) {
  switch (names) {
    case PipelineNames::kMegatron:
      return absl::StrCat(kMegatronNorm, last);
    case PipelineNames::kBloom:
      return absl::StrCat("transformer.ln_f.", last);
    case PipelineNames::kNeox:
      return absl::StrCat("gpt_neox.final_layer_norm.", last);
    case PipelineNames::kModel:
      return absl::StrCat("model.norm.", last);
  }
  return "";
}

std::string HeadName(PipelineNames names) {
  switch (names) {
    case PipelineNames::kMegatron:
      return std::string(kMegatronHead);
    case PipelineNames::kNeox:
      return "embed_out.weight";
    case PipelineNames::kBloom:
    case PipelineNames::kModel:
      return "lm_head.weight";
  }
  return "";
}

std::string EmbeddingName(PipelineNames names, absl::string_view name) {
  const bool words =
      EndsWithAny(name, {"word_embeddings.weight", "embed_tokens.weight",
                         "embed_in.weight"}) ||
      name == "weight";
  switch (names) {
    case PipelineNames::kMegatron:
      return absl::StrCat(kMegatronEmbedding,
                          words ? "word_embeddings.weight" : name);
    case PipelineNames::kBloom:
      if (absl::StrContains(name, "norm")) {
        return absl::StrCat("transformer.word_embeddings_layernorm.",
                            LastPart(name));
      }
      return absl::StrCat("transformer.",
                          words ? "word_embeddings.weight" : name);
    case PipelineNames::kNeox:
      return absl::StrCat("gpt_neox.", words ? "embed_in.weight" : name);
    case PipelineNames::kModel:
      return absl::StrCat("model.", words ? "embed_tokens.weight" : name);
  }
  return "";
}

}  // namespace

absl::optional<PipelineRole> RoleOfLayer(const std::vector<TensorInfo>& tensors,
                                         bool after_blocks) {
  const auto any = [&](auto is) {
    return std::any_of(tensors.begin(), tensors.end(), is);
  };
  if (tensors.empty()) return absl::nullopt;
  if (any([](const TensorInfo& t) {
        return absl::StrContains(t.name, "attention.") ||
               absl::StrContains(t.name, "self_attn.") ||
               absl::StrContains(t.name, "mlp.");
      })) {
    return PipelineRole::kBlock;
  }
  if (any([](const TensorInfo& t) {
        return EndsWithAny(t.name, {"lm_head.weight", "final_linear.weight",
                                    "output_layer.weight", "embed_out.weight"});
      })) {
    return PipelineRole::kHead;
  }
  const bool matrix = any([](const TensorInfo& t) {
    return t.shape.size() == 2 && absl::EndsWith(t.name, "weight");
  });
  if (matrix && !after_blocks) return PipelineRole::kEmbedding;
  if (matrix) {
    return tensors.size() == 1 && tensors[0].name == "weight"
               ? absl::optional<PipelineRole>(PipelineRole::kHead)
               : absl::nullopt;
  }
  const bool norm =
      after_blocks &&
      std::all_of(tensors.begin(), tensors.end(), [](const TensorInfo& t) {
        return t.shape.size() == 1 &&
               (LastPart(t.name) == "weight" || LastPart(t.name) == "bias");
      });
  return norm ? absl::optional<PipelineRole>(PipelineRole::kFinalNorm)
              : absl::nullopt;
}

bool HasMegatronBlockNames(const std::vector<TensorInfo>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const TensorInfo& t) {
    return EndsWithAny(t.name, {"query_key_value.weight",
                                "dense_h_to_4h.weight", "linear_qkv.weight"});
  });
}

std::string NameInModel(PipelineNames names, PipelineRole role, int64_t block,
                        absl::string_view name) {
  if (IsBuffer(name)) return "";
  switch (role) {
    case PipelineRole::kEmbedding:
      return EmbeddingName(names, name);
    case PipelineRole::kBlock:
      return BlockName(names, absl::StrCat(block, ".", name));
    case PipelineRole::kFinalNorm:
      return NormName(names, LastPart(name));
    case PipelineRole::kHead:
      return LastPart(name) == "weight"
                 ? HeadName(names)
                 : absl::StrCat(HeadName(names), ".", name);
  }
  return "";
}

std::string FromMegatronName(PipelineNames names, absl::string_view name) {
  if (absl::ConsumePrefix(&name, kMegatronLayers)) {
    return BlockName(names, name);
  }
  if (absl::ConsumePrefix(&name, kMegatronNorm)) return NormName(names, name);
  if (absl::ConsumePrefix(&name, kMegatronEmbedding)) {
    return EmbeddingName(names, name);
  }
  if (name == kMegatronHead) return HeadName(names);
  return std::string(name);
}

}  // namespace deepslice
