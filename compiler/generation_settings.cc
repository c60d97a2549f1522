#include "compiler/generation_settings.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "absl/strings/str_format.h"
#include "runtime/text/tokenizer.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

class Collector {
 public:
  Collector(int64_t vocab_size,
            const std::function<void(const std::string&)>& log)
      : vocab_size_(vocab_size), log_(log) {}

  // One id, if it is one the model can produce.
  void Id(const json::Value* v, absl::string_view where,
          std::vector<int32_t>* out) {
    if (v == nullptr || v->is_null()) return;
    if (v->is_array()) {
      for (const json::Value& item : v->items()) Id(&item, where, out);
      return;
    }
    if (!v->is_int() || v->as_int() < 0 || v->as_int() >= vocab_size_) {
      // -1 is a common spelling of "none".
      if (v->is_int() && v->as_int() == -1) return;
      Note(absl::StrFormat("%s: %s is no id in [0, %d); left out", where,
                           json::Write(*v), vocab_size_));
      return;
    }
    out->push_back(static_cast<int32_t>(v->as_int()));
  }

  // `key` of the generation config, which must be whole.
  int64_t Whole(const json::Value& object, absl::string_view key, int64_t low,
                int64_t high, int64_t fallback) {
    const double x =
        Number(object, key, static_cast<double>(low), static_cast<double>(high),
               static_cast<double>(fallback));
    if (x == std::floor(x)) return static_cast<int64_t>(x);
    Note(
        absl::StrFormat("generation_config.json: %s: %g is no whole number; "
                        "left out",
                        key, x));
    return fallback;
  }

  // A number in [low, high], else `fallback`.
  double Number(const json::Value& object, absl::string_view key, double low,
                double high, double fallback) {
    const json::Value* v = object.Find(key);
    if (v == nullptr || v->is_null()) return fallback;
    if (v->is_number() && v->as_double() >= low && v->as_double() <= high) {
      return v->as_double();
    }
    Note(
        absl::StrFormat("generation_config.json: %s: %s is not in [%g, %g]; "
                        "left out",
                        key, json::Write(*v), low, high));
    return fallback;
  }

  // Notes each setting that transformers would follow and that has no place in
  // a plan, where it is not neutral.
  void Unknown(const json::Value& object) {
    static const struct {
      const char* key;
      double neutral;
    } kNumbers[] = {{"no_repeat_ngram_size", 0},
                    {"encoder_no_repeat_ngram_size", 0},
                    {"encoder_repetition_penalty", 1},
                    {"epsilon_cutoff", 0},
                    {"eta_cutoff", 0},
                    {"diversity_penalty", 0},
                    {"num_beam_groups", 1},
                    {"penalty_alpha", 0},
                    {"top_h", 0},
                    {"min_length", 0},
                    {"guidance_scale", 1}};
    for (const auto& [key, neutral] : kNumbers) {
      const json::Value* v = object.Find(key);
      if (v == nullptr || v->is_null()) continue;
      if (v->is_number() && v->as_double() == neutral) continue;
      NotKnown(key, *v);
    }
    for (const char* key :
         {"bad_words_ids", "force_words_ids", "constraints",
          "forced_bos_token_id", "forced_eos_token_id", "forced_decoder_ids",
          "begin_suppress_tokens", "sequence_bias", "stop_strings",
          "exponential_decay_length_penalty", "watermarking_config"}) {
      const json::Value* v = object.Find(key);
      if (v == nullptr || v->is_null()) continue;
      if (v->is_array() && v->items().empty()) continue;
      NotKnown(key, *v);
    }
  }

  void Note(const std::string& text) {
    if (log_) log_(text);
  }

 private:
  void NotKnown(absl::string_view key, const json::Value& value) {
    Note(absl::StrFormat(
        "generation_config.json: %s: %s is not supported; left out", key,
        json::Write(value)));
  }
  const int64_t vocab_size_;
  const std::function<void(const std::string&)>& log_;
};

}  // namespace

absl::StatusOr<GenerationSettings> MakeGenerationSettings(
    const Checkpoint& checkpoint, absl::string_view tokenizer_bytes,
    int64_t vocab_size, const std::function<void(const std::string&)>& log) {
  GenerationSettings out;
  Collector collect(vocab_size, log);
  const json::Value& generation = checkpoint.generation_config();
  const json::Value& config = checkpoint.config();
  collect.Id(generation.Find("eos_token_id"),
             "generation_config.json: eos_token_id", &out.eos_ids);
  collect.Id(config.Find("eos_token_id"), "config.json: eos_token_id",
             &out.eos_ids);
  std::vector<int32_t> bos, pad;
  collect.Id(generation.Find("bos_token_id"),
             "generation_config.json: bos_token_id", &bos);
  collect.Id(config.Find("bos_token_id"), "config.json: bos_token_id", &bos);
  collect.Id(generation.Find("pad_token_id"),
             "generation_config.json: pad_token_id", &pad);
  collect.Id(config.Find("pad_token_id"), "config.json: pad_token_id", &pad);
  if (!tokenizer_bytes.empty()) {
    DS_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                        Tokenizer::Load(tokenizer_bytes));
    if (tokenizer->eos_id() >= 0 && tokenizer->eos_id() < vocab_size) {
      out.eos_ids.push_back(tokenizer->eos_id());
    }
    if (tokenizer->bos_id() >= 0) bos.push_back(tokenizer->bos_id());
  }
  std::sort(out.eos_ids.begin(), out.eos_ids.end());
  out.eos_ids.erase(std::unique(out.eos_ids.begin(), out.eos_ids.end()),
                    out.eos_ids.end());
  if (!bos.empty()) out.bos_id = bos[0];
  if (!pad.empty()) out.pad_id = pad[0];

  const json::Value* sample = generation.Find("do_sample");
  out.do_sample = sample != nullptr && sample->is_bool() && sample->as_bool();
  out.temperature = collect.Number(generation, "temperature", 1e-3, 1e3, 1);
  out.top_k = collect.Whole(generation, "top_k", 0, 1 << 24, 0);
  out.top_p = collect.Number(generation, "top_p", 1e-6, 1, 1);
  out.min_p = collect.Number(generation, "min_p", 0, 1, 0);
  out.typical_p = collect.Number(generation, "typical_p", 1e-6, 1, 1);
  out.repetition_penalty =
      collect.Number(generation, "repetition_penalty", 1e-3, 1e3, 1);
  constexpr int64_t kMostTokens = 1 << 30;
  out.max_new_tokens =
      collect.Whole(generation, "max_new_tokens", 1, kMostTokens, 0);
  out.min_new_tokens =
      collect.Whole(generation, "min_new_tokens", 0, kMostTokens, 0);
  out.num_beams = collect.Whole(generation, "num_beams", 1, 1024, 1);
  out.num_return_sequences =
      collect.Whole(generation, "num_return_sequences", 1, 1024, 1);
  out.length_penalty =
      collect.Number(generation, "length_penalty", -1e3, 1e3, 1);
  const json::Value* early = generation.Find("early_stopping");
  if (early != nullptr && early->is_bool() && early->as_bool()) {
    out.early_stopping = 1;
  } else if (early != nullptr && early->is_string() &&
             early->as_string() == "never") {
    out.early_stopping = 2;
  }
  collect.Id(generation.Find("suppress_tokens"),
             "generation_config.json: suppress_tokens", &out.suppress_tokens);
  if (out.do_sample && out.num_beams > 1) {
    collect.Note(
        absl::StrFormat("generation_config.json: num_beams: %d with do_sample; "
                        "beams take no sampling; num_beams left out",
                        out.num_beams));
    out.num_beams = 1;
  }
  collect.Unknown(generation);
  return out;
}

}  // namespace deepslice
