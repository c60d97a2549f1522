#include "tools/dsrun_options.h"

#include <CLI/CLI.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/plan.h"
#include "schema/base/status_macros.h"
#include "tools/cli_parse.h"
#include "tools/cli_values.h"
#include "tools/command_line.h"
#include "tools/generation_flags.h"
#include "tools/version.h"

namespace deepslice {
namespace {

constexpr char kOverview[] =
    "dsrun [VERB] PLAN: runs a plan that dscompile made.\n"
    "Without a verb it generates; `dsrun VERB --help` tells the others' "
    "flags:\n"
    "  bench     how many tokens a second, reading and generating\n"
    "  chat      the same as --chat\n"
    "  classify  the classes of texts, or of their tokens, as JSON\n"
    "  embed     embeddings of texts or images, as JSON\n"
    "  fill-mask what stands in place of a mask, as JSON\n"
    "  selftest  the plan's files, kernels, tokenizer and golden tokens here\n"
    "  template  the prompt that a conversation becomes\n"
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
    "alike, and every flag is\nalso read from the environment, --max-batch "
    "from DSRUN_MAX_BATCH; the command line\nwins.";

absl::Status Usage(absl::string_view text) {
  return absl::InvalidArgumentError(text);
}

void AddRunFlags(CLI::App& app, DsrunOptions& o) {
  app.add_option("PLAN,-m,--model", o.plan, "Plan folder")->required();
  app.add_option(
         "--max-seq-len,--max-model-len,--max-out-tokens,"
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
  app.add_option_function<double>(
         "--init-timeout",
         [&o](const double& s) { o.device.init_timeout = absl::Seconds(s); },
         absl::StrCat(
             "How long a rank waits for the others to come, as 30s, 2m "
             "or in seconds; default ",
             absl::ToInt64Seconds(o.device.init_timeout), "s"))
      ->transform(DurationSeconds(absl::Seconds(1), absl::Hours(24)))
      ->type_name("TIME");
  app.add_flag("--report-memory", o.report_memory,
               "Table of the memory that the plan foresaw and that was taken, "
               "to stderr");
  app.add_option("--profile", o.profile,
                 "File for the time of every step, as a Chrome trace "
                 "(chrome://tracing, ui.perfetto.dev); GPU only, and slower")
      ->type_name("FILE.json");
  AddVerbosityFlags(app, &o.verbosity);
  app.footer(kRankHelp);
}

// What all verbs have in common.
absl::StatusOr<bool> ParseApp(CLI::App& app,
                              std::vector<std::string> arguments) {
  app.set_help_flag("-h,--help", "Print this and exit");
  app.set_version_flag(
      "--version",
      VersionText("dsrun",
                  absl::StrCat("plan formats: reads 1 to ", kPlanFormatVersion,
                               ", writes none\ntargets: cpu; GPUs from sm_80 "
                               "on (a built-in list: dscompile --version asks "
                               "NVRTC)")));
  return ReadCommandLine(
      app, std::move(arguments),
      {.flags = {"--rank", "--world-size", "--local-rank", "--spawn"},
       .verbs = {"bench", "chat", "classify", "embed", "fill-mask", "selftest",
                 "template", "tokenize", "tune"}});
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

// What a chat template is told; `chat`: the flag that they need, or null.
void AddTemplateFlags(CLI::App& app, CLI::Option* chat, DsrunOptions& o) {
  auto* chosen = app.add_option(
      "--chat-template,--chat-template-file", o.chat_template,
      "Name of one of the plan's templates, or a file; default the plan's "
      "default");
  auto* args = app.add_option(
      "--template-args,--chat-template-kwargs", o.template_args,
      "JSON object of what the template may ask for beside the messages, "
      "such as {\"enable_thinking\": false}");
  if (chat == nullptr) return;
  chosen->needs(chat);
  args->needs(chat);
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
  AddTemplateFlags(app, chat, o);
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
  app.add_option("--min-out-tokens", o.min_out_tokens,
                 "Refuse to start when a sequence, prompt and answer, can't "
                 "hold so many tokens")
      ->check(WholeNumber(1, kMostTokens));
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
  GenerationFlags generation(&app, &o.generation);
  app.get_option("--logprobs")->needs(json);
  app.get_option("--answers")->excludes(chat);
  const std::string group = "Instead of generating";
  auto* feed = app.add_option("--feed", o.feed,
                              "Safetensors file with input_ids and, for padded "
                              "rows, attention_mask (for an encoder "
                              "token_type_ids, too): one forward pass")
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
                             "seq, vocab], or for all outputs of an encoder; "
                             "masked positions are zero")
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
  DS_RETURN_IF_ERROR(generation.Finish());
  for (const CLI::Option* other : {feed, perplexity}) {
    const std::string typed = generation.Typed();
    if (other->count() == 0 || typed.empty()) continue;
    return Usage(absl::StrCat(typed, ": ", other->get_name(),
                              " generates nothing; leave one of them out"));
  }
  return true;
}

// What the verbs of encoders have in common.
void AddTextFlags(CLI::App& app, DsrunOptions& o) {
  AddRunFlags(app, o);
  auto* text =
      app.add_option("-p,--prompt,--text", o.texts_given,
                     "A text; several are run together; - or none reads lines "
                     "from stdin")
          ->type_name("TEXT")
          // Else CLI11 takes "[MASK]" for a list.
          ->allow_extra_args(false)
          ->take_all();
  app.add_option("-f,--file", o.prompt_file,
                 "File with a text on each line, or a JSON list of texts")
      ->excludes(text)
      ->type_name("FILE");
  app.add_flag("--truncate", o.truncate,
               "Cut texts that are too long for the plan or the model, instead "
               "of refusing them");
}

absl::StatusOr<bool> ParseEmbed(std::vector<std::string> arguments,
                                DsrunOptions& o) {
  CLI::App app(
      "Embeddings of texts or images by an encoder, as JSON: {\"pooling\", "
      "\"normalized\", \"data\": [{\"index\", \"tokens\", "
      "\"embedding\"}]}.",
      "dsrun embed");
  AddTextFlags(app, o);
  app.add_option("--image", o.images,
                 "A PNG or JPEG file instead of a text, for models that take "
                 "both; several are run together")
      ->excludes("--prompt")
      ->excludes("--file")
      ->type_name("FILE")
      ->allow_extra_args(false)
      ->take_all();
  app.add_option("--pooling", o.pooling,
                 "mean of the last hidden states, that of the first token "
                 "(cls), or the pooler's output; auto: as the checkpoint's "
                 "1_Pooling/config.json says, else mean")
      ->check(CLI::IsMember({"auto", "mean", "cls", "pooler"}))
      ->capture_default_str();
  app.add_flag("--normalize,!--no-normalize", o.normalize,
               "Embeddings of length 1 (the default); --no-normalize: as they "
               "come");
  return ParseApp(app, std::move(arguments));
}

absl::StatusOr<bool> ParseClassify(std::vector<std::string> arguments,
                                   DsrunOptions& o) {
  CLI::App app(
      "Classes of texts, or of each of their tokens where the model has such a "
      "head, as JSON: {\"data\": [{\"index\", \"label\", \"score\", "
      "\"scores\"}]}.",
      "dsrun classify");
  AddTextFlags(app, o);
  app.add_option("--top-k", o.top, "So many of the best classes; default all")
      ->check(WholeNumber(1, kMostTokens));
  return ParseApp(app, std::move(arguments));
}

absl::StatusOr<bool> ParseFillMask(std::vector<std::string> arguments,
                                   DsrunOptions& o) {
  CLI::App app(
      "The likeliest tokens in place of the mask token ([MASK], <mask>) in "
      "texts, as JSON: {\"data\": [{\"index\", \"masks\": "
      "[{\"position\", \"tokens\": [{\"token\", \"score\", "
      "\"sequence\"}]}]}]}.",
      "dsrun fill-mask");
  AddTextFlags(app, o);
  app.add_option("--top-k", o.top, "So many tokens for each mask; default 5")
      ->check(WholeNumber(1, kMostTokens));
  return ParseApp(app, std::move(arguments));
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
      ->transform(OneOf({"text", "json", "md"}))
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

absl::StatusOr<bool> ParseTemplate(std::vector<std::string> arguments,
                                   DsrunOptions& o) {
  CLI::App app("Prints the prompt that a conversation becomes.",
               "dsrun template");
  app.add_option("PLAN", o.plan,
                 "Plan folder; or the file of a template, which then knows no "
                 "special tokens")
      ->required();
  app.add_option("--messages", o.messages,
                 "JSON file: a list of {\"role\", \"content\", ...}, or an "
                 "object with \"messages\", \"tools\" and \"documents\"")
      ->required()
      ->type_name("FILE");
  app.add_option("--tools", o.tools, "JSON file: a list of tools")
      ->type_name("FILE");
  AddTemplateFlags(app, nullptr, o);
  app.add_flag_callback(
      "--no-generation-prompt", [&o] { o.generation_prompt = false; },
      "Without what asks the model for an answer");
  app.add_flag("--print-ids", o.print_ids,
               "Print the prompt's ids, commas between, instead of its text");
  return ParseApp(app, std::move(arguments));
}

absl::StatusOr<bool> ParseSelftest(std::vector<std::string> arguments,
                                   DsrunOptions& o) {
  CLI::App app(
      "Tests a plan on this machine: every file against its digest, the "
      "tokenizer and the chat template on what the plan says they give, each "
      "kernel beside a reference in double precision, and the golden sequences "
      "that dscompile stored. Prints a line for each; the exit code is not 0 "
      "when one failed.",
      "dsrun selftest");
  // Rank 0 reads the files of all ranks first.
  o.device.init_timeout = absl::Hours(1);
  AddRunFlags(app, o);
  app.add_flag("--json", o.json, "Print one JSON object, for programs");
  return ParseApp(app, std::move(arguments));
}

absl::StatusOr<bool> ParseTokenize(std::vector<std::string> arguments,
                                   DsrunOptions& o) {
  CLI::App app("Encodes and decodes a list of texts.", "dsrun tokenize");
  bool json = true;
  app.add_option("PLAN", o.plan,
                 "Plan folder; or a tokenizer.json, tokenizer.model or "
                 "*.tiktoken, or a folder that holds one")
      ->required();
  auto* text = app.add_option("-p,--prompt,--text", o.texts_given,
                              "A text; several make several results")
                   ->type_name("TEXT")
                   ->expected(1)
                   ->take_all();
  app.add_option("--in", o.texts, "JSON file: a list of strings")
      ->excludes(text)
      ->type_name("FILE");
  app.add_flag("--json", json,
               "Print a JSON list of {ids, ids_no_special, decoded, "
               "decoded_keep} (the one format there is)");
  app.add_option("--tiktoken-pattern", o.tiktoken_pattern,
                 "For a file of ranks whose name does not say it: gpt2, "
                 "cl100k_base, o200k_base, llama3, qwen");
  DS_ASSIGN_OR_RETURN(const bool go_on, ParseApp(app, std::move(arguments)));
  if (go_on && o.texts.empty() && o.texts_given.empty()) {
    return absl::InvalidArgumentError(
        "nothing to tokenize: give -p TEXT, or --in FILE; see dsrun tokenize "
        "--help");
  }
  return go_on;
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
      verb == "selftest" || verb == "template" || verb == "tune" ||
      verb == "embed" || verb == "classify" || verb == "fill-mask") {
    words.erase(words.begin());
  }
  bool go_on;
  if (verb == "bench") {
    o.verb = DsrunOptions::Verb::kBench;
    DS_ASSIGN_OR_RETURN(go_on, ParseBench(std::move(words), o));
  } else if (verb == "selftest") {
    o.verb = DsrunOptions::Verb::kSelftest;
    DS_ASSIGN_OR_RETURN(go_on, ParseSelftest(std::move(words), o));
  } else if (verb == "tune") {
    o.verb = DsrunOptions::Verb::kTune;
    DS_ASSIGN_OR_RETURN(go_on, ParseTune(std::move(words), o));
  } else if (verb == "embed") {
    o.verb = DsrunOptions::Verb::kEmbed;
    DS_ASSIGN_OR_RETURN(go_on, ParseEmbed(std::move(words), o));
  } else if (verb == "classify") {
    o.verb = DsrunOptions::Verb::kClassify;
    DS_ASSIGN_OR_RETURN(go_on, ParseClassify(std::move(words), o));
  } else if (verb == "fill-mask") {
    o.verb = DsrunOptions::Verb::kFillMask;
    DS_ASSIGN_OR_RETURN(go_on, ParseFillMask(std::move(words), o));
  } else if (verb == "template") {
    o.verb = DsrunOptions::Verb::kTemplate;
    DS_ASSIGN_OR_RETURN(go_on, ParseTemplate(std::move(words), o));
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
