#include "tools/dsrun_options.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/plan.h"
#include "schema/base/status_macros.h"
#include "tools/cli_parse.h"
#include "tools/command_line.h"

namespace deepslice {
namespace {

constexpr char kOverview[] =
    "dsrun [VERB] PLAN: runs a plan that dscompile made.\n"
    "Without a verb it generates; `dsrun VERB --help` tells the others' "
    "flags:\n"
    "  bench     how many tokens a second, reading and generating\n"
    "  chat      the same as --chat\n"
    "  tune      picks the GPU's matrix products ahead of the first run\n"
    "  tokenize  what a tokenizer makes of texts (PLAN or a tokenizer.json)";

constexpr char kRankHelp[] =
    "Ranks: a plan of several ranks is started whole by one dsrun, which ends "
    "when a rank\ndoes. Else each process is one rank, told by --rank R "
    "[--world-size W] [--local-rank L],\nor by the variables of torchrun, "
    "deepspeed, mpirun (Open MPI, MPICH, Intel MPI,\nMVAPICH2), srun or flux; "
    "--spawn N starts all N here in spite of them. --local_rank=N,\nwhich "
    "deepspeed adds, is accepted wherever it stands. Processes meet through\n"
    "MASTER_ADDR and MASTER_PORT where set, else through the launcher's job or "
    "the plan's\nname, on one host.\n"
    "Exit codes: 0 done, 1 failed, 2 usage, 3 bad input, 4 does not fit or "
    "unsupported,\n5 a rank failed, 130 interrupted. `-` and `_` in flags are "
    "alike.";

absl::Status Usage(absl::string_view text) {
  return absl::InvalidArgumentError(text);
}

void AddRunFlags(CLI::App& app, DsrunOptions& o) {
  app.add_option("PLAN", o.plan, "Plan folder")->required();
  app.add_option("--max-seq-len,--max-model-len,--max-out-tokens,"
                 "--max-total-tokens,--ctx-size,-c",
                 o.limits.max_seq_len,
                 "Ceiling of a sequence, prompt and answer, in tokens; default "
                 "the plan's")
      ->check(WholeNumber(1, kMostTokens));
  app.add_option("--max-batch,--max-batch-size,--max-num-seqs",
                 o.limits.max_batch,
                 "Ceiling of sequences that run together; default what the "
                 "work needs, at most the plan's")
      ->check(WholeNumber(1, kMostTokens));
  app.add_option("--max-step-tokens,--max-num-batched-tokens",
                 o.limits.max_step_tokens,
                 "Ceiling of tokens in a step; longer prompts run in chunks; "
                 "default the plan's")
      ->check(WholeNumber(1, kMostTokens));
  app.add_option("-t,--threads", o.threads,
                 "Threads of this rank; default cores / local ranks")
      ->check(WholeNumber(1, 1024));
  app.add_option_function<std::string>(
         "--device",
         [&o](const std::string& text) {
           ParseDevice(text, &o.device).IgnoreError();  // it was checked
         },
         "auto, cpu, cuda or cuda:N; default auto: a GPU that the plan was "
         "compiled for, else the CPU; of several ranks each takes its own GPU")
      ->check(CLI::Validator(
          [](std::string& text) {
            DeviceChoice any;
            return std::string(ParseDevice(text, &any).message());
          },
          ""))
      ->type_name("DEVICE");
  app.add_flag("--share-gpu", o.device.share_gpu,
               "All ranks on one GPU: slow, for tests");
  app.add_option_function<int64_t>(
         "--init-timeout",
         [&o](const int64_t& s) { o.device.init_timeout = absl::Seconds(s); },
         "Seconds that a rank waits for the others to come; default 60")
      ->check(WholeNumber(1, 86400))
      ->type_name("SECONDS");
  app.add_flag("--report-memory", o.report_memory,
               "Table of the memory that the plan foresaw and that was taken, "
               "to stderr");
  app.add_option("--profile", o.profile,
                 "File for the time of every step, as a Chrome trace "
                 "(chrome://tracing, ui.perfetto.dev); GPU only, and slower")
      ->type_name("FILE.json");
  app.footer(kRankHelp);
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

// What CLI11 reads as texts and parses no further.
struct TypedLists {
  std::vector<std::string> biases, stop_ids, stops;
};

absl::Status ParseLists(const TypedLists& lists, GenerationChoice& g) {
  for (const std::string& text : lists.biases) {
    if (!g.logit_bias.has_value()) g.logit_bias.emplace();
    for (absl::string_view part : absl::StrSplit(text, ',')) {
      DS_RETURN_IF_ERROR(ParseBias(part, &*g.logit_bias));
    }
  }
  for (const std::string& text : lists.stop_ids) {
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
  return absl::OkStatus();
}

void AddSamplingFlags(CLI::App& app, GenerationChoice& s) {
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

void AddBeamFlags(CLI::App& app, GenerationChoice& g) {
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

// What all verbs have in common.
absl::StatusOr<bool> ParseApp(CLI::App& app,
                              std::vector<std::string> arguments) {
  app.set_help_flag("-h,--help", "Print this and exit");
  app.set_version_flag(
      "--version", absl::StrCat("dsrun ", DEEPSLICE_VERSION, ", plan format ",
                                kPlanFormatVersion));
  return ReadCommandLine(
      app, std::move(arguments),
      {.flags = {"--rank", "--world-size", "--local-rank", "--spawn"},
       .verbs = {"bench", "chat", "tokenize", "tune"}});
}

absl::Status ParseIds(const std::string& text,
                      std::vector<std::vector<int32_t>>* out) {
  for (absl::string_view prompt : absl::StrSplit(text, ';')) {
    std::vector<int32_t>& ids = out->emplace_back();
    for (absl::string_view part :
         absl::StrSplit(prompt, absl::ByAnyChar(", "), absl::SkipEmpty())) {
      int32_t id;
      if (!absl::SimpleAtoi(part, &id) || id < 0) {
        return Usage(absl::StrCat("--prompt-ids: \"", part,
                                  "\" is no token id; write 5,6,7"));
      }
      ids.push_back(id);
    }
    if (ids.empty()) {
      return Usage("--prompt-ids: at least one id is needed; write 5,6,7");
    }
  }
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

absl::StatusOr<bool> ParseGenerate(std::vector<std::string> arguments,
                                   DsrunOptions& o) {
  CLI::App app(kOverview, "dsrun");
  std::optional<std::string> ids;
  AddRunFlags(app, o);
  auto* prompt = app.add_option("-p,--prompt", o.prompt,
                                "Text to go on from; - reads it from stdin, as "
                                "does a pipe where no work is named");
  auto* chat = app.add_flag("--chat", o.chat,
                            "Through the plan's chat template: one turn with "
                            "-p, else a conversation in the terminal");
  app.add_option("--system", o.system, "System message of the chat")
      ->needs(chat);
  auto* prompt_ids =
      app.add_option("--prompt-ids", ids,
                     "Token ids instead of a text: 5,6,7; several prompts "
                     "as '5,6,7;8,9', run as one batch")
          ->excludes(prompt)
          ->excludes(chat);
  auto* file = app.add_option("-f,--file", o.prompt_file,
                              "File whose text is the prompt")
                   ->excludes(prompt)
                   ->excludes(prompt_ids)
                   ->excludes(chat)
                   ->type_name("FILE");
  auto* prompts =
      app.add_option("--prompts", o.prompts,
                     "File with a prompt on each line, all run as one batch: "
                     "texts, or JSON objects (.jsonl) of \"prompt\" or "
                     "\"prompt_ids\" and fields such as \"temperature\", "
                     "which go before the flags; - is stdin")
          ->excludes(prompt)
          ->excludes(prompt_ids)
          ->excludes(chat)
          ->excludes(file)
          ->type_name("FILE");
  GenerationChoice& g = o.generation;
  app.add_option("-n,--max-new-tokens,--max-tokens,--predict", g.max_new_tokens,
                 "New tokens at most; default 128, or what the ceiling leaves")
      ->check(WholeNumber(1, kMostTokens));
  app.add_option("--min-new-tokens,--min-tokens", g.min_new_tokens,
                 "New tokens before which nothing ends an answer; default 0")
      ->check(WholeNumber(0, kMostTokens));
  app.add_option("--min-out-tokens", o.min_out_tokens,
                 "Refuse to start when a sequence, prompt and answer, can't "
                 "hold so many tokens")
      ->check(WholeNumber(1, kMostTokens));
  TypedLists lists;
  auto* stop =
      app.add_option("--stop,--stop-string,--reverse-prompt,-r", lists.stops,
                     "Text that ends the answer, in front of it; can be "
                     "repeated")
          ->allow_extra_args(false)
          ->type_name("TEXT");
  app.add_option("--stop-ids,--stop-token-ids", lists.stop_ids,
                 "Tokens that end the answer, beside the plan's: 5,6,7")
      ->allow_extra_args(false)
      ->type_name("IDS");
  app.add_flag_callback(
      "--ignore-eos", [&g] { g.ignore_eos = true; },
      "Go on behind the plan's end-of-sequence tokens");
  app.add_option("--logit-bias", lists.biases,
                 "Added to the logits of tokens: 15:-2.5,16:1; -inf is never; "
                 "can be repeated")
      ->allow_extra_args(false)
      ->type_name("ID:BIAS");
  app.add_flag("--ignore-generation-config", o.ignore_generation_config,
               "As if the checkpoint had had no generation_config.json, but "
               "for its end-of-sequence tokens");
  auto* print_ids =
      app.add_flag("--print-ids", o.print_ids,
                   "Print the new ids, commas between, a line for each answer, "
                   "instead of the text")
          ->excludes(chat);
  auto* json =
      app.add_flag("--json", o.json,
                   "Print one JSON document: text, ids, why each answer ended, "
                   "counts and times")
          ->excludes(chat);
  app.add_option("--logprobs,--top-logprobs", g.logprobs,
                 "In the JSON, the log-probabilities of each token and of the "
                 "N likeliest in its place, as the model gives them")
      ->check(WholeNumber(0, 1 << 20))
      ->needs(json);
  AddSamplingFlags(app, g);
  AddBeamFlags(app, g);
  app.get_option("--answers")->excludes(chat);
  const std::string group = "Instead of generating";
  auto* feed = app.add_option("--feed", o.feed,
                              "Safetensors file with input_ids and, for padded "
                              "rows, attention_mask: one forward pass")
                   ->excludes(prompt)
                   ->excludes(prompt_ids)
                   ->excludes(chat)
                   ->excludes(file)
                   ->excludes(prompts)
                   ->excludes(print_ids)
                   ->excludes(json)
                   ->group(group);
  feed->needs(app.add_option("--fetch", o.fetch,
                             "File for the logits of all positions, [batch, "
                             "seq, vocab]; masked ones are zero")
                  ->needs(feed)
                  ->group(group));
  auto* perplexity = app.add_option("--perplexity", o.perplexity,
                                    "Text file: print its perplexity")
                         ->excludes(feed)
                         ->excludes(prompt)
                         ->excludes(prompt_ids)
                         ->excludes(chat)
                         ->excludes(file)
                         ->excludes(prompts)
                         ->excludes(print_ids)
                         ->excludes(json)
                         ->group(group);
  app.add_option("--window", o.window,
                 "Tokens of a perplexity window, each from position 0")
      ->check(WholeNumber(1, kMostTokens))
      ->needs(perplexity)
      ->capture_default_str()
      ->group(group);
  DS_ASSIGN_OR_RETURN(const bool go_on, ParseApp(app, std::move(arguments)));
  if (!go_on) return false;
  if (ids.has_value()) DS_RETURN_IF_ERROR(ParseIds(*ids, &o.prompt_ids));
  DS_RETURN_IF_ERROR(ParseLists(lists, g));
  // As typed: CLI11 makes no text of an empty one.
  if (stop->count() > 0) g.stop = stop->results();
  DS_RETURN_IF_ERROR(CheckGeneration(g));
  g.Settle();
  return true;
}

absl::StatusOr<bool> ParseBench(std::vector<std::string> arguments,
                                DsrunOptions& o) {
  CLI::App app(
      "Measures a plan: tokens a second reading a prompt (prefill) and "
      "generating (decode).",
      "dsrun bench");
  AddRunFlags(app, o);
  app.add_option("-p,--prompt-tokens", o.bench_prompt,
                 "Tokens of the prompt, so of the context where decoding is "
                 "measured")
      ->check(WholeNumber(1, kMostTokens))
      ->capture_default_str();
  app.add_option("-n,--max-new-tokens", o.bench_new, "Tokens to generate")
      ->check(WholeNumber(2, kMostTokens))
      ->capture_default_str();
  app.add_option("-r,--repetitions", o.bench_runs,
                 "Runs that count, behind one that does not")
      ->check(WholeNumber(1, 10000))
      ->capture_default_str();
  app.add_option("-b,--batch", o.bench_batch,
                 "Sequences at once; rates are of all together")
      ->check(WholeNumber(1, 1 << 20))
      ->capture_default_str();
  std::string format = "text";
  app.add_option("-o,--output", format, "text, json or md")
      ->check(CLI::IsMember({"text", "json", "md"}))
      ->capture_default_str();
  DS_ASSIGN_OR_RETURN(const bool go_on, ParseApp(app, std::move(arguments)));
  o.bench_format = format == "json" ? DsrunOptions::Format::kJson
                   : format == "md" ? DsrunOptions::Format::kMarkdown
                                    : DsrunOptions::Format::kText;
  return go_on;
}

absl::StatusOr<bool> ParseTune(std::vector<std::string> arguments,
                               DsrunOptions& o) {
  CLI::App app(
      "Times the algorithms of a plan's matrix products on this GPU and keeps "
      "the choice ($XDG_CACHE_HOME/deepslice) for later runs, whose first "
      "start would do it else.",
      "dsrun tune");
  AddRunFlags(app, o);
  return ParseApp(app, std::move(arguments));
}

absl::StatusOr<bool> ParseTokenize(std::vector<std::string> arguments,
                                   DsrunOptions& o) {
  CLI::App app("Encodes and decodes a list of texts.", "dsrun tokenize");
  bool json = true;
  app.add_option("PLAN", o.plan, "Plan folder, or a tokenizer.json")
      ->required();
  app.add_option("--in", o.texts, "JSON file: a list of strings")->required();
  app.add_flag("--json", json,
               "Print a JSON list of {ids, ids_no_special, decoded, "
               "decoded_keep} (the one format there is)");
  return ParseApp(app, std::move(arguments));
}

}  // namespace

absl::StatusOr<std::optional<DsrunOptions>> ParseDsrunOptions(
    int argc, const char* const* argv) {
  DsrunOptions o;
  std::vector<std::string> words = NormalizedArguments(argc, argv);
  if (const auto text = TakeFlag("--spawned", &words)) {
    DS_ASSIGN_OR_RETURN(o.spawned, SpawnedRank::FromFlag(*text));
  }
  o.rank_flags.spawn = TakeFlag("--spawn", &words);
  o.arguments = words;
  o.rank_flags.rank = TakeFlag("--rank", &words);
  o.rank_flags.world_size = TakeFlag("--world-size", &words);
  o.rank_flags.local_rank = TakeFlag("--local-rank", &words);

  const std::string verb = words.empty() ? "" : words[0];
  if (verb == "bench" || verb == "tokenize" || verb == "chat" ||
      verb == "tune") {
    words.erase(words.begin());
  }
  bool go_on;
  if (verb == "bench") {
    o.verb = DsrunOptions::Verb::kBench;
    DS_ASSIGN_OR_RETURN(go_on, ParseBench(std::move(words), o));
  } else if (verb == "tune") {
    o.verb = DsrunOptions::Verb::kTune;
    DS_ASSIGN_OR_RETURN(go_on, ParseTune(std::move(words), o));
  } else if (verb == "tokenize") {
    o.verb = DsrunOptions::Verb::kTokenize;
    DS_ASSIGN_OR_RETURN(go_on, ParseTokenize(std::move(words), o));
  } else {
    // In front: what follows a `--` is no flag.
    if (verb == "chat") words.insert(words.begin(), "--chat");
    DS_ASSIGN_OR_RETURN(go_on, ParseGenerate(std::move(words), o));
  }
  if (!go_on) return std::nullopt;
  return o;
}

}  // namespace deepslice
