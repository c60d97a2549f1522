// What is said about a generation, by a request, a command line and a plan, and
// which of them counts.
#ifndef DEEPSLICE_RUNTIME_GENERATION_CHOICE_H_
#define DEEPSLICE_RUNTIME_GENERATION_CHOICE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/request.h"
#include "schema/base/json.h"
#include "schema/plan_generated.h"

namespace deepslice {

// One source's word on it; what it does not say, the next one may:
// request > command line > generation_config.json in the plan > engine default.
struct GenerationChoice {
  // Default: greedy. A source that says nothing here but sets temperature,
  // top_k, top_p, min_p or typical_p says it by that: see Settle.
  std::optional<bool> sample;
  std::optional<float> temperature, top_p, min_p, typical_p;
  std::optional<int32_t> top_k;
  std::optional<uint64_t> seed;
  std::optional<float> repetition_penalty, presence_penalty, frequency_penalty;
  std::optional<std::vector<LogitBias>> logit_bias;
  std::optional<std::vector<int32_t>> suppress_tokens;  // never chosen
  std::optional<int64_t> max_new_tokens, min_new_tokens;
  std::optional<std::vector<std::string>> stop;  // texts
  std::optional<std::vector<int32_t>> stop_ids;  // beside those of the plan
  std::optional<bool> ignore_eos;                // those of the plan
  std::optional<int> n, logprobs, beams;
  std::optional<float> length_penalty;
  std::optional<BeamParams::Stop> early_stopping;

  // Fills `sample` where the others say it. Once per source.
  void Settle();
  // Takes what `lower`, a source that counts less, says and this one does not.
  // Beams and sampling exclude each other: who asks for one has no word of a
  // lower source on the other.
  void FillFrom(const GenerationChoice& lower);
};

// What the plan's generation_config.json says; nothing for nullptr.
GenerationChoice ChoiceOf(const fb::GenerationDefaults* defaults);

// What a request says as a JSON object, under the names of the OpenAI
// interface, of vLLM and of transformers. InvalidArgument, with the key, for a
// value of another type or out of range, for two names of one thing, and for a
// key that is neither one of them nor in `others`.
absl::StatusOr<GenerationChoice> ReadChoice(
    const json::Value& object, const std::vector<std::string>& others);

// Ids that end an answer: the plan's (the union of all that its checkpoint
// names) unless ignored, then the choice's.
std::vector<int32_t> StopIdsOf(const fb::Plan& plan,
                               const GenerationChoice& choice);

// A request without prompt, max_new_tokens and watchers, by a choice that has
// all sources' word. InvalidArgument for beams with sampling.
absl::StatusOr<Request> RequestOf(const fb::Plan& plan,
                                  const GenerationChoice& choice);

// Sequences that its answers take at once, where there is room.
inline int WidthOf(const GenerationChoice& choice) {
  const int beams = choice.beams.value_or(1);
  return beams > 1 ? beams : choice.n.value_or(1);
}

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_GENERATION_CHOICE_H_
