// config.json through its policy to the model's description and graph.
#include <string>

#include "compiler/config_support.h"
#include "compiler/import.h"
#include "compiler/model.h"
#include "compiler/model_attributes.h"
#include "compiler/policy.h"
#include "compiler/random_weights.h"
#include "ir/verifier.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/memory_file.h"

namespace deepslice {
namespace {

// Models with more layers are right and slow.
constexpr int64_t kMostLayers = 3;

// How many layers the config asks for; an error where it is refused.
absl::StatusOr<int64_t> Layers(absl::string_view text) {
  const auto config = json::Parse(text, {.allow_nan_and_infinity = true});
  if (!config.ok()) return config.status();
  const absl::Status supported =
      CheckConfigSupported(*config, SectionsOf(*config));
  if (!supported.ok()) return supported;
  const auto policy = MatchPolicy(*config);
  if (!policy.ok()) return policy.status();
  ModelDescription model;
  ModelFlags flags;
  const absl::Status described =
      DescribeAttributes(**policy, *config, &model, &flags);
  if (!described.ok()) return described;
  int64_t layers = model.layers;
  for (const ModelDescription& tower : model.towers) layers += tower.layers;
  return layers;
}

FUZZ_TARGET(config) {
  const auto layers = Layers(input);
  if (!layers.ok()) return CheckRefusal(layers.status());
  if (*layers > kMostLayers) return;
  static MemoryFile file("config.json");
  file.Write(input);
  const auto checkpoint = OpenRandomWeights(file.path(), 1);
  if (!checkpoint.ok()) return CheckRefusal(checkpoint.status());
  const auto model = DescribeModel(**checkpoint);
  if (!model.ok()) return CheckRefusal(model.status());
  const auto graph = ImportGraph(*model);
  if (!graph.ok()) return CheckRefusal(graph.status());
  FUZZ_CHECK(VerifyGraph(*graph).ok());
}

}  // namespace
}  // namespace deepslice
