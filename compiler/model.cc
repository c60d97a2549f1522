// DescribeModel, step by step, and the coverage as JSON.
#include "compiler/model.h"

#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "compiler/auto_policy.h"
#include "compiler/checkpoint/moe_experts.h"
#include "compiler/config_support.h"
#include "compiler/injection.h"
#include "compiler/model_attributes.h"
#include "compiler/model_weights.h"
#include "compiler/policy.h"
#include "schema/base/file.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// The type of most elements; f64 counts as f32.
DType OwnDType(const Checkpoint& checkpoint) {
  std::map<DType, int64_t> elements;
  for (const TensorInfo& t : checkpoint.tensors()) {
    if (t.storage != Storage::kPlain) return DType::kBF16;
    if (!IsFloat(t.dtype)) continue;
    elements[t.dtype == DType::kF64 ? DType::kF32 : t.dtype] +=
        t.num_elements();
  }
  DType best = DType::kF32;
  for (const auto& [dtype, count] : elements) {
    if (count > elements[best]) best = dtype;
  }
  return best;
}

json::Value Strings(const std::vector<std::string>& strings) {
  json::Value out = json::Value::Array();
  for (const std::string& s : strings) out.Add(s);
  return out;
}

}  // namespace

const ModelWeight* ModelDescription::FindWeight(absl::string_view name) const {
  for (const ModelWeight& w : weights) {
    if (w.name == name) return &w;
  }
  return nullptr;
}

namespace {

// A user's policy, the one that the config names, or an automatic one.
absl::StatusOr<const Policy*> ChoosePolicy(const Checkpoint& checkpoint,
                                           const DescribeOptions& options,
                                           const Injection& injection,
                                           Policy* own,
                                           ModelDescription* model) {
  if (!options.policy_text.empty()) {
    DS_ASSIGN_OR_RETURN(
        *own, ParsePolicyFile(options.policy_text, options.policy_name));
    model->policy_text = options.policy_text;
    return own;
  }
  absl::StatusOr<const Policy*> named = MatchPolicy(checkpoint.config());
  if (!absl::IsUnimplemented(named.status())) return named;
  absl::StatusOr<AutoPolicy> made = MakeAutoPolicy(checkpoint, injection);
  if (!made.ok()) {
    return absl::Status(
        made.status().code(),
        absl::StrCat(named.status().message(),
                     "; nor by the tensors' names: ", made.status().message()));
  }
  DS_ASSIGN_OR_RETURN(*own, ParsePolicyFile(made->text, "automatic"));
  model->policy_text = made->text;
  model->decisions = made->decisions;
  const std::string message(named.status().message());
  const size_t list = message.find("; allowed: ");
  const size_t nearest = message.rfind("; the nearest");
  model->notes.push_back(absl::StrCat(
      message.substr(0, list), ", which no policy names",
      nearest == std::string::npos ? "" : message.substr(nearest),
      "; one was made of the tensors' names: compare with a reference before "
      "you trust it (report.json: policy)"));
  for (const std::string& line : made->decisions) {
    model->notes.push_back(absl::StrCat("automatic: ", line));
  }
  return own;
}

absl::StatusOr<ModelDescription> Describe(const Checkpoint& checkpoint,
                                          const DescribeOptions& options) {
  const std::vector<std::string> sections = SectionsOf(checkpoint.config());
  DS_RETURN_IF_ERROR(CheckConfigSupported(checkpoint.config(), sections));
  const json::Value config = WithOlderSections(checkpoint.config(), sections);
  DS_ASSIGN_OR_RETURN(const Injection injection,
                      ParseInjection(options.injection));
  ModelDescription model;
  Policy own;  // of a user, or automatic
  DS_ASSIGN_OR_RETURN(
      const Policy* policy,
      ChoosePolicy(checkpoint, options, injection, &own, &model));
  ModelFlags flags;
  DS_RETURN_IF_ERROR(DescribeAttributes(*policy, config, &model, &flags));
  DS_RETURN_IF_ERROR(
      ResolveWeights(*policy, flags, checkpoint, options, &model));
  if (!injection.empty()) {
    DS_RETURN_IF_ERROR(CheckInjection(injection, model));
    model.notes.push_back(absl::StrCat(
        "--injection: the row-parallel linears of ", model.family,
        " are those of ", injection.block, ", all others are column-parallel"));
  }
  DS_RETURN_IF_ERROR(NoteConfig(config, model.vocab_size, &model.notes));
  model.dtype = OwnDType(checkpoint);
  model.precise = policy->precise;
  return model;
}

// "config.json: ..." with the path before it, or with the file whose metadata
// stands for it.
absl::Status WithPath(const Checkpoint& checkpoint,
                      const absl::Status& status) {
  if (checkpoint.files().empty() ||
      !absl::StartsWith(status.message(), "config.json")) {
    return status;
  }
  if (!checkpoint.config_place().empty()) {
    return absl::Status(
        status.code(),
        absl::StrCat(checkpoint.config_place(),
                     absl::StripPrefix(status.message(), "config.json")));
  }
  const std::string& file = checkpoint.files()[0].path;
  // A config alone may have any name.
  if (absl::EndsWith(file, ".json")) {
    return absl::Status(
        status.code(),
        absl::StrCat(file, absl::StripPrefix(status.message(), "config.json")));
  }
  return absl::Status(
      status.code(),
      checkpoint.gguf_metadata().is_null()
          ? JoinPath(Dirname(file), status.message())
          : absl::StrCat(file, ": metadata as ", status.message()));
}

}  // namespace

absl::StatusOr<ModelDescription> DescribeModel(const Checkpoint& checkpoint,
                                               const DescribeOptions& options) {
  DS_RETURN_IF_ERROR(RefuseMoeLayers(checkpoint));
  absl::StatusOr<ModelDescription> model = Describe(checkpoint, options);
  if (!model.ok()) return WithPath(checkpoint, model.status());
  return model;
}

json::Value CoverageJson(const Coverage& coverage) {
  json::Value out = json::Value::Array();
  for (const TensorUse& use : coverage.tensors) {
    json::Value& row = out.Add(json::Value::Object());
    row.Set("tensor", use.tensor);
    switch (use.kind) {
      case TensorUse::Kind::kUsed:
        row.Set("use", "weight");
        row.Set("weights", Strings(use.weights));
        break;
      case TensorUse::Kind::kTied:
        row.Set("use", "tied");
        row.Set("weights", Strings(use.weights));
        break;
      case TensorUse::Kind::kUnused:
        row.Set("use", "unused");
        row.Set("rule", use.rule);
        break;
    }
  }
  return out;
}

}  // namespace deepslice
