#include "runtime/api/generate_params.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/api/api_call.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// Of the first version.
constexpr size_t kGenerateParamsBytes = sizeof(ds_generate_params);
// A bound on answers to one prompt.
constexpr int32_t kMostAnswers = 1 << 16;

template <typename T>
void Read(T value, std::optional<T>* out) {
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isnan(value)) *out = value;
  } else {
    if (value != DS_NOT_GIVEN) *out = value;
  }
}

absl::Status Bad(absl::string_view name, absl::string_view found,
                 absl::string_view allowed) {
  return absl::InvalidArgumentError(absl::StrCat("ds_generate_params: ", name,
                                                 " is ", found, "; ", allowed,
                                                 " is allowed"));
}

absl::Status ReadFlag(absl::string_view name, int32_t value,
                      std::optional<bool>* out) {
  if (value == DS_NOT_GIVEN) return absl::OkStatus();
  if (value != 0 && value != 1) return Bad(name, absl::StrCat(value), "0 or 1");
  *out = value == 1;
  return absl::OkStatus();
}

template <typename T, typename Out>
absl::Status ReadList(absl::string_view name, const T* list, size_t size,
                      Out* out) {
  if (list == nullptr) {
    return size == 0 ? absl::OkStatus() : NullArgument("ds_generate", name);
  }
  out->emplace(list, list + size);
  return absl::OkStatus();
}

absl::Status ReadLists(const ds_generate_params& p, GenerationChoice* c) {
  DS_RETURN_IF_ERROR(
      ReadList("stop_ids", p.stop_ids, p.num_stop_ids, &c->stop_ids));
  DS_RETURN_IF_ERROR(ReadList("suppress_tokens", p.suppress_tokens,
                              p.num_suppress_tokens, &c->suppress_tokens));
  if (p.logit_bias == nullptr && p.num_logit_bias > 0) {
    return NullArgument("ds_generate", "logit_bias");
  }
  if (p.logit_bias != nullptr) {
    std::vector<LogitBias>& list = c->logit_bias.emplace();
    for (size_t i = 0; i < p.num_logit_bias; ++i) {
      list.push_back({p.logit_bias[i].id, p.logit_bias[i].bias});
    }
  }
  if (p.stop == nullptr) {
    return p.num_stop == 0 ? absl::OkStatus()
                           : NullArgument("ds_generate", "stop");
  }
  std::vector<std::string>& stops = c->stop.emplace();
  for (size_t i = 0; i < p.num_stop; ++i) {
    DS_ASSIGN_OR_RETURN(const absl::string_view text,
                        TextOf(p.stop[i], absl::StrCat("stop ", i)));
    stops.emplace_back(text);
  }
  return absl::OkStatus();
}

absl::Status ReadEarlyStopping(int32_t value, GenerationChoice* c) {
  switch (value) {
    case DS_NOT_GIVEN:
      return absl::OkStatus();
    case 0:
      c->early_stopping = BeamParams::Stop::kHeuristic;
      return absl::OkStatus();
    case 1:
      c->early_stopping = BeamParams::Stop::kAtOnce;
      return absl::OkStatus();
    case 2:
      c->early_stopping = BeamParams::Stop::kNever;
      return absl::OkStatus();
    default:
      return Bad("early_stopping", absl::StrCat(value), "0, 1 or 2");
  }
}

template <typename T, typename Out>
void Write(const std::optional<T>& value, Out* out) {
  if (value.has_value()) *out = static_cast<Out>(*value);
}

// Lists that are empty are given, too.
template <typename T>
const T* Data(const std::vector<T>& list) {
  static const T kNone = {};
  return list.empty() ? &kNone : list.data();
}

}  // namespace

ds_generate_params DefaultGenerateParams() {
  ds_generate_params p = {};
  p.struct_size = sizeof(p);
  p.max_new_tokens = p.min_new_tokens = DS_NOT_GIVEN;
  p.sample = p.top_k = p.ignore_eos = DS_NOT_GIVEN;
  p.n = p.logprobs = p.num_beams = p.early_stopping = DS_NOT_GIVEN;
  p.temperature = p.top_p = p.min_p = p.typical_p = DS_NOT_GIVEN_REAL;
  p.repetition_penalty = p.presence_penalty = DS_NOT_GIVEN_REAL;
  p.frequency_penalty = p.length_penalty = DS_NOT_GIVEN_REAL;
  p.want_text = 1;
  return p;
}

absl::Status ReadGenerateParams(const ds_generate_params* given,
                                Question* question) {
  ds_generate_params p = DefaultGenerateParams();
  DS_RETURN_IF_ERROR(
      ReadStruct(given, kGenerateParamsBytes, "ds_generate_params", &p));
  GenerationChoice& c = question->choice;
  question->use_plan_defaults = p.ignore_plan_defaults == 0;
  question->want_text = p.want_text != 0;
  Read(p.max_new_tokens, &c.max_new_tokens);
  Read(p.min_new_tokens, &c.min_new_tokens);
  DS_RETURN_IF_ERROR(ReadFlag("sample", p.sample, &c.sample));
  DS_RETURN_IF_ERROR(ReadFlag("ignore_eos", p.ignore_eos, &c.ignore_eos));
  Read(p.temperature, &c.temperature);
  Read(p.top_k, &c.top_k);
  Read(p.top_p, &c.top_p);
  Read(p.min_p, &c.min_p);
  Read(p.typical_p, &c.typical_p);
  c.seed = p.seed;
  Read(p.repetition_penalty, &c.repetition_penalty);
  Read(p.presence_penalty, &c.presence_penalty);
  Read(p.frequency_penalty, &c.frequency_penalty);
  DS_RETURN_IF_ERROR(ReadLists(p, &c));
  Read(p.n, &c.n);
  if (c.n.has_value() && (*c.n < 1 || *c.n > kMostAnswers)) {
    return Bad("n", absl::StrCat(*c.n), absl::StrCat("1 to ", kMostAnswers));
  }
  Read(p.logprobs, &c.logprobs);
  if (c.logprobs.has_value() && *c.logprobs < 0) {
    return Bad("logprobs", absl::StrCat(*c.logprobs), "0 or above");
  }
  Read(p.num_beams, &c.beams);
  Read(p.length_penalty, &c.length_penalty);
  DS_RETURN_IF_ERROR(ReadEarlyStopping(p.early_stopping, &c));
  c.Settle();
  return absl::OkStatus();
}

GenerateParams::GenerateParams(const GenerationChoice& c)
    : params_(DefaultGenerateParams()) {
  Write(c.max_new_tokens, &params_.max_new_tokens);
  Write(c.min_new_tokens, &params_.min_new_tokens);
  Write(c.sample, &params_.sample);
  // A choice that joins several sources may have one's beams and another's
  // temperature: beams count.
  if (!c.sample.has_value() && c.beams.value_or(1) > 1) params_.sample = 0;
  Write(c.temperature, &params_.temperature);
  Write(c.top_k, &params_.top_k);
  Write(c.top_p, &params_.top_p);
  Write(c.min_p, &params_.min_p);
  Write(c.typical_p, &params_.typical_p);
  params_.seed = c.seed.value_or(0);
  Write(c.repetition_penalty, &params_.repetition_penalty);
  Write(c.presence_penalty, &params_.presence_penalty);
  Write(c.frequency_penalty, &params_.frequency_penalty);
  if (c.logit_bias.has_value()) {
    for (const LogitBias& b : *c.logit_bias) bias_.push_back({b.id, b.bias});
    params_.logit_bias = Data(bias_);
    params_.num_logit_bias = bias_.size();
  }
  if (c.suppress_tokens.has_value()) {
    params_.suppress_tokens = Data(*c.suppress_tokens);
    params_.num_suppress_tokens = c.suppress_tokens->size();
  }
  if (c.stop.has_value()) {
    for (const std::string& s : *c.stop) stop_.push_back({s.data(), s.size()});
    params_.stop = Data(stop_);
    params_.num_stop = stop_.size();
  }
  if (c.stop_ids.has_value()) {
    params_.stop_ids = Data(*c.stop_ids);
    params_.num_stop_ids = c.stop_ids->size();
  }
  Write(c.ignore_eos, &params_.ignore_eos);
  Write(c.n, &params_.n);
  Write(c.logprobs, &params_.logprobs);
  Write(c.beams, &params_.num_beams);
  Write(c.length_penalty, &params_.length_penalty);
  if (c.early_stopping.has_value()) {
    using Stop = BeamParams::Stop;
    params_.early_stopping = *c.early_stopping == Stop::kHeuristic ? 0
                             : *c.early_stopping == Stop::kAtOnce  ? 1
                                                                   : 2;
  }
}

}  // namespace deepslice
