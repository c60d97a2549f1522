#include "tools/answer_json.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace deepslice {
namespace {

using json::Value;

constexpr double kMinusInfinity = -9999;

const char* Name(FinishReason finish) {
  switch (finish) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
  }
  return "";
}

Value LogprobJson(const TokenLogprob& t, const Tokenizer* tokenizer) {
  Value out = Value::Object();
  out.Set("id", int64_t{t.id});
  // Padded rows of a vocabulary have ids, but no text.
  if (tokenizer != nullptr && t.id < tokenizer->vocab_size()) {
    out.Set("token", tokenizer->IdToToken(t.id));
    out.Set("text",
            tokenizer->Decode({t.id}, /*skip_special=*/false).value_or(""));
  }
  out.Set("logprob", std::isfinite(t.logprob) ? static_cast<double>(t.logprob)
                                              : kMinusInfinity);
  return out;
}

Value AnswerJson(const Answer& a, int64_t index, bool beams,
                 const Tokenizer* tokenizer) {
  Value out = Value::Object();
  out.Set("index", index);
  out.Set("text", tokenizer == nullptr ? Value() : Value(a.text));
  Value& ids = out.Set("ids", Value::Array());
  for (const int32_t id : a.ids) ids.Add(int64_t{id});
  out.Set("finish_reason", Name(a.finish));
  out.Set("stop_reason", a.stop_string.has_value() ? Value(*a.stop_string)
                         : a.stop_id.has_value()   ? Value(int64_t{*a.stop_id})
                                                   : Value());
  if (beams) out.Set("score", a.score);
  if (!a.logprobs.empty()) {
    Value& list = out.Set("logprobs", Value::Array());
    for (const TokenLogprobs& t : a.logprobs) {
      Value& token = list.Add(LogprobJson(t.chosen, tokenizer));
      Value& top = token.Set("top_logprobs", Value::Array());
      for (const TokenLogprob& other : t.top) {
        top.Add(LogprobJson(other, tokenizer));
      }
    }
  }
  if (a.finish == FinishReason::kError) {
    out.Set("error", std::string(a.error.message()));
  }
  return out;
}

}  // namespace

Value AnswersJson(const std::vector<PromptAnswers>& prompts,
                  const std::string& plan_set_id, const Tokenizer* tokenizer,
                  absl::Duration total) {
  Value out = Value::Object();
  out.Set("schema_version", kAnswerSchemaVersion);
  out.Set("plan_set_id", plan_set_id);
  int64_t prompt_tokens = 0, new_tokens = 0;
  absl::Duration first;
  Value results = Value::Array();
  for (size_t i = 0; i < prompts.size(); ++i) {
    const PromptAnswers& p = prompts[i];
    Value& result = results.Add(Value::Object());
    result.Set("index", static_cast<int64_t>(i));
    if (p.line > 0) result.Set("line", p.line);
    result.Set("prompt_tokens", p.prompt_tokens);
    prompt_tokens += p.prompt_tokens;
    Value& answers = result.Set("answers", Value::Array());
    for (size_t j = 0; j < p.answers.size(); ++j) {
      const Answer& a = p.answers[j];
      answers.Add(AnswerJson(a, static_cast<int64_t>(j), p.beams, tokenizer));
      new_tokens += static_cast<int64_t>(a.ids.size());
      if (i == 0 && j == 0) first = a.first;
    }
  }
  out.Set("results", std::move(results));
  Value& usage = out.Set("usage", Value::Object());
  usage.Set("prompt_tokens", prompt_tokens);
  usage.Set("completion_tokens", new_tokens);
  usage.Set("total_tokens", prompt_tokens + new_tokens);
  Value& timings = out.Set("timings", Value::Object());
  const double seconds = absl::ToDoubleSeconds(total);
  if (first > absl::ZeroDuration()) {
    timings.Set("first_token_seconds", absl::ToDoubleSeconds(first));
  }
  timings.Set("total_seconds", seconds);
  timings.Set("tokens_per_second",
              seconds > 0 ? static_cast<double>(new_tokens) / seconds : 0.0);
  return out;
}

}  // namespace deepslice
