#include "compiler/encoder_settings.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "compiler/config_support.h"
#include "compiler/config_value.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using Log = std::function<void(const std::string&)>;

// The modules that a sentence embedding goes through, in order.
absl::Status CheckModules(const json::Value& modules) {
  if (modules.is_null()) return absl::OkStatus();
  if (!modules.is_array()) {
    return absl::InvalidArgumentError(
        absl::StrCat("modules.json: found ", json::KindName(modules.kind()),
                     "; allowed: a list of modules; download it again"));
  }
  for (const json::Value& m : modules.items()) {
    const json::Value* type = m.Find("type");
    if (type == nullptr || !type->is_string()) {
      return absl::InvalidArgumentError(
          "modules.json: found a module without \"type\"; allowed: the "
          "published list; download it again");
    }
    const absl::string_view name = type->as_string();
    if (absl::EndsWith(name, ".Transformer") ||
        absl::EndsWith(name, ".Pooling") ||
        absl::EndsWith(name, ".Normalize")) {
      continue;
    }
    return absl::UnimplementedError(absl::StrCat(
        "modules.json: found ", name,
        "; allowed: Transformer, Pooling and Normalize; export the model "
        "without it, or delete modules.json to embed without it"));
  }
  return absl::OkStatus();
}

absl::StatusOr<fb::Pooling> PoolingOf(const json::Value& config) {
  if (config.is_null()) return fb::Pooling::Mean;
  // Each mode is a key of its own; newer files have one key.
  std::vector<std::string> modes;
  for (const auto& [key, value] : config.members()) {
    absl::string_view mode = key;
    if (absl::ConsumePrefix(&mode, "pooling_mode_") && value.is_bool() &&
        value.as_bool()) {
      modes.emplace_back(mode);
    }
  }
  if (const json::Value* mode = config.Find("pooling_mode");
      mode != nullptr && mode->is_string()) {
    modes.push_back(mode->as_string());
  }
  if (modes == std::vector<std::string>{"mean_tokens"} ||
      modes == std::vector<std::string>{"mean"}) {
    return fb::Pooling::Mean;
  }
  if (modes == std::vector<std::string>{"cls_token"} ||
      modes == std::vector<std::string>{"cls"}) {
    return fb::Pooling::First;
  }
  return absl::UnimplementedError(absl::StrCat(
      "1_Pooling/config.json: found ",
      modes.empty() ? "no pooling mode" : absl::StrJoin(modes, " and "),
      "; allowed: mean_tokens or cls_token alone; export the model with one of "
      "these, or delete the file to embed by the mean"));
}

// The first token of a decoder beside an encoder.
absl::StatusOr<int32_t> StartOf(const Checkpoint& checkpoint,
                                const ModelDescription& model) {
  for (const json::Value* config :
       {&checkpoint.generation_config(), &checkpoint.config()}) {
    if (!config->is_object()) continue;
    const ConfigValue v = FindConfig(*config, "decoder_start_token_id");
    if (!v.present()) continue;
    DS_ASSIGN_OR_RETURN(const int64_t id,
                        ConfigInt(v, 0, model.vocab_size - 1));
    return static_cast<int32_t>(id);
  }
  return absl::InvalidArgumentError(
      "config.json: decoder_start_token_id: absent; allowed: the id that "
      "decoding begins with; add it, as the published config has it");
}

// The most tokens of a text, 0 when nothing says.
absl::StatusOr<int32_t> MostTokens(const json::Value& config, const Log& log) {
  if (config.is_null()) return 0;
  if (const json::Value* lower = config.Find("do_lower_case");
      lower != nullptr && lower->is_bool() && lower->as_bool()) {
    log("sentence_bert_config.json: do_lower_case is not done here; give texts "
        "in lower case if the tokenizer does not do it itself");
  }
  const json::Value* most = config.Find("max_seq_length");
  if (most == nullptr || most->is_null()) return 0;
  if (most->is_int() && most->as_int() > 0 &&
      most->as_int() <= limits::kPositions) {
    return static_cast<int32_t>(most->as_int());
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "sentence_bert_config.json: max_seq_length: found ", json::Write(*most),
      "; allowed: 1 to ", limits::kPositions, "; correct it or delete it"));
}

// ---- CLIP -------------------------------------------------------------------

// A number of pixels, or the published default.
absl::StatusOr<int32_t> SizeIn(const json::Value& object, absl::string_view key,
                               int32_t otherwise) {
  constexpr int64_t kMost = 1 << 14;
  const ConfigValue v = FindConfig(object, key);
  if (!v.present()) return otherwise;
  DS_ASSIGN_OR_RETURN(const int64_t size, ConfigInt(v, 1, kMost));
  return static_cast<int32_t>(size);
}

// {"height", "width"} or one number for both.
absl::Status SidesIn(const json::Value& config, absl::string_view key,
                     int32_t otherwise, int32_t* width, int32_t* height) {
  const ConfigValue v = FindConfig(config, key);
  if (v.present() && v.value.is_object()) {
    DS_ASSIGN_OR_RETURN(*height, SizeIn(v.value, "height", otherwise));
    DS_ASSIGN_OR_RETURN(*width, SizeIn(v.value, "width", otherwise));
    return absl::OkStatus();
  }
  DS_ASSIGN_OR_RETURN(*width, SizeIn(config, key, otherwise));
  *height = *width;
  return absl::OkStatus();
}

absl::StatusOr<bool> SwitchIn(const json::Value& config,
                              absl::string_view key) {
  const ConfigValue v = FindConfig(config, key);
  if (!v.present()) return true;
  return ConfigBool(v);
}

absl::StatusOr<std::vector<float>> ChannelsIn(const json::Value& config,
                                              absl::string_view key,
                                              std::vector<float> otherwise) {
  const ConfigValue v = FindConfig(config, key);
  if (!v.present()) return otherwise;
  std::vector<float> out;
  for (const json::Value& x : v.value.items()) {
    if (x.is_number()) out.push_back(static_cast<float>(x.as_double()));
  }
  if (out.size() == otherwise.size() && v.value.items().size() == out.size()) {
    return out;
  }
  return ConfigError(v, "three numbers");
}

// Keys with one supported value.
absl::Status CheckImageProcessor(const json::Value& config) {
  for (absl::string_view key :
       {"image_processor_type", "feature_extractor_type"}) {
    const ConfigValue v = FindConfig(config, key);
    if (!v.present()) continue;
    DS_ASSIGN_OR_RETURN(const std::string name, ConfigString(v));
    if (!absl::StartsWith(name, "CLIP")) {
      return ConfigUnsupported(v, "CLIPImageProcessor, CLIPFeatureExtractor");
    }
  }
  const ConfigValue size = FindConfig(config, "size");
  if (!size.value.is_object()) return absl::OkStatus();
  for (const auto& [key, value] : size.value.members()) {
    if (value.is_null() || key == "shortest_edge" || key == "height" ||
        key == "width") {
      continue;
    }
    return ConfigUnsupported(FindConfig(config, absl::StrCat("size.", key)),
                             "shortest_edge, or height and width");
  }
  return absl::OkStatus();
}

// What becomes of a picture, as the published image processor does it. Errors
// name keys as config.json's.
absl::StatusOr<std::unique_ptr<fb::ImageInputT>> ImageInput(
    const json::Value& config, const ModelDescription& tower) {
  DS_RETURN_IF_ERROR(CheckImageProcessor(config));
  auto out = std::make_unique<fb::ImageInputT>();
  out->size = static_cast<int32_t>(tower.image_size);
  out->patch = static_cast<int32_t>(tower.patch_size);
  DS_ASSIGN_OR_RETURN(const bool resizes, SwitchIn(config, "do_resize"));
  if (resizes) {
    const ConfigValue size = FindConfig(config, "size");
    if (size.value.is_object() && size.value.Find("height") != nullptr) {
      DS_RETURN_IF_ERROR(SidesIn(config, "size", out->size, &out->resize_width,
                                 &out->resize_height));
    } else if (size.value.is_object()) {
      DS_ASSIGN_OR_RETURN(out->resize_shortest,
                          SizeIn(size.value, "shortest_edge", out->size));
    } else {
      DS_ASSIGN_OR_RETURN(out->resize_shortest,
                          SizeIn(config, "size", out->size));
    }
  }
  DS_ASSIGN_OR_RETURN(const bool crops, SwitchIn(config, "do_center_crop"));
  if (crops) {
    DS_RETURN_IF_ERROR(SidesIn(config, "crop_size", out->size, &out->crop_width,
                               &out->crop_height));
  }
  const ConfigValue filter = FindConfig(config, "resample");
  int64_t resample = 3;
  if (filter.present()) {
    DS_ASSIGN_OR_RETURN(resample, ConfigInt(filter, 0, 5));
  }
  if (resample != 2 && resample != 3) {
    return ConfigUnsupported(filter, "2 (bilinear), 3 (bicubic)");
  }
  out->resample =
      resample == 2 ? fb::Resample::Bilinear : fb::Resample::Bicubic;
  DS_ASSIGN_OR_RETURN(const bool rescales, SwitchIn(config, "do_rescale"));
  if (!rescales) {
    out->scale = 1;
  } else if (const ConfigValue v = FindConfig(config, "rescale_factor");
             v.present()) {
    DS_ASSIGN_OR_RETURN(const double factor, ConfigPositive(v));
    out->scale = static_cast<float>(factor);
  }
  DS_ASSIGN_OR_RETURN(const bool norms, SwitchIn(config, "do_normalize"));
  out->mean = {0, 0, 0};
  out->deviation = {1, 1, 1};
  if (!norms) return out;
  DS_ASSIGN_OR_RETURN(
      out->mean,
      ChannelsIn(config, "image_mean", {0.48145466f, 0.4578275f, 0.40821073f}));
  DS_ASSIGN_OR_RETURN(
      out->deviation,
      ChannelsIn(config, "image_std", {0.26862954f, 0.26130258f, 0.27577711f}));
  for (const float x : out->deviation) {
    if (x > 0) continue;
    return ConfigError(FindConfig(config, "image_std"), "numbers above 0");
  }
  return out;
}

absl::Status SetFeatures(const Checkpoint& checkpoint,
                         const ModelDescription& model,
                         fb::EncoderSettingsT* out) {
  out->pooling = fb::Pooling::Output;
  out->logit_scale = static_cast<float>(model.logit_scale);
  // Where older configs name 2, the token of the highest id ends a text.
  const ConfigValue eos =
      FindConfig(WithOlderSections(checkpoint.config(), {"text_config"}),
                 "text_config.eos_token_id");
  int64_t id = 49407;
  if (eos.present()) {
    DS_ASSIGN_OR_RETURN(id, ConfigInt(eos, 0, limits::kVocab));
  }
  out->row_rule = id == 2 ? fb::RowRule::HighestId : fb::RowRule::FirstOf;
  out->row_id = static_cast<int32_t>(id);
  // Newer files keep all of a processor's parts in one.
  absl::string_view file = "processor_config.json";
  const json::Value* config = checkpoint.side_file(file).Find("image_processor");
  if (config == nullptr) {
    file = "preprocessor_config.json";
    config = &checkpoint.side_file(file);
  }
  auto image = ImageInput(
      config->is_object() ? *config : json::Value::Object(), model.towers[0]);
  if (!image.ok()) {
    return absl::Status(
        image.status().code(),
        absl::StrReplaceAll(image.status().message(), {{"config.json", file}}));
  }
  out->image = *std::move(image);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<fb::EncoderSettingsT> MakeEncoderSettings(
    const Checkpoint& checkpoint, const ModelDescription& model,
    const Log& log) {
  fb::EncoderSettingsT out;
  out.architecture = model.architecture;
  out.pad_id = static_cast<int32_t>(model.pad_id);
  out.types = static_cast<int32_t>(model.types);
  if (!model.towers.empty() && !IsEncoder(model)) {
    DS_ASSIGN_OR_RETURN(out.start_id, StartOf(checkpoint, model));
    return out;
  }
  if (model.head == TaskHead::kFeatures) {
    DS_RETURN_IF_ERROR(SetFeatures(checkpoint, model, &out));
    return out;
  }
  out.labels = model.labels;
  out.scores = model.scores;
  DS_RETURN_IF_ERROR(CheckModules(checkpoint.side_file("modules.json")));
  DS_ASSIGN_OR_RETURN(out.pooling,
                      PoolingOf(checkpoint.side_file("1_Pooling/config.json")));
  DS_ASSIGN_OR_RETURN(
      out.max_tokens,
      MostTokens(checkpoint.side_file("sentence_bert_config.json"), log));
  return out;
}

}  // namespace deepslice
