#include "tools/generation_flags.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "schema/base/status_macros.h"
#include "tools/cli_parse.h"

namespace deepslice {
namespace {

absl::Status Usage(absl::string_view text) {
  return absl::InvalidArgumentError(text);
}

// "5:1.5", or llama.cpp's "5+1.5" and "5-1.5".
absl::Status ParseBias(absl::string_view text, std::vector<LogitBias>* out) {
  const size_t end = text.find_first_of(":+-");
  LogitBias bias;
  if (end == absl::string_view::npos || end == 0 ||
      !absl::SimpleAtoi(text.substr(0, end), &bias.id) || bias.id < 0 ||
      !absl::SimpleAtof(text.substr(text[end] == ':' ? end + 1 : end),
                        &bias.bias) ||
      std::isnan(bias.bias)) {
    return Usage(absl::StrCat("--logit-bias: found \"", text,
                              "\"; write ID:BIAS, as 15:-2.5 or 15:-inf"));
  }
  out->push_back(bias);
  return absl::OkStatus();
}

// What single flags can't tell.
absl::Status CheckGeneration(const GenerationChoice& g) {
  for (const auto& [flag, p] : {std::make_pair("--top-p", g.top_p),
                                std::make_pair("--typical-p", g.typical_p)}) {
    if (p.has_value() && *p <= 0) {
      return Usage(absl::StrCat(
          flag, ": 0 leaves no token; give a number above it, up to 1"));
    }
  }
  if (g.repetition_penalty.has_value() && *g.repetition_penalty <= 0) {
    return Usage(
        "--repetition-penalty: found 0; give a number above it, 1 is off");
  }
  if (g.max_new_tokens.has_value() &&
      g.min_new_tokens.value_or(0) > *g.max_new_tokens) {
    return Usage(absl::StrCat("--min-new-tokens is ", *g.min_new_tokens,
                              ", above --max-new-tokens, ", *g.max_new_tokens));
  }
  const int beams = g.beams.value_or(1);
  if (beams > 1 && g.n.value_or(1) > beams) {
    return Usage(absl::StrCat("--answers is ", *g.n, ", above --beams, ", beams,
                              "; a beam gives one answer at most"));
  }
  if (g.stop.has_value()) {
    for (const std::string& s : *g.stop) {
      if (s.empty()) return Usage("--stop: an empty text stops nothing");
    }
  }
  return absl::OkStatus();
}

}  // namespace

GenerationFlags::GenerationFlags(CLI::App* app, GenerationChoice* choice)
    : app_(*app), choice_(*choice) {
  const size_t before = app_.get_options().size();
  AddEnds(*app);
  AddSampling(*app);
  AddAnswers(*app);
  options_ = app_.get_options();
  options_.erase(options_.begin(), options_.begin() + before);
}

void GenerationFlags::AddEnds(CLI::App& app) {
  GenerationChoice& g = choice_;
  app.add_option("-n,--max-new-tokens,--max-tokens,--predict", g.max_new_tokens,
                 "New tokens at most; default 128, or what the ceiling leaves")
      ->check(WholeNumber(1, kMostTokens));
  app.add_option("--min-new-tokens,--min-tokens", g.min_new_tokens,
                 "New tokens before which nothing ends an answer; default 0")
      ->check(WholeNumber(0, kMostTokens));
  app.add_option("--stop,--stop-string,--reverse-prompt,-r", stops_,
                 "Text that ends the answer, in front of it; can be repeated")
      ->allow_extra_args(false)
      ->type_name("TEXT");
  app.add_option("--stop-ids,--stop-token-ids", stop_ids_,
                 "Tokens that end the answer, beside the plan's: 5,6,7")
      ->allow_extra_args(false)
      ->type_name("IDS");
  app.add_flag_callback(
      "--ignore-eos", [&g] { g.ignore_eos = true; },
      "Go on behind the plan's end-of-sequence tokens");
  app.add_option("--logit-bias", biases_,
                 "Added to the logits of tokens: 15:-2.5,16:1; -inf is never; "
                 "can be repeated")
      ->allow_extra_args(false)
      ->type_name("ID:BIAS");
  app.add_option("--logprobs,--top-logprobs", g.logprobs,
                 "In the JSON, the log-probabilities of each token and of the "
                 "N likeliest in its place, as the model gives them")
      ->check(WholeNumber(0, 1 << 20));
}

void GenerationFlags::AddSampling(CLI::App& app) {
  GenerationChoice& s = choice_;
  const std::string group =
      "Sampling (without these the plan's generation defaults hold)";
  auto* greedy = app.add_flag_callback(
                        "--greedy", [&s] { s.sample = false; },
                        "Always the likeliest token")
                     ->group(group);
  app.add_option("--temperature,--temp", s.temperature,
                 "Flattens (above 1) or sharpens; 0 is greedy")
      ->check(RealNumber(0, 1e6))
      ->excludes(greedy)
      ->group(group);
  app.add_option("--top-k", s.top_k,
                 "Only the K likeliest tokens; 0 is all of them")
      ->check(WholeNumber(0, std::numeric_limits<int32_t>::max()))
      ->excludes(greedy)
      ->group(group);
  app.add_option("--top-p", s.top_p,
                 "Only the likeliest tokens that together reach P, in (0, 1]")
      ->check(RealNumber(0, 1))
      ->excludes(greedy)
      ->group(group);
  app.add_option("--min-p", s.min_p,
                 "Only tokens with P of the likeliest one's probability, in "
                 "[0, 1]; 0 is all of them")
      ->check(RealNumber(0, 1))
      ->excludes(greedy)
      ->group(group);
  app.add_option("--typical-p,--typical", s.typical_p,
                 "Only the tokens whose information is nearest to the "
                 "expected, that together reach P, in (0, 1]")
      ->check(RealNumber(0, 1))
      ->excludes(greedy)
      ->group(group);
  app.add_option("--seed", s.seed,
                 "Of the random numbers; the same seed gives the same text, "
                 "whatever else is in the batch; default 0")
      ->check(WholeNumber(0, std::numeric_limits<uint64_t>::max()))
      ->group(group);
  app.add_option("--repetition-penalty,--repeat-penalty", s.repetition_penalty,
                 "Divides the positive logits of tokens that were there, in "
                 "prompt or answer, multiplies the negative ones; 1 is off")
      ->check(RealNumber(0, 1e6))
      ->group(group);
  app.add_option("--frequency-penalty", s.frequency_penalty,
                 "Taken from a token's logit for each time that the answer has "
                 "it; 0 is off")
      ->check(RealNumber(-1e6, 1e6))
      ->group(group);
  app.add_option("--presence-penalty", s.presence_penalty,
                 "Taken from the logits of tokens that the answer has; 0 is "
                 "off")
      ->check(RealNumber(-1e6, 1e6))
      ->group(group);
}

void GenerationFlags::AddAnswers(CLI::App& app) {
  GenerationChoice& g = choice_;
  const std::string group = "Several answers";
  app.add_option("--answers,--num-return-sequences,--n", g.n,
                 "Answers to each prompt, with random numbers of their own; "
                 "with --beams the best ones; default 1")
      ->check(WholeNumber(1, 4096))
      ->group(group);
  auto* beams =
      app.add_option("--beams,--num-beams,--beam-width,--beam-size", g.beams,
                     "Beam search: the likeliest answer as a whole; so many "
                     "sequences run together; default 1, none")
          ->check(WholeNumber(1, 4096))
          ->group(group);
  for (const char* other : {"--temperature", "--top-k", "--top-p", "--min-p",
                            "--typical-p", "--stop", "--logprobs"}) {
    beams->excludes(app.get_option(other));
  }
  app.add_option("--length-penalty", g.length_penalty,
                 "A beam's score is the sum of its log-probabilities divided "
                 "by (number of tokens) ^ P; default 1")
      ->check(RealNumber(-1e3, 1e3))
      ->group(group);
  app.add_option_function<std::string>(
         "--early-stopping",
         [&g](const std::string& text) {
           g.early_stopping = text == "true"    ? BeamParams::Stop::kAtOnce
                              : text == "never" ? BeamParams::Stop::kNever
                                                : BeamParams::Stop::kHeuristic;
         },
         "With as many ended answers as beams, stop: true at once, false when "
         "the best beam scores no better now, never when none can any more; "
         "default false")
      ->check(CLI::IsMember({"true", "false", "never"}))
      ->type_name("WHEN")
      ->group(group);
}

void GenerationFlags::Clear() {
  biases_.clear();
  stop_ids_.clear();
  stops_.clear();
}

absl::Status GenerationFlags::ReadLists() {
  GenerationChoice& g = choice_;
  for (const std::string& text : biases_) {
    if (!g.logit_bias.has_value()) g.logit_bias.emplace();
    for (absl::string_view part : absl::StrSplit(text, ',')) {
      DS_RETURN_IF_ERROR(ParseBias(part, &*g.logit_bias));
    }
  }
  for (const std::string& text : stop_ids_) {
    if (!g.stop_ids.has_value()) g.stop_ids.emplace();
    for (absl::string_view part : absl::StrSplit(text, ',')) {
      int32_t id;
      if (!absl::SimpleAtoi(part, &id) || id < 0) {
        return Usage(absl::StrCat("--stop-ids: \"", part,
                                  "\" is no token id; write 5,6,7"));
      }
      g.stop_ids->push_back(id);
    }
  }
  // As typed: CLI11 makes no text of an empty one.
  const CLI::Option* stop = app_.get_option("--stop");
  if (stop->count() > 0) g.stop = stop->results();
  return absl::OkStatus();
}

absl::Status GenerationFlags::Finish() {
  DS_RETURN_IF_ERROR(ReadLists());
  DS_RETURN_IF_ERROR(CheckGeneration(choice_));
  choice_.Settle();
  return absl::OkStatus();
}

std::string GenerationFlags::Typed() const {
  for (const CLI::Option* o : options_) {
    if (o->count() > 0) return o->get_name();
  }
  return "";
}

}  // namespace deepslice
