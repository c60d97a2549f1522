// Requests as JSON objects.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "runtime/generation_choice.h"
#include "schema/base/nearest.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using json::Value;

template <typename... Text>
absl::Status Bad(const Text&... text) {
  return absl::InvalidArgumentError(absl::StrCat(text...));
}

absl::Status BadType(const Value& v, absl::string_view wanted) {
  return Bad("found ", json::KindName(v.kind()), "; ", wanted, " is needed");
}

absl::Status Read(const Value& v, std::optional<bool>* out) {
  if (!v.is_bool()) return BadType(v, "true or false");
  *out = v.as_bool();
  return absl::OkStatus();
}
absl::Status Read(const Value& v, std::optional<float>* out) {
  if (!v.is_number()) return BadType(v, "a number");
  *out = static_cast<float>(v.as_double());
  return absl::OkStatus();
}
template <typename Int>
absl::Status Read(const Value& v, std::optional<Int>* out) {
  if (!v.is_int()) return BadType(v, "a whole number");
  constexpr int64_t kMost =
      std::min<uint64_t>(std::numeric_limits<Int>::max(), INT64_MAX);
  if (v.as_int() < 0 || v.as_int() > kMost) {
    return Bad("found ", v.as_int(), "; 0 to ", kMost, " are allowed");
  }
  *out = static_cast<Int>(v.as_int());
  return absl::OkStatus();
}
absl::Status Read(const Value& v, std::optional<std::vector<int32_t>>* out) {
  if (!v.is_array()) return BadType(v, "an array of ids");
  out->emplace();
  for (const Value& item : v.items()) {
    std::optional<int32_t> id;
    DS_RETURN_IF_ERROR(Read(item, &id));
    (*out)->push_back(*id);
  }
  return absl::OkStatus();
}
// One text or an array of them.
absl::Status Read(const Value& v,
                  std::optional<std::vector<std::string>>* out) {
  out->emplace();
  const auto add = [&](const Value& item) -> absl::Status {
    if (!item.is_string()) return BadType(item, "a string");
    if (item.as_string().empty()) return Bad("an empty string stops nothing");
    (*out)->push_back(item.as_string());
    return absl::OkStatus();
  };
  if (!v.is_array()) return add(v);
  for (const Value& item : v.items()) DS_RETURN_IF_ERROR(add(item));
  return absl::OkStatus();
}
// {"id": bias}
absl::Status Read(const Value& v, std::optional<std::vector<LogitBias>>* out) {
  if (!v.is_object()) return BadType(v, "an object of ids and biases");
  out->emplace();
  for (const auto& [key, bias] : v.members()) {
    int32_t id;
    if (!absl::SimpleAtoi(key, &id) || id < 0) {
      return Bad("\"", key, "\" is no token id");
    }
    if (!bias.is_number()) return BadType(bias, "a number");
    (*out)->push_back({id, static_cast<float>(bias.as_double())});
  }
  return absl::OkStatus();
}
absl::Status Read(const Value& v, std::optional<BeamParams::Stop>* out) {
  if (v.is_bool()) {
    *out =
        v.as_bool() ? BeamParams::Stop::kAtOnce : BeamParams::Stop::kHeuristic;
  } else if (v.is_string() && v.as_string() == "never") {
    *out = BeamParams::Stop::kNever;
  } else {
    return BadType(v, "true, false or \"never\"");
  }
  return absl::OkStatus();
}

// The names of one field, the first one being ours.
struct Field {
  std::vector<std::string> names;
  std::function<absl::Status(const Value&, GenerationChoice*)> read;
};

template <typename T>
Field Of(std::vector<std::string> names, T GenerationChoice::*member) {
  return {std::move(names), [member](const Value& v, GenerationChoice* c) {
            return Read(v, &(c->*member));
          }};
}

const std::vector<Field>& Fields() {
  using C = GenerationChoice;
  static const auto* const kFields = new std::vector<Field>{
      Of({"do_sample"}, &C::sample),
      Of({"temperature"}, &C::temperature),
      Of({"top_p"}, &C::top_p),
      Of({"min_p"}, &C::min_p),
      Of({"typical_p"}, &C::typical_p),
      Of({"top_k"}, &C::top_k),
      Of({"seed"}, &C::seed),
      Of({"repetition_penalty", "repeat_penalty"}, &C::repetition_penalty),
      Of({"presence_penalty"}, &C::presence_penalty),
      Of({"frequency_penalty"}, &C::frequency_penalty),
      Of({"logit_bias"}, &C::logit_bias),
      Of({"suppress_tokens"}, &C::suppress_tokens),
      Of({"max_new_tokens", "max_tokens", "max_completion_tokens", "n_predict"},
         &C::max_new_tokens),
      Of({"min_new_tokens", "min_tokens"}, &C::min_new_tokens),
      Of({"stop", "stop_strings"}, &C::stop),
      Of({"stop_ids", "stop_token_ids"}, &C::stop_ids),
      Of({"ignore_eos"}, &C::ignore_eos),
      Of({"n", "num_return_sequences"}, &C::n),
      Of({"logprobs", "top_logprobs"}, &C::logprobs),
      Of({"beams", "num_beams", "beam_width", "beam_size"}, &C::beams),
      Of({"length_penalty"}, &C::length_penalty),
      Of({"early_stopping"}, &C::early_stopping)};
  return *kFields;
}

absl::Status UnknownKey(absl::string_view key,
                        const std::vector<std::string>& others) {
  std::vector<std::string> names = others;
  for (const Field& f : Fields()) {
    names.insert(names.end(), f.names.begin(), f.names.end());
  }
  const std::string nearest = NearestName(key, names);
  return Bad(
      "\"", key, "\" is no field of a request",
      nearest.empty() ? "" : absl::StrCat("; did you mean \"", nearest, "\"?"));
}

}  // namespace

absl::StatusOr<GenerationChoice> ReadChoice(
    const Value& object, const std::vector<std::string>& others) {
  if (!object.is_object()) return BadType(object, "an object");
  GenerationChoice choice;
  std::set<const Field*> seen;
  for (const auto& [key, value] : object.members()) {
    if (std::find(others.begin(), others.end(), key) != others.end()) continue;
    const auto& fields = Fields();
    const auto field = std::find_if(
        fields.begin(), fields.end(), [&name = key](const Field& f) {
          return std::find(f.names.begin(), f.names.end(), name) !=
                 f.names.end();
        });
    if (field == fields.end()) return UnknownKey(key, others);
    // null: as if it were not there.
    if (value.is_null()) continue;
    if (!seen.insert(&*field).second) {
      return Bad("\"", key, "\" is another name of a field that is there, too");
    }
    DS_RETURN_IF_ERROR(Annotate(field->read(value, &choice), "\"", key, "\""));
  }
  choice.Settle();
  return choice;
}

}  // namespace deepslice
