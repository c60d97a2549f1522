#include "compiler/checkpoint/meta_params.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "compiler/checkpoint/side_files.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

constexpr absl::string_view kKeys[] = {
    "dim", "n_layers", "n_heads", "n_kv_heads", "head_dim", "hidden_dim",
    "vocab_size", "multiple_of", "ffn_dim_multiplier", "norm_eps", "rope_theta",
    "use_scaled_rope", "rope_scaling_factor", "rope_high_freq_factor",
    "sliding_window", "model_parallel_size", "max_seq_len",
    "max_position_embeddings",
    // Of serving, and of no answer.
    "max_batch_size"};

std::string Show(const json::Value& v) {
  if (v.is_string()) return Quoted(v.as_string());
  return v.is_array() || v.is_object() ? std::string(json::KindName(v.kind()))
                                       : json::Write(v);
}

// The value of a key; nullptr when it is absent or null.
const json::Value* Find(const json::Value& params, absl::string_view key) {
  const json::Value* v = params.Find(key);
  return v == nullptr || v->is_null() ? nullptr : v;
}

absl::StatusOr<int64_t> Int(const json::Value& params, absl::string_view key,
                            int64_t least, int64_t most, int64_t otherwise) {
  const json::Value* v = Find(params, key);
  if (v == nullptr && otherwise >= 0) return otherwise;
  if (v != nullptr && v->is_int() && v->as_int() >= least &&
      v->as_int() <= most) {
    return v->as_int();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(key, ": holds ", v == nullptr ? "nothing" : Show(*v),
                   "; must be an integer from ", least, " to ", most));
}

absl::StatusOr<double> Positive(const json::Value& params,
                                absl::string_view key, double otherwise) {
  const json::Value* v = Find(params, key);
  if (v == nullptr) return otherwise;
  if (v->is_number() && std::isfinite(v->as_double()) && v->as_double() > 0) {
    return v->as_double();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(key, ": holds ", Show(*v), "; must be a number above 0"));
}

// Whether a key that is not known is turned off.
bool IsOff(const json::Value& v) {
  return v.is_null() || (v.is_bool() && !v.as_bool()) ||
         (v.is_int() && v.as_int() == -1);
}

absl::Status CheckKeys(const json::Value& params) {
  for (const auto& [key, value] : params.members()) {
    if (std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys) ||
        IsOff(value)) {
      continue;
    }
    // Beside -1 for the number of its layers, this says nothing.
    if (key == "vision_max_num_chunks") continue;
    const char* kind =
        key == "moe" || key == "moe_args" ? " (mixture of experts)"
        : absl::string_view(key).substr(0, 6) == "vision" ? " (images)"
        : key == "quantization_args" ? " (quantised weights)"
                                     : "";
    return absl::UnimplementedError(
        absl::StrCat(Quoted(key), kind,
                     ": is not read; text models of LLaMA 1 to 3 and "
                     "Mistral are: give the Hugging Face folder of this one"));
  }
  return absl::OkStatus();
}

// The width of the inner layer as LLaMA makes it of dim.
absl::StatusOr<int64_t> InnerSize(const json::Value& params, int64_t dim) {
  constexpr int64_t kMost = 16 * limits::kHiddenSize;
  if (Find(params, "hidden_dim") != nullptr) {
    return Int(params, "hidden_dim", 1, kMost, -1);
  }
  if (Find(params, "multiple_of") == nullptr) return 0;
  DS_ASSIGN_OR_RETURN(const int64_t multiple,
                      Int(params, "multiple_of", 1, kMost, -1));
  DS_ASSIGN_OR_RETURN(const double factor,
                      Positive(params, "ffn_dim_multiplier", 1));
  const double width = factor * static_cast<double>(8 * dim / 3);
  if (width > kMost) {
    return absl::InvalidArgumentError(
        absl::StrCat("ffn_dim_multiplier: makes an inner layer of ", width,
                     " elements; allowed: up to ", kMost));
  }
  return (static_cast<int64_t>(width) + multiple - 1) / multiple * multiple;
}

// Rotary frequencies stretched as those of LLaMA 3.1 and later.
absl::StatusOr<json::Value> ScaledRope(const json::Value& params,
                                       const MetaParams& d,
                                       std::vector<std::string>* notes) {
  // Meta's code has 8 as a constant; the two text models of 3.2 were trained
  // and published with 32.
  const bool small =
      (d.dim == 2048 && d.layers == 16) || (d.dim == 3072 && d.layers == 28);
  DS_ASSIGN_OR_RETURN(const double factor,
                      Positive(params, "rope_scaling_factor", small ? 32 : 8));
  DS_ASSIGN_OR_RETURN(const double high,
                      Positive(params, "rope_high_freq_factor", 4));
  if (Find(params, "rope_scaling_factor") == nullptr) {
    notes->push_back(absl::StrCat("use_scaled_rope: by a factor of ", factor,
                                  ", as LLaMA ",
                                  small ? "3.2 of that size" : "3.1",
                                  " has it; rope_scaling_factor says another"));
  }
  json::Value out = json::Value::Object();
  out.Set("rope_type", "llama3");
  out.Set("factor", factor);
  out.Set("low_freq_factor", 1.0);
  out.Set("high_freq_factor", high);
  out.Set("original_max_position_embeddings", 8192);
  return out;
}

// The positions of the published model that has such parameters.
int64_t Positions(bool scaled, double theta, double eps) {
  if (scaled) return 131072;
  if (theta == 500000) return 8192;  // LLaMA 3
  if (theta > 10000) return 16384;   // Code Llama
  return eps == 1e-6 ? 2048 : 4096;  // LLaMA 1 and 2
}

}  // namespace

absl::StatusOr<json::Value> ReadMetaParams(const std::string& path) {
  DS_ASSIGN_OR_RETURN(json::Value params, ReadConfigObject(path));
  DS_RETURN_IF_ERROR(Annotate(CheckKeys(params), path));
  return params;
}

absl::StatusOr<MetaParams> DescribeMetaParams(const json::Value& params) {
  MetaParams out;
  DS_ASSIGN_OR_RETURN(out.dim, Int(params, "dim", 1, limits::kHiddenSize, -1));
  DS_ASSIGN_OR_RETURN(out.layers,
                      Int(params, "n_layers", 1, limits::kLayers, -1));
  DS_ASSIGN_OR_RETURN(out.heads, Int(params, "n_heads", 1, limits::kHeads, -1));
  DS_ASSIGN_OR_RETURN(out.kv_heads,
                      Int(params, "n_kv_heads", 1, out.heads, out.heads));
  DS_ASSIGN_OR_RETURN(
      out.head_dim,
      Int(params, "head_dim", 1, limits::kHiddenSize, out.dim / out.heads));
  if (Find(params, "head_dim") == nullptr && out.dim % out.heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat("n_heads: holds ", out.heads,
                                                   ", which does not divide ",
                                                   "dim, ", out.dim));
  }
  if (out.heads % out.kv_heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("n_kv_heads: holds ", out.kv_heads,
                     ", which does not divide n_heads, ", out.heads));
  }
  if (out.head_dim % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "head_dim: is ", out.head_dim, "; must be even: positions turn pairs"));
  }
  const json::Value* vocab = Find(params, "vocab_size");
  if (vocab != nullptr && !(vocab->is_int() && vocab->as_int() == -1)) {
    DS_ASSIGN_OR_RETURN(out.vocab_size,
                        Int(params, "vocab_size", 1, limits::kVocab, -1));
  }
  DS_ASSIGN_OR_RETURN(out.inner_size, InnerSize(params, out.dim));
  DS_ASSIGN_OR_RETURN(
      out.ranks, Int(params, "model_parallel_size", 1, limits::kShards, 0));
  return out;
}

absl::StatusOr<json::Value> MetaConfig(const json::Value& params,
                                       const MetaParams& described,
                                       std::vector<std::string>* notes) {
  json::Value out = json::Value::Object();
  const json::Value* window = Find(params, "sliding_window");
  json::Value names = json::Value::Array();
  names.Add(window == nullptr ? "LlamaForCausalLM" : "MistralForCausalLM");
  out.Set("architectures", std::move(names));
  out.Set("model_type", window == nullptr ? "llama" : "mistral");
  out.Set("hidden_size", described.dim);
  out.Set("num_hidden_layers", described.layers);
  out.Set("num_attention_heads", described.heads);
  out.Set("num_key_value_heads", described.kv_heads);
  out.Set("head_dim", described.head_dim);
  out.Set("hidden_act", "silu");
  if (window != nullptr) {
    DS_ASSIGN_OR_RETURN(const int64_t keys, Int(params, "sliding_window", 1,
                                                limits::kPositions, -1));
    out.Set("sliding_window", keys);
  }
  DS_ASSIGN_OR_RETURN(const double eps, Positive(params, "norm_eps", 1e-5));
  out.Set("rms_norm_eps", eps);
  DS_ASSIGN_OR_RETURN(const double theta,
                      Positive(params, "rope_theta", 10000));
  out.Set("rope_theta", theta);
  const json::Value* scaled = Find(params, "use_scaled_rope");
  if (scaled != nullptr && !scaled->is_bool()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "use_scaled_rope: holds ", Show(*scaled), "; must be true or false"));
  }
  const bool is_scaled = scaled != nullptr && scaled->as_bool();
  if (is_scaled) {
    DS_ASSIGN_OR_RETURN(json::Value rope, ScaledRope(params, described, notes));
    out.Set("rope_scaling", std::move(rope));
  }
  const int64_t positions = Positions(is_scaled, theta, eps);
  for (const absl::string_view key :
       {"max_position_embeddings", "max_seq_len"}) {
    if (Find(params, key) == nullptr) continue;
    DS_ASSIGN_OR_RETURN(const int64_t n,
                        Int(params, key, 1, limits::kPositions, -1));
    out.Set("max_position_embeddings", n);
    return out;
  }
  out.Set("max_position_embeddings", positions);
  notes->push_back(
      absl::StrCat("says no max_seq_len; ", positions,
                   " positions are taken, as the published models of such "
                   "parameters have"));
  return out;
}

}  // namespace deepslice
