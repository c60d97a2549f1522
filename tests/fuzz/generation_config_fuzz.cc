// generation_config.json and config.json to a plan's defaults.
#include "compiler/checkpoint/loaded_checkpoint.h"
#include "compiler/generation_settings.h"
#include "tests/fuzz/fuzz_target.h"

namespace deepslice {
namespace {

constexpr int64_t kVocab = 1000;

FUZZ_TARGET(generation_config) {
  const auto parts = SplitParts(input, 2);
  CheckpointParts files;
  const auto read = [](absl::string_view text) {
    auto value = json::Parse(text, {.allow_nan_and_infinity = true});
    return value.ok() && value->is_object() ? *std::move(value) : json::Value();
  };
  files.config = read(parts[0]);
  files.generation_config = read(parts[1]);
  const auto settings = MakeGenerationSettings(
      *MakeCheckpoint(std::move(files)), "", kVocab, [](const std::string&) {});
  if (!settings.ok()) return CheckRefusal(settings.status());
  for (const int32_t id : settings->eos_ids) FUZZ_CHECK(id >= 0 && id < kVocab);
  FUZZ_CHECK(settings->temperature >= 0 && settings->top_k >= 0);
  FUZZ_CHECK(settings->top_p > 0 && settings->top_p <= 1);
  FUZZ_CHECK(settings->repetition_penalty > 0);
  FUZZ_CHECK(settings->num_beams >= 1 && settings->max_new_tokens >= 0);
}

}  // namespace
}  // namespace deepslice
