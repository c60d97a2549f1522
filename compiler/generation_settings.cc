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

 private:
  void Note(const std::string& text) {
    if (log_) log_(text);
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
  out.top_k = collect.Number(generation, "top_k", 0, 1 << 24, 0);
  out.top_p = collect.Number(generation, "top_p", 1e-6, 1, 1);
  return out;
}

}  // namespace deepslice
