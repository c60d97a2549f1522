#include "compiler/checkpoint/gguf_config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

const TensorInfo* FindStored(const GgufFile& file, absl::string_view name) {
  for (const TensorInfo& t : file.tensors) {
    if (t.stored_name == name) return &t;
  }
  return nullptr;
}

// The file holds floats; the config they were made from held decimals. The
// shortest decimal that reads back as the same float is that number.
double Decimal(double v) {
  const float f = static_cast<float>(v);
  if (static_cast<double>(f) != v) return v;
  char text[32];
  const char* end = std::to_chars(text, text + sizeof(text), f).ptr;
  double out = v;
  return absl::SimpleAtod(absl::string_view(text, end - text), &out) ? out : v;
}

// Keys that change the arithmetic in a way that the config can't express, each
// with the value that does not; 0 (false) stands for "not used" in all of them.
struct NeutralKey {
  absl::string_view key;
  double neutral;
};
constexpr NeutralKey kNeutralKeys[] = {
    {"attention.causal", 1},
    {"attention.clamp_kqv", 0},
    {"attention.key_length_swa", 0},
    {"attention.max_alibi_bias", 0},
    {"attention.output_scale", 1},
    {"attention.shared_kv_layers", 0},
    {"attention.sliding_window_pattern", 1},
    {"attention.temperature_length", 0},
    {"attention.temperature_scale", 0},
    {"attn_logit_softcapping", 0},
    {"embedding_scale", 1},
    {"final_logit_softcapping", 0},
    {"logit_scale", 1},
    {"nextn_predict_layers", 0},
    {"residual_scale", 1},
    {"rope.dimension_sections", 0},
    {"rope.freq_base_swa", 0},
    {"rope.scaling.alpha", 1},
    {"swin_norm", 0},
    {"use_parallel_residual", 0},
};

class Maker {
 public:
  Maker(const GgufArchitecture& architecture, const GgufFile& file)
      : architecture_(architecture), file_(file) {}

  absl::StatusOr<GgufConfig> Make() {
    json::Value classes = json::Value::Array();
    classes.Add(architecture_.architectures);
    Set("architectures", std::move(classes));
    for (const GgufConstant& c : architecture_.constants) Set(c.key, c.value);
    for (const GgufIntKey& key : architecture_.int_keys) {
      DS_RETURN_IF_ERROR(Int(key));
    }
    DS_ASSIGN_OR_RETURN(json::Value eps, Number(architecture_.stored_eps));
    if (eps.is_null()) return Absent(architecture_.stored_eps);
    Set(architecture_.published_eps, std::move(eps));
    DS_RETURN_IF_ERROR(Heads());
    if (architecture_.rotary) DS_RETURN_IF_ERROR(Rotary());
    DS_RETURN_IF_ERROR(Refuse());
    DS_RETURN_IF_ERROR(Vocabulary());
    Set("tie_word_embeddings", FindStored(file_, "output.weight") == nullptr);
    Set("torch_dtype", TorchDtype());
    NoteUnused();
    return std::move(out_);
  }

 private:
  void Set(absl::string_view key, json::Value v) {
    out_.config.Set(key, std::move(v));
  }
  std::string Full(absl::string_view key) const {
    return absl::StrCat(architecture_.name, ".", key);
  }
  // The value of "ARCH.key", or nullptr.
  const json::Value* Find(absl::string_view key) {
    used_.insert(std::string(key));
    return file_.metadata.Find(Full(key));
  }
  absl::Status Absent(absl::string_view key) const {
    return absl::InvalidArgumentError(absl::StrCat(
        Full(key), ": is absent; a ", architecture_.name, " model needs it"));
  }
  static absl::Status WrongKind(absl::string_view key, const json::Value& v,
                                absl::string_view allowed) {
    return absl::InvalidArgumentError(absl::StrCat(
        key, ": found ", json::KindName(v.kind()), "; must be ", allowed));
  }

  // A value that may stand once or once a layer; layers that differ are
  // Unimplemented.
  absl::StatusOr<const json::Value*> OneForAllLayers(absl::string_view key) {
    const json::Value* v = Find(key);
    if (v == nullptr || !v->is_array()) return v;
    const json::Value* layers = file_.metadata.Find(Full("block_count"));
    if (layers == nullptr || !layers->is_int() || v->items().empty() ||
        static_cast<int64_t>(v->items().size()) != layers->as_int()) {
      return absl::InvalidArgumentError(
          absl::StrCat(Full(key), ": an array of ", v->items().size(),
                       " items; must have one for each layer of block_count"));
    }
    for (const json::Value& item : v->items()) {
      if (!item.is_int()) {
        return WrongKind(absl::StrCat(Full(key), ": items"), item,
                         "an integer each");
      }
      if (item.as_int() != v->items()[0].as_int()) {
        return absl::UnimplementedError(
            absl::StrCat(Full(key),
                         ": differs between layers; models whose "
                         "layers are alike are read"));
      }
    }
    return &v->items()[0];
  }

  absl::Status Int(const GgufIntKey& key) {
    DS_ASSIGN_OR_RETURN(const json::Value* v, OneForAllLayers(key.stored));
    if (v == nullptr) {
      return key.required ? Absent(key.stored) : absl::OkStatus();
    }
    if (!v->is_int()) return WrongKind(Full(key.stored), *v, "an integer");
    if (v->as_int() < 1 || v->as_int() > key.most) {
      return absl::InvalidArgumentError(
          absl::StrCat(Full(key.stored), ": found ", v->as_int(),
                       "; must be from 1 to ", key.most));
    }
    Set(key.published, *v);
    return absl::OkStatus();
  }

  // Null when absent.
  absl::StatusOr<json::Value> Number(absl::string_view key) {
    const json::Value* v = Find(key);
    if (v == nullptr) return json::Value();
    if (!v->is_number()) return WrongKind(Full(key), *v, "a finite number");
    if (!std::isfinite(v->as_double())) {
      return absl::InvalidArgumentError(absl::StrCat(
          Full(key), ": found ", v->as_double(), "; must be a finite number"));
    }
    return json::Value(Decimal(v->as_double()));
  }

  int64_t Get(absl::string_view key) const {
    const json::Value* v = out_.config.Find(key);
    return v == nullptr ? 0 : v->as_int();
  }

  absl::Status Heads() {
    const bool rotary = architecture_.rotary;
    const int64_t width = Get(rotary ? "hidden_size" : "n_embd");
    const int64_t heads = Get(rotary ? "num_attention_heads" : "n_head");
    if (rotary && Get("num_key_value_heads") == 0) {
      Set("num_key_value_heads", heads);
    }
    const int64_t kv = rotary ? Get("num_key_value_heads") : heads;
    if (heads % kv != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(Full("attention.head_count_kv"), ": found ", kv, " for ",
                       heads, " heads; must divide attention.head_count"));
    }
    if (Get("head_dim") == 0) {
      if (width % heads != 0) {
        return absl::InvalidArgumentError(
            absl::StrCat(Full("attention.head_count"), ": found ", heads,
                         "; must divide embedding_length ", width,
                         " when attention.key_length is absent"));
      }
      if (rotary) Set("head_dim", width / heads);
    }
    out_.query_heads = heads;
    out_.key_heads = kv;
    return absl::OkStatus();
  }

  absl::Status Rotary() {
    const int64_t head_dim = Get("head_dim");
    const json::Value* value_length = Find("attention.value_length");
    if (value_length != nullptr &&
        (!value_length->is_int() || value_length->as_int() != head_dim)) {
      return absl::UnimplementedError(absl::StrCat(
          Full("attention.value_length"),
          ": differs from the key's; heads of one width are read"));
    }
    if (const json::Value* dims = Find("rope.dimension_count")) {
      const int64_t n = dims->is_int() ? dims->as_int() : 0;
      if (n < 2 || n % 2 != 0 || n > head_dim) {
        return absl::InvalidArgumentError(
            absl::StrCat(Full("rope.dimension_count"), ": found ",
                         dims->is_int() ? absl::StrCat(n) : "no integer",
                         "; must be even and from 2 to the head's ", head_dim));
      }
      if (n != head_dim) {
        return absl::UnimplementedError(
            absl::StrCat(Full("rope.dimension_count"), ": found ", n, " of ",
                         head_dim, "; only heads rotated as a whole are read"));
      }
    }
    if (head_dim % 2 != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(Full("attention.key_length"), ": a head of ", head_dim,
                       "; must be even to be rotated"));
    }
    DS_ASSIGN_OR_RETURN(json::Value theta, Number("rope.freq_base"));
    Set("rope_theta", theta.is_null() ? json::Value(10000.0) : theta);
    DS_RETURN_IF_ERROR(RopeScaling());
    if (const TensorInfo* factors = FindStored(file_, kRopeFreqs)) {
      if (factors->num_elements() != head_dim / 2) {
        return absl::InvalidArgumentError(absl::StrCat(
            "tensor ", Quoted(kRopeFreqs), ": has ", factors->num_elements(),
            " factors; must have ", head_dim / 2, ", one a rotary pair"));
      }
      Set("rope_freq_factors_tensor", kRopeFreqs);
    }
    const bool window = Get("sliding_window") != 0;
    if (architecture_.name == "qwen2") {
      if (window) Set("use_sliding_window", true);
    } else if (window) {
      // Mistral is stored as llama; only the window tells them apart.
      Set("model_type", "mistral");
      out_.config.Find("architectures")->items()[0] = "MistralForCausalLM";
    } else {
      Set("attention_bias", FindStored(file_, "blk.0.attn_q.bias") != nullptr);
      Set("mlp_bias", FindStored(file_, "blk.0.ffn_up.bias") != nullptr);
    }
    return absl::OkStatus();
  }

  absl::Status RopeScaling() {
    std::string type;
    if (const json::Value* v = Find("rope.scaling.type")) {
      if (!v->is_string()) {
        return WrongKind(Full("rope.scaling.type"), *v, "a string");
      }
      type = v->as_string();
    }
    DS_ASSIGN_OR_RETURN(json::Value factor, Number("rope.scaling.factor"));
    DS_ASSIGN_OR_RETURN(json::Value old_factor, Number("rope.scale_linear"));
    if (factor.is_null()) factor = old_factor;
    Find("rope.scaling.finetuned");  // says nothing about the arithmetic
    if (type == "none") return absl::OkStatus();
    // A factor without a type scales linearly; 0 stands for "not scaled".
    const double f = factor.is_null() ? 1 : factor.as_double();
    if (type.empty() || type == "linear") {
      if (f == 0 || f == 1) return absl::OkStatus();
    } else if (type != "yarn") {
      return absl::UnimplementedError(
          absl::StrCat(Full("rope.scaling.type"), ": found ", Quoted(type),
                       "; supported: none, linear, yarn"));
    }
    if (!(f >= 1)) {
      return absl::InvalidArgumentError(absl::StrCat(
          Full("rope.scaling.factor"), ": found ", f, "; must be at least 1"));
    }
    json::Value scaling = json::Value::Object();
    scaling.Set("rope_type", type.empty() ? "linear" : type);
    scaling.Set("factor", f);
    if (type == "yarn") DS_RETURN_IF_ERROR(Yarn(&scaling));
    Set("rope_scaling", std::move(scaling));
    return absl::OkStatus();
  }

  absl::Status Yarn(json::Value* scaling) {
    int64_t original = Get("max_position_embeddings");
    constexpr absl::string_view kOriginal =
        "rope.scaling.original_context_length";
    if (const json::Value* v = Find(kOriginal)) {
      if (!v->is_int() || v->as_int() < 1 || v->as_int() > limits::kPositions) {
        return absl::InvalidArgumentError(
            absl::StrCat(Full(kOriginal), ": must be an integer from 1 to ",
                         limits::kPositions));
      }
      original = v->as_int();
    }
    scaling->Set("original_max_position_embeddings", original);
    for (const auto& [stored, published] :
         {std::pair<absl::string_view, absl::string_view>{
              "rope.scaling.yarn_beta_fast", "beta_fast"},
          {"rope.scaling.yarn_beta_slow", "beta_slow"}}) {
      DS_ASSIGN_OR_RETURN(json::Value beta, Number(stored));
      if (!beta.is_null()) scaling->Set(published, std::move(beta));
    }
    // Factors on the attention's scale that the config has no key for.
    for (const auto& [key, neutral] :
         {std::pair<absl::string_view, double>{"rope.scaling.attn_factor", 1},
          {"rope.scaling.yarn_attn_factor", 1},
          {"rope.scaling.yarn_ext_factor", 1},
          {"rope.scaling.yarn_log_multiplier", 0}}) {
      DS_ASSIGN_OR_RETURN(const json::Value v, Number(key));
      if (!v.is_null() && v.as_double() != neutral) {
        return absl::UnimplementedError(absl::StrCat(Full(key), ": found ",
                                                     v.as_double(), "; only ",
                                                     neutral, " is supported"));
      }
    }
    return absl::OkStatus();
  }

  // Keys that change the arithmetic and that the config can't express.
  absl::Status Refuse() {
    for (const NeutralKey& row : kNeutralKeys) {
      const json::Value* v = Find(row.key);
      if (v == nullptr) continue;
      const double value = v->is_number() ? v->as_double()
                           : v->is_bool() ? (v->as_bool() ? 1 : 0)
                                          : -1;
      // Of "causal", false is no neutral value.
      if (value != row.neutral &&
          (value != 0 || row.key == "attention.causal")) {
        return absl::UnimplementedError(
            absl::StrCat(Full(row.key), ": found ",
                         v->is_array() ? "an array" : json::Write(*v),
                         "; no family here computes with it; supported: ",
                         v->is_bool() ? (row.neutral != 0 ? "true" : "false")
                                      : absl::StrCat(row.neutral)));
      }
    }
    const json::Value* experts = Find("expert_count");
    if (experts != nullptr && experts->is_int() && experts->as_int() != 0) {
      return absl::UnimplementedError(
          absl::StrCat(Full("expert_count"), ": found ", experts->as_int(),
                       "; GGUF models with experts are not supported"));
    }
    Find("expert_used_count");
    if (const json::Value* scale = Find("attention.scale")) {
      const double usual =
          architecture_.rotary ? 1 / std::sqrt(Get("head_dim")) : 0;
      if (!scale->is_number() ||
          std::abs(scale->as_double() - usual) > 1e-6 * usual) {
        return absl::UnimplementedError(
            absl::StrCat(Full("attention.scale"),
                         ": is not 1 / sqrt(head); another scale is not "
                         "supported"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Vocabulary() {
    int64_t size = 0;
    const json::Value* tokens = file_.metadata.Find("tokenizer.ggml.tokens");
    if (tokens != nullptr) size = tokens->items().size();
    for (absl::string_view key :
         {"tokenizer.ggml.scores", "tokenizer.ggml.token_type"}) {
      const json::Value* v = file_.metadata.Find(key);
      if (v != nullptr && static_cast<int64_t>(v->items().size()) != size) {
        return absl::InvalidArgumentError(absl::StrCat(
            key, ": has ", v->items().size(),
            " items; must have as many as there are tokens, ", size));
      }
    }
    if (const json::Value* v = Find("vocab_size")) {
      if (!v->is_int()) return WrongKind(Full("vocab_size"), *v, "an integer");
      size = v->as_int();
    }
    const TensorInfo* embedding = FindStored(file_, "token_embd.weight");
    if (size == 0 && embedding != nullptr) size = embedding->shape[0];
    if (size < 1 || size > limits::kVocab) {
      return absl::InvalidArgumentError(
          absl::StrCat(Full("vocab_size"), ": found ", size,
                       "; must be from 1 to ", limits::kVocab));
    }
    Set("vocab_size", size);
    constexpr absl::string_view kTemplate = "tokenizer.chat_template";
    if (const json::Value* v = file_.metadata.Find(kTemplate)) {
      if (!v->is_string()) return WrongKind(kTemplate, *v, "a string");
    }
    return SpecialTokens(size);
  }

  absl::Status SpecialTokens(int64_t vocab_size) {
    json::Value stops = json::Value::Array();
    for (const auto& [stored, published] :
         {std::pair<absl::string_view, absl::string_view>{"bos",
                                                          "bos_token_id"},
          {"eos", "eos_token_id"},
          {"eot", "eos_token_id"},
          {"eom", "eos_token_id"},
          {"padding", "pad_token_id"}}) {
      const std::string key =
          absl::StrCat("tokenizer.ggml.", stored, "_token_id");
      const json::Value* v = file_.metadata.Find(key);
      if (v == nullptr) continue;
      if (!v->is_int() || v->as_int() < 0 || v->as_int() >= vocab_size) {
        return absl::InvalidArgumentError(
            absl::StrCat(key, ": found ",
                         v->is_int() ? absl::StrCat(v->as_int())
                                     : std::string(json::KindName(v->kind())),
                         "; must be below the vocabulary's ", vocab_size));
      }
      if (published != "eos_token_id") {
        Set(published, *v);
      } else if (std::none_of(stops.items().begin(), stops.items().end(),
                              [&](const json::Value& s) {
                                return s.as_int() == v->as_int();
                              })) {
        stops.Add(*v);
      }
    }
    if (stops.items().size() == 1) {
      Set("eos_token_id", stops.items()[0]);
    } else if (!stops.items().empty()) {
      Set("eos_token_id", std::move(stops));  // each of them ends a text
    }
    return absl::OkStatus();
  }

  // The type of most weight bytes; what is quantised widens to bfloat16.
  std::string TorchDtype() const {
    std::map<DType, uint64_t> bytes;
    for (const TensorInfo& t : file_.tensors) {
      if (t.storage != Storage::kPlain) return "bfloat16";
      if (t.shape.size() > 1) bytes[t.dtype] += t.bytes;
    }
    DType most = DType::kF32;
    for (const auto& [type, n] : bytes) {
      if (n > bytes[most]) most = type;
    }
    return most == DType::kF16    ? "float16"
           : most == DType::kBF16 ? "bfloat16"
                                  : "float32";
  }

  // A key that nobody asked for may change the arithmetic: say so.
  void NoteUnused() {
    const std::string prefix = Full("");
    used_.insert("tensor_data_layout");
    for (const json::Value::Member& m : file_.metadata.members()) {
      if (absl::StartsWith(m.first, prefix) &&
          !used_.contains(m.first.substr(prefix.size()))) {
        out_.notes.push_back(
            absl::StrCat("key ", Quoted(m.first), " is not known and ignored"));
      }
    }
  }

  const GgufArchitecture& architecture_;
  const GgufFile& file_;
  GgufConfig out_{.config = json::Value::Object()};
  absl::flat_hash_set<std::string> used_;
};

}  // namespace

absl::StatusOr<GgufConfig> MakeGgufConfig(const GgufArchitecture& architecture,
                                          const GgufFile& file) {
  return Maker(architecture, file).Make();
}

}  // namespace deepslice
