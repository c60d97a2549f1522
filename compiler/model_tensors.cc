#include "compiler/model_tensors.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/config_value.h"
#include "schema/base/status_macros.h"

namespace deepslice {

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

std::string FileOf(const Checkpoint& checkpoint, const TensorInfo& tensor) {
  return checkpoint.files()[tensor.file].path;
}

void ReadVocabSize(const Policy& policy, const Checkpoint& checkpoint,
                   ModelDescription* model) {
  if (model->vocab_size > 0) return;
  for (const WeightPattern& p : policy.weights) {
    if (p.slots[0]->name != "embed") continue;
    const TensorInfo* t =
        checkpoint.Find(NamePattern(p.name, policy.prefixes[0]).Name());
    if (t == nullptr || t->shape.size() != 2) continue;
    model->vocab_size = t->shape[0];
    model->notes.push_back(
        absl::StrCat("config.json: no vocab_size; the "
                     "embedding has ",
                     model->vocab_size, " rows"));
  }
}

absl::Status ReadRopeFactors(const Checkpoint& checkpoint, TensorUses* uses,
                             ModelDescription* model) {
  const ConfigValue name =
      FindConfig(checkpoint.config(), "rope_freq_factors_tensor");
  if (!name.present() || model->positions != PositionKind::kRope) {
    return absl::OkStatus();
  }
  DS_ASSIGN_OR_RETURN(const std::string tensor, ConfigString(name));
  if (model->rope.formula != "rope_freqs") {
    return ConfigUnsupported(name, "one scaling of rotary frequencies");
  }
  const TensorInfo* t = checkpoint.Find(tensor);
  const int64_t pairs = model->rope.rotary_dim / 2;
  if (t == nullptr || t->shape != std::vector<int64_t>{pairs}) {
    return ConfigError(name, absl::StrCat("a tensor of shape [", pairs, "]"));
  }
  std::vector<float> factors(pairs);
  DS_RETURN_IF_ERROR(
      checkpoint.ReadRows(*t, 0, pairs, absl::MakeSpan(factors)));
  model->rope.formula = "rope_freqs_factors";
  for (int64_t i = 0; i < pairs; ++i) {
    if (!(std::isfinite(factors[i]) && factors[i] > 0)) {
      return absl::InvalidArgumentError(absl::StrCat(
          FileOf(checkpoint, *t), ": tensor \"", tensor, "\": found ",
          factors[i], "; allowed: numbers above 0; copy the file again"));
    }
    model->rope.arguments.emplace_back(absl::StrCat("factor_", i), factors[i]);
  }
  (*uses)[tensor] = {tensor, TensorUse::Kind::kUsed, {"rope_freqs"}, ""};
  return absl::OkStatus();
}

absl::Status ReadLogitScale(const Policy& policy, const Checkpoint& checkpoint,
                            TensorUses* uses, std::vector<std::string>* missing,
                            ModelDescription* model) {
  if (policy.scale_tensor.empty()) return absl::OkStatus();
  const TensorInfo* t = checkpoint.Find(policy.scale_tensor);
  if (t == nullptr) {
    missing->push_back(policy.scale_tensor);
    return absl::OkStatus();
  }
  float logarithm = 0;
  if (t->num_elements() == 1) {
    DS_RETURN_IF_ERROR(
        checkpoint.ReadRows(*t, 0, 1, absl::MakeSpan(&logarithm, 1)));
  }
  // Far above what training allows.
  constexpr float kMost = 40;
  if (t->num_elements() != 1 || !(std::fabs(logarithm) <= kMost)) {
    return absl::InvalidArgumentError(absl::StrCat(
        FileOf(checkpoint, *t), ": tensor \"", t->name, "\": found shape ",
        ShapeText(t->shape), " and ", logarithm,
        "; allowed: one number, at most ", kMost, " in size"));
  }
  model->logit_scale = std::exp(static_cast<double>(logarithm));
  (*uses)[t->name] = {t->name, TensorUse::Kind::kUsed, {"logit_scale"}, ""};
  return absl::OkStatus();
}

absl::StatusOr<bool> TensorsEqual(const Checkpoint& checkpoint,
                                  const TensorInfo& a, const TensorInfo& b) {
  if (a.shape != b.shape) return false;
  constexpr int64_t kElementsAtOnce = 1 << 18;
  const int64_t rows_at_once = std::max<int64_t>(
      1, kElementsAtOnce / std::max<int64_t>(1, a.row_elements()));
  std::vector<float> x, y;
  for (int64_t begin = 0; begin < a.rows(); begin += rows_at_once) {
    const int64_t end = std::min(a.rows(), begin + rows_at_once);
    x.resize((end - begin) * a.row_elements());
    y.resize(x.size());
    DS_RETURN_IF_ERROR(checkpoint.ReadRows(a, begin, end, absl::MakeSpan(x)));
    DS_RETURN_IF_ERROR(checkpoint.ReadRows(b, begin, end, absl::MakeSpan(y)));
    for (size_t i = 0; i < x.size(); ++i) {
      if (x[i] != y[i] && !(std::isnan(x[i]) && std::isnan(y[i]))) return false;
    }
  }
  return true;
}

}  // namespace deepslice
