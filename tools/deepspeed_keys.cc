#include "tools/deepspeed_keys.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "schema/base/json.h"

namespace deepslice {
namespace {

constexpr absl::string_view kFused =
    "kernels are fused and compiled for the target, whatever this says";
constexpr absl::string_view kPython =
    "an object of Python's, which no file holds; leave it out";
constexpr absl::string_view kExperts =
    "the checkpoint says what experts there are";
constexpr absl::string_view kTraining =
    "is of deepspeed.initialize's configuration for training; leave it out";
constexpr absl::string_view kTrainingType =
    "is of deepspeed.initialize's configuration for training; use dtype";
constexpr absl::string_view kActivations =
    "activations are never quantised; DeepSpeed's engine reads it neither";
constexpr absl::string_view kInt8 =
    "DeepSpeed's engine reads it not; dtype int8 is 8 bits, symmetric, a scale "
    "for each row, and alone quantises weights";
constexpr absl::string_view kFastGen =
    "is of FastGen's engine (deepspeed.inference.v2); leave it out";

using V = KeyValue;
using U = KeyUse;

constexpr DeepSpeedKey kKeys[] = {
    {"replace_with_kernel_inject", "kernel_inject", V::kSwitch, "false",
     U::kAlways, "", kFused},
    {"dtype", "", V::kDtype, "\"fp16\"", U::kFlag, "dtype",
     "fp32, float32, float; fp16, float16, half; bf16, bfloat16, bfloat; int8; "
     "each also as torch.NAME; without it the checkpoint's own type, which is "
     "said: DeepSpeed would take fp16"},
    {"tensor_parallel", "tp", V::kGroup, "{}", U::kGroup, "", ""},
    {"tensor_parallel.enabled", "", V::kSwitch, "true", U::kChecked, "",
     "false needs a tp_size of 1"},
    {"tensor_parallel.tp_size", "", V::kCount, "1", U::kFlag, "tp", ""},
    {"tensor_parallel.tp_grain_size", "", V::kCount, "64", U::kIgnored, "",
     "ranks' parts of an MLP end at multiples of 16 or of a group of scales; "
     "the sums are the same"},
    {"tensor_parallel.mpu", "", V::kObject, "null", U::kDefault, "", kPython},
    {"tensor_parallel.tp_group", "", V::kObject, "null", U::kDefault, "",
     kPython},
    {"enable_cuda_graph", "", V::kSwitch, "false", U::kAlways, "",
     "dsrun captures graphs on every GPU, at any tp"},
    {"use_triton", "", V::kSwitch, "false", U::kAlways, "", kFused},
    {"triton_autotune", "", V::kSwitch, "false", U::kAlways, "",
     "tiles are chosen at compile time; `dsrun tune` chooses the library's "
     "algorithms"},
    {"zero", "", V::kAny, "{}", U::kIgnored, "",
     "DeepSpeed's inference engine reads it neither: weights stay on the "
     "device; --tp divides them, --device-memory checks that they fit"},
    {"triangular_masking", "tm", V::kSwitch, "true", U::kIgnored, "",
     "the model's architecture says what is masked, as in DeepSpeed"},
    {"moe", "", V::kSwitchOrGroup, "{}", U::kGroup, "", ""},
    {"moe.enabled", "", V::kSwitch, "true", U::kAlways, "", kExperts},
    {"moe.ep_size", "", V::kCount, "1", U::kDefault, "",
     "experts are not spread over ranks; use 1"},
    {"moe.moe_experts", "num_experts", V::kAny, "[1]", U::kIgnored, "",
     kExperts},
    {"moe.type", "", V::kWord, "\"standard\"", U::kIgnored, "", kExperts},
    {"moe.ep_mp_group", "", V::kObject, "null", U::kDefault, "", kPython},
    {"moe.ep_group", "", V::kObject, "null", U::kDefault, "", kPython},
    {"keep_module_on_host", "", V::kSwitch, "false", U::kAlways, "",
     "compiling takes no device, and a few tensors of host memory"},
    {"quant", "", V::kGroup, "{}", U::kGroup, "", ""},
    {"quant.enabled", "", V::kSwitch, "true", U::kChecked, "",
     "DeepSpeed's engine reads it not; dtype int8 alone quantises weights, and "
     "contradicts false"},
    {"quant.activation", "", V::kGroup, "{}", U::kGroup, "", ""},
    {"quant.activation.enabled", "", V::kSwitch, "true", U::kIgnored, "",
     kActivations},
    {"quant.activation.num_bits", "", V::kCount, "8", U::kIgnored, "",
     kActivations},
    {"quant.activation.q_type", "", V::kWord, "\"symmetric\"", U::kIgnored, "",
     kActivations},
    {"quant.activation.q_groups", "", V::kCount, "1", U::kIgnored, "",
     kActivations},
    {"quant.weight", "", V::kGroup, "{}", U::kGroup, "", ""},
    {"quant.weight.enabled", "", V::kSwitch, "true", U::kChecked, "", kInt8},
    {"quant.weight.num_bits", "", V::kCount, "8", U::kChecked, "", kInt8},
    {"quant.weight.q_type", "", V::kWord, "\"symmetric\"", U::kChecked, "",
     kInt8},
    {"quant.weight.q_groups", "", V::kCount, "1", U::kChecked, "", kInt8},
    {"quant.weight.quantized_initialization", "", V::kAny, "{}", U::kDefault,
     "", "is of ZeRO-Inference; use dtype int8"},
    {"quant.weight.post_init_quant", "", V::kAny, "{}", U::kDefault, "",
     "is of ZeRO-Inference; use dtype int8"},
    {"quant.qkv", "", V::kGroup, "{}", U::kGroup, "", ""},
    {"quant.qkv.enabled", "", V::kSwitch, "true", U::kIgnored, "",
     "query, key and value are quantised as all matrices are, by dtype int8"},
    {"checkpoint", "", V::kCheckpoint, "null", U::kFlag, "model",
     "a path, from where dscompile runs, else from the configuration's folder; "
     "or the list with type, version and checkpoints itself"},
    {"base_dir", "", V::kPath, "\"\"", U::kFlag, "base-dir",
     "the list's own base_dir counts more"},
    {"set_empty_params", "", V::kSwitch, "false", U::kAlways, "",
     "no module is ever made"},
    {"save_mp_checkpoint_path", "", V::kPath, "null", U::kFlag, "output",
     "the plan, in place of a presharded checkpoint"},
    {"checkpoint_config", "ckpt_config", V::kGroup, "{}", U::kGroup, "", ""},
    {"checkpoint_config.checkpoint_dir", "", V::kPath, "null", U::kDefault, "",
     "DeepSpeed never reads it; use checkpoint"},
    {"checkpoint_config.save_mp_checkpoint_path", "", V::kPath, "null",
     U::kDefault, "",
     "DeepSpeed never reads it; use save_mp_checkpoint_path outside "
     "checkpoint_config"},
    {"checkpoint_config.base_dir", "", V::kPath, "\"\"", U::kDefault, "",
     "DeepSpeed never reads it; use base_dir outside checkpoint_config"},
    {"return_tuple", "", V::kSwitch, "true", U::kAlways, "",
     "no module returns anything"},
    {"training_mp_size", "", V::kCount, "1", U::kFlag, "training-mp-size",
     "the tensor-parallel degree that a checkpoint of several ranks must have; "
     "1 says nothing"},
    {"replace_method", "", V::kWord, "\"auto\"", U::kIgnored, "",
     "deprecated; it does nothing in DeepSpeed either"},
    {"injection_policy", "injection_dict", V::kInjection, "null", U::kFlag,
     "injection",
     "{\"T5Block\": [\"SelfAttention.o\", \"EncDecAttention.o\", "
     "\"DenseReluDense.wo\"]} or \"T5Block=SelfAttention.o,...\"; not with "
     "replace_with_kernel_inject"},
    {"injection_policy_tuple", "", V::kObject, "null", U::kDefault, "",
     "DeepSpeed fills it; use injection_policy"},
    {"config", "args", V::kAny, "null", U::kIgnored, "",
     "the checkpoint's own configuration counts; DeepSpeed replaces it, too"},
    {"max_out_tokens", "max_tokens", V::kCount, "1024", U::kFlag, "max-seq-len",
     "prompt and answer together, at most the model's positions; without it "
     "the smaller of those and 4096; dsrun may lower it"},
    {"min_out_tokens", "min_tokens", V::kCount, "1", U::kRunFlag,
     "min-out-tokens",
     "what a sequence must be able to hold; more than max_out_tokens is an "
     "error"},
    {"transposed_mode", "", V::kSwitch, "false", U::kIgnored, "",
     "the policy of the family says how matrices lie"},
    {"mp_size", "", V::kCount, "1", U::kMoved, "tensor_parallel.tp_size", ""},
    {"mpu", "", V::kObject, "null", U::kMoved, "tensor_parallel.mpu", ""},
    {"ep_size", "", V::kCount, "1", U::kMoved, "moe.ep_size", ""},
    {"ep_group", "expert_group", V::kObject, "null", U::kMoved, "moe.ep_group",
     ""},
    {"ep_mp_group", "expert_mp_group", V::kObject, "null", U::kMoved,
     "moe.ep_mp_group", ""},
    {"moe_experts", "", V::kAny, "[1]", U::kMoved, "moe.moe_experts", ""},
    {"moe_type", "", V::kWord, "\"standard\"", U::kMoved, "moe.type", ""},

    {"quantization_setting", "", V::kAny, "", U::kRefused, "",
     "DeepSpeed has it no more since 0.7.6; use dtype int8, which has a scale "
     "for each row"},
    {"offload_params", "", V::kAny, "", U::kRefused, "",
     "was never a key; weights stay on the device: use tensor_parallel.tp_size "
     "to divide them"},
    {"bit_precision", "", V::kAny, "", U::kRefused, "",
     "was never a key; use dtype"},
    {"weight_quantization", "", V::kAny, "", U::kRefused, "",
     "is of ZeRO-Inference; use dtype int8"},
    {"zero_optimization", "", V::kAny, "", U::kRefused, "", kTraining},
    {"train_batch_size", "", V::kAny, "", U::kRefused, "", kTraining},
    {"train_micro_batch_size_per_gpu", "", V::kAny, "", U::kRefused, "",
     kTraining},
    {"gradient_accumulation_steps", "", V::kAny, "", U::kRefused, "",
     kTraining},
    {"gradient_clipping", "", V::kAny, "", U::kRefused, "", kTraining},
    {"optimizer", "", V::kAny, "", U::kRefused, "", kTraining},
    {"scheduler", "", V::kAny, "", U::kRefused, "", kTraining},
    {"steps_per_print", "", V::kAny, "", U::kRefused, "", kTraining},
    {"wall_clock_breakdown", "", V::kAny, "", U::kRefused, "", kTraining},
    {"fp16", "", V::kAny, "", U::kRefused, "", kTrainingType},
    {"bf16", "", V::kAny, "", U::kRefused, "", kTrainingType},
    {"state_manager", "", V::kAny, "", U::kRefused, "", kFastGen},
    {"quantization", "", V::kAny, "", U::kRefused, "", kFastGen},
};

// "dscompile --tp", "tensor_parallel.tp_size", "no effect": the short answer.
std::string Becomes(const DeepSpeedKey& k) {
  switch (k.use) {
    case KeyUse::kFlag:
      return k.to == "model" ? "dscompile SRC"
                             : absl::StrCat("dscompile --", k.to);
    case KeyUse::kRunFlag:
      return absl::StrCat("dsrun --", k.to);
    case KeyUse::kGroup:
      return "its keys";
    case KeyUse::kMoved:
      return absl::StrCat("deprecated: ", k.to);
    case KeyUse::kAlways:
      return "accepted, no effect";
    case KeyUse::kIgnored:
      return "no effect, noted";
    case KeyUse::kChecked:
      return "checked";
    case KeyUse::kDefault:
      return k.initial == "null" ? "null alone" : "the default alone";
    case KeyUse::kRefused:
      break;
  }
  return "refused";
}

std::string Cell(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"|", "\\|"}, {"<", "&lt;"}});
}

std::string Code(absl::string_view text) {
  return text.empty() ? "" : absl::StrCat("`", Cell(text), "`");
}

}  // namespace

absl::Span<const DeepSpeedKey> DeepSpeedKeys() { return kKeys; }

std::string DeepSpeedKeysText() {
  size_t widest = 0, answer = 0;
  const auto name = [](const DeepSpeedKey& k) {
    return absl::StrCat(k.path, k.alias.empty() ? "" : ", ", k.alias);
  };
  for (const DeepSpeedKey& k : kKeys) {
    widest = std::max(widest, name(k).size());
    answer = std::max(answer, Becomes(k).size());
  }
  std::string out;
  for (const DeepSpeedKey& k : kKeys) {
    std::string line = absl::StrFormat("%-*s  %-*s  %s", widest, name(k),
                                       answer, Becomes(k), k.how);
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&out, line, "\n");
  }
  return out;
}

std::string DeepSpeedKeysMarkdown() {
  std::string out =
      "| key | also | DeepSpeed's default | here |  |\n|---|---|---|---|---|\n";
  for (const DeepSpeedKey& k : kKeys) {
    absl::StrAppend(&out, "| ", Code(k.path), " | ", Code(k.alias), " | ",
                    Code(k.initial), " | ", Cell(Becomes(k)), " | ",
                    Cell(k.how), " |\n");
  }
  return out;
}

std::string DeepSpeedKeysJson() {
  json::Value rows = json::Value::Array();
  for (const DeepSpeedKey& k : kKeys) {
    json::Value row = json::Value::Object();
    row.Set("key", k.path);
    row.Set("alias", k.alias);
    row.Set("default", k.initial);
    row.Set("here", Becomes(k));
    row.Set("how", k.how);
    rows.Add(std::move(row));
  }
  json::Value all = json::Value::Object();
  all.Set("keys", std::move(rows));
  return json::Write(all, 2) + "\n";
}

}  // namespace deepslice
