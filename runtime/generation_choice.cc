#include "runtime/generation_choice.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

namespace deepslice {
namespace {

template <typename T>
void Fill(std::optional<T>& mine, const std::optional<T>& lower) {
  if (!mine.has_value()) mine = lower;
}

}  // namespace

void GenerationChoice::Settle() {
  if (sample.has_value()) return;
  if (temperature == 0.0f) {
    sample = false;
  } else if (temperature.has_value() || top_k.has_value() ||
             top_p.has_value() || min_p.has_value() || typical_p.has_value()) {
    sample = true;
  }
}

void GenerationChoice::FillFrom(const GenerationChoice& lower) {
  const bool beams_asked = beams.value_or(1) > 1;
  const bool sampling_asked = sample.value_or(false);
  if (!beams_asked) Fill(sample, lower.sample);
  if (!sampling_asked) Fill(beams, lower.beams);
  Fill(temperature, lower.temperature);
  Fill(top_p, lower.top_p);
  Fill(min_p, lower.min_p);
  Fill(typical_p, lower.typical_p);
  Fill(top_k, lower.top_k);
  Fill(seed, lower.seed);
  Fill(repetition_penalty, lower.repetition_penalty);
  Fill(presence_penalty, lower.presence_penalty);
  Fill(frequency_penalty, lower.frequency_penalty);
  Fill(logit_bias, lower.logit_bias);
  Fill(suppress_tokens, lower.suppress_tokens);
  Fill(max_new_tokens, lower.max_new_tokens);
  Fill(min_new_tokens, lower.min_new_tokens);
  Fill(stop, lower.stop);
  Fill(stop_ids, lower.stop_ids);
  Fill(ignore_eos, lower.ignore_eos);
  Fill(n, lower.n);
  Fill(logprobs, lower.logprobs);
  Fill(length_penalty, lower.length_penalty);
  Fill(early_stopping, lower.early_stopping);
}

GenerationChoice ChoiceOf(const fb::GenerationDefaults* d) {
  GenerationChoice c;
  if (d == nullptr) return c;
  c.sample = d->do_sample();
  c.temperature = d->temperature();
  c.top_k = d->top_k();
  c.top_p = d->top_p();
  c.min_p = d->min_p();
  c.typical_p = d->typical_p();
  c.repetition_penalty = d->repetition_penalty();
  if (d->max_new_tokens() > 0) c.max_new_tokens = d->max_new_tokens();
  c.min_new_tokens = d->min_new_tokens();
  if (d->num_beams() > 1) c.beams = d->num_beams();
  c.length_penalty = d->length_penalty();
  c.early_stopping = static_cast<BeamParams::Stop>(d->early_stopping());
  c.n = std::max(1, d->num_return_sequences());
  if (d->suppress_tokens() != nullptr && d->suppress_tokens()->size() > 0) {
    c.suppress_tokens.emplace(d->suppress_tokens()->begin(),
                              d->suppress_tokens()->end());
  }
  return c;
}

std::vector<int32_t> StopIdsOf(const fb::Plan& plan,
                               const GenerationChoice& choice) {
  std::vector<int32_t> ids;
  const fb::GenerationDefaults* g = plan.generation();
  if (g != nullptr && g->eos_ids() != nullptr &&
      !choice.ignore_eos.value_or(false)) {
    for (const int32_t id : *g->eos_ids()) {
      if (id >= 0 && id < plan.vocab_size()) ids.push_back(id);
    }
  }
  if (choice.stop_ids.has_value()) {
    ids.insert(ids.end(), choice.stop_ids->begin(), choice.stop_ids->end());
  }
  return ids;
}

absl::StatusOr<Request> RequestOf(const fb::Plan& plan,
                                  const GenerationChoice& c) {
  Request r;
  r.sampling.greedy =
      !c.sample.value_or(false) || c.temperature.value_or(1.0f) == 0.0f;
  r.sampling.temperature = c.temperature.value_or(1.0f);
  r.sampling.top_k = c.top_k.value_or(0);
  r.sampling.top_p = c.top_p.value_or(1.0f);
  r.sampling.min_p = c.min_p.value_or(0.0f);
  r.sampling.typical_p = c.typical_p.value_or(1.0f);
  r.sampling.seed = c.seed.value_or(0);
  r.edits.repetition_penalty = c.repetition_penalty.value_or(1.0f);
  r.edits.presence_penalty = c.presence_penalty.value_or(0.0f);
  r.edits.frequency_penalty = c.frequency_penalty.value_or(0.0f);
  if (c.logit_bias.has_value()) r.edits.bias = *c.logit_bias;
  if (c.suppress_tokens.has_value()) {
    for (const int32_t id : *c.suppress_tokens) {
      r.edits.bias.push_back({id, -std::numeric_limits<float>::infinity()});
    }
  }
  r.min_new_tokens = c.min_new_tokens.value_or(0);
  r.stop_ids = StopIdsOf(plan, c);
  r.n = c.n.value_or(1);
  r.logprobs = c.logprobs.value_or(-1);
  r.beams.width = c.beams.value_or(1);
  r.beams.length_penalty = c.length_penalty.value_or(1.0f);
  r.beams.stop = c.early_stopping.value_or(BeamParams::Stop::kHeuristic);
  if (r.beams.width > 1 && c.stop.has_value() && !c.stop->empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("beam search of ", r.beams.width,
                     " beams takes no stop strings; ask for stop ids, or for "
                     "one beam"));
  }
  return r;
}

}  // namespace deepslice
