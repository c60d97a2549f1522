#include "tools/dsrun_verbs.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/plan.h"
#include "schema/base/status_macros.h"
#include "tools/cli_values.h"
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

class Generate : public DsrunVerb {
 public:
  explicit Generate(DsrunOptions* options)
      : DsrunVerb(kOverview, "dsrun", options) {
    AddRunFlags(app_, o_);
    auto* prompt =
        app_.add_option("-p,--prompt", o_.prompt,
                        "Text to go on from; - reads it from stdin, as "
                        "does a pipe where no work is named");
    auto* chat =
        app_.add_flag("--chat", o_.chat,
                      "Through the plan's chat template: one turn with "
                      "-p, else a conversation in the terminal");
    app_.add_option("--system", o_.system, "System message of the chat")
        ->needs(chat);
    AddTemplateFlags(app_, chat, o_);
    auto* prompt_ids =
        app_.add_option("--prompt-ids", ids_,
                        "Token ids instead of a text: 5,6,7; several prompts "
                        "as '5,6,7;8,9', run as one batch")
            ->excludes(prompt)
            ->excludes(chat);
    auto* file = app_.add_option("-f,--file", o_.prompt_file,
                                 "File whose text is the prompt")
                     ->excludes(prompt)
                     ->excludes(prompt_ids)
                     ->excludes(chat)
                     ->type_name("FILE");
    auto* prompts =
        app_.add_option(
                "--prompts", o_.prompts,
                "File with a prompt on each line, all run as one batch: "
                "texts, or JSON objects (.jsonl) of \"prompt\" or "
                "\"prompt_ids\" and fields such as \"temperature\", "
                "which go before the flags; - is stdin")
            ->excludes(prompt)
            ->excludes(prompt_ids)
            ->excludes(chat)
            ->excludes(file)
            ->type_name("FILE");
    app_.add_option("--min-out-tokens", o_.min_out_tokens,
                    "Refuse to start when a sequence, prompt and answer, can't "
                    "hold so many tokens")
        ->check(WholeNumber(1, kMostTokens));
    app_.add_flag("--ignore-generation-config", o_.ignore_generation_config,
                  "As if the checkpoint had had no generation_config.json, but "
                  "for its end-of-sequence tokens");
    auto* print_ids =
        app_.add_flag(
                "--print-ids", o_.print_ids,
                "Print the new ids, commas between, a line for each answer, "
                "instead of the text")
            ->excludes(chat);
    auto* json =
        app_.add_flag(
                "--json", o_.json,
                "Print one JSON document: text, ids, why each answer ended, "
                "counts and times")
            ->excludes(chat);
    generation_.emplace(&app_, &o_.generation);
    app_.get_option("--logprobs")->needs(json);
    app_.get_option("--answers")->excludes(chat);
    const std::string group = "Instead of generating";
    feed_ = app_.add_option("--feed", o_.feed,
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
    feed_->needs(
        app_.add_option("--fetch", o_.fetch,
                        "File for the logits of all positions, [batch, "
                        "seq, vocab], or for all outputs of an encoder; "
                        "masked positions are zero")
            ->needs(feed_)
            ->group(group));
    perplexity_ = app_.add_option("--perplexity", o_.perplexity,
                                  "Text file: print its perplexity")
                      ->excludes(feed_)
                      ->excludes(prompt)
                      ->excludes(prompt_ids)
                      ->excludes(chat)
                      ->excludes(file)
                      ->excludes(prompts)
                      ->excludes(print_ids)
                      ->excludes(json)
                      ->group(group);
    app_.add_option("--window", o_.window,
                    "Tokens of a perplexity window, each from position 0")
        ->check(WholeNumber(1, kMostTokens))
        ->needs(perplexity_)
        ->capture_default_str()
        ->group(group);
  }

 private:
  void Clear() override {
    ids_.reset();
    generation_->Clear();
  }
  absl::Status Finish() override {
    if (ids_.has_value()) {
      DS_RETURN_IF_ERROR(ParseIds(*ids_, &o_.prompt_ids));
    }
    DS_RETURN_IF_ERROR(generation_->Finish());
    for (const CLI::Option* other : {feed_, perplexity_}) {
      const std::string typed = generation_->Typed();
      if (other->count() == 0 || typed.empty()) continue;
      return Usage(absl::StrCat(typed, ": ", other->get_name(),
                                " generates nothing; leave one of them out"));
    }
    return absl::OkStatus();
  }
  std::optional<std::string> ids_;
  std::optional<GenerationFlags> generation_;
  CLI::Option* feed_ = nullptr;
  CLI::Option* perplexity_ = nullptr;
};

class Embed : public DsrunVerb {
 public:
  explicit Embed(DsrunOptions* options)
      : DsrunVerb(
            "Embeddings of texts or images by an encoder, as JSON: "
            "{\"pooling\", "
            "\"normalized\", \"data\": [{\"index\", \"tokens\", "
            "\"embedding\"}]}.",
            "dsrun embed", options) {
    AddTextFlags(app_, o_);
    app_.add_option(
            "--image", o_.images,
            "A PNG or JPEG file instead of a text, for models that take "
            "both; several are run together")
        ->excludes("--prompt")
        ->excludes("--file")
        ->type_name("FILE")
        ->allow_extra_args(false)
        ->take_all();
    app_.add_option("--pooling", o_.pooling,
                    "mean of the last hidden states, that of the first token "
                    "(cls), or the pooler's output; auto: as the checkpoint's "
                    "1_Pooling/config.json says, else mean")
        ->check(CLI::IsMember({"auto", "mean", "cls", "pooler"}))
        ->capture_default_str();
    app_.add_flag(
        "--normalize,!--no-normalize", o_.normalize,
        "Embeddings of length 1 (the default); --no-normalize: as they "
        "come");
  }
};

class Classify : public DsrunVerb {
 public:
  explicit Classify(DsrunOptions* options)
      : DsrunVerb(
            "Classes of texts, or of each of their tokens where the model has "
            "such a "
            "head, as JSON: {\"data\": [{\"index\", \"label\", \"score\", "
            "\"scores\"}]}.",
            "dsrun classify", options) {
    AddTextFlags(app_, o_);
    app_.add_option("--top-k", o_.top,
                    "So many of the best classes; default all")
        ->check(WholeNumber(1, kMostTokens));
  }
};

class FillMask : public DsrunVerb {
 public:
  explicit FillMask(DsrunOptions* options)
      : DsrunVerb(
            "The likeliest tokens in place of the mask token ([MASK], <mask>) "
            "in "
            "texts, as JSON: {\"data\": [{\"index\", \"masks\": "
            "[{\"position\", \"tokens\": [{\"token\", \"score\", "
            "\"sequence\"}]}]}]}.",
            "dsrun fill-mask", options) {
    AddTextFlags(app_, o_);
    app_.add_option("--top-k", o_.top,
                    "So many tokens for each mask; default 5")
        ->check(WholeNumber(1, kMostTokens));
  }
};

class Bench : public DsrunVerb {
 public:
  explicit Bench(DsrunOptions* options)
      : DsrunVerb(
            "Measures a plan: tokens a second reading a prompt (prefill) and "
            "generating (decode).",
            "dsrun bench", options) {
    AddRunFlags(app_, o_);
    app_.add_option("-p,--prompt-tokens", o_.bench_prompt,
                    "Tokens of the prompt, so of the context where decoding is "
                    "measured")
        ->check(WholeNumber(1, kMostTokens))
        ->capture_default_str();
    app_.add_option("-n,--max-new-tokens", o_.bench_new, "Tokens to generate")
        ->check(WholeNumber(2, kMostTokens))
        ->capture_default_str();
    app_.add_option("-r,--repetitions", o_.bench_runs,
                    "Runs that count, behind one that does not")
        ->check(WholeNumber(1, 10000))
        ->capture_default_str();
    app_.add_option("-b,--batch", o_.bench_batch,
                    "Sequences at once; rates are of all together")
        ->check(WholeNumber(1, 1 << 20))
        ->capture_default_str();
    app_.add_option("-o,--output", format_, "text, json or md")
        ->transform(OneOf({"text", "json", "md"}))
        ->capture_default_str();
  }

 private:
  void Clear() override { format_ = "text"; }
  absl::Status Finish() override {
    o_.bench_format = format_ == "json" ? DsrunOptions::Format::kJson
                      : format_ == "md" ? DsrunOptions::Format::kMarkdown
                                        : DsrunOptions::Format::kText;
    return absl::OkStatus();
  }
  std::string format_ = "text";
};

class Tune : public DsrunVerb {
 public:
  explicit Tune(DsrunOptions* options)
      : DsrunVerb(
            "Times the algorithms of a plan's matrix products on this GPU and "
            "keeps "
            "the choice ($XDG_CACHE_HOME/deepslice) for later runs, whose "
            "first "
            "start would do it else.",
            "dsrun tune", options) {
    AddRunFlags(app_, o_);
  }
};

class Template : public DsrunVerb {
 public:
  explicit Template(DsrunOptions* options)
      : DsrunVerb("Prints the prompt that a conversation becomes.",
                  "dsrun template", options) {
    app_.add_option(
            "PLAN", o_.plan,
            "Plan folder; or the file of a template, which then knows no "
            "special tokens")
        ->required();
    app_.add_option("--messages", o_.messages,
                    "JSON file: a list of {\"role\", \"content\", ...}, or an "
                    "object with \"messages\", \"tools\" and \"documents\"")
        ->required()
        ->type_name("FILE");
    app_.add_option("--tools", o_.tools, "JSON file: a list of tools")
        ->type_name("FILE");
    AddTemplateFlags(app_, nullptr, o_);
    app_.add_flag_callback(
        "--no-generation-prompt", [this] { o_.generation_prompt = false; },
        "Without what asks the model for an answer");
    app_.add_flag(
        "--print-ids", o_.print_ids,
        "Print the prompt's ids, commas between, instead of its text");
  }
};

class Selftest : public DsrunVerb {
 public:
  explicit Selftest(DsrunOptions* options)
      : DsrunVerb(
            "Tests a plan on this machine: every file against its digest, the "
            "tokenizer and the chat template on what the plan says they give, "
            "each "
            "kernel beside a reference in double precision, and the golden "
            "sequences "
            "that dscompile stored. Prints a line for each; the exit code is "
            "not 0 "
            "when one failed.",
            "dsrun selftest", options) {
    Selftest::Clear();
    AddRunFlags(app_, o_);
    app_.add_flag("--json", o_.json, "Print one JSON object, for programs");
  }

 private:
  // Rank 0 reads the files of all ranks first.
  void Clear() override { o_.device.init_timeout = absl::Hours(1); }
};

class Tokenize : public DsrunVerb {
 public:
  explicit Tokenize(DsrunOptions* options)
      : DsrunVerb("Encodes and decodes a list of texts.", "dsrun tokenize",
                  options) {
    app_.add_option("PLAN", o_.plan,
                    "Plan folder; or a tokenizer.json, tokenizer.model or "
                    "*.tiktoken, or a folder that holds one")
        ->required();
    auto* text = app_.add_option("-p,--prompt,--text", o_.texts_given,
                                 "A text; several make several results")
                     ->type_name("TEXT")
                     // Else CLI11 takes "[MASK]" for a list.
                     ->allow_extra_args(false)
                     ->take_all();
    app_.add_option("--in", o_.texts, "JSON file: a list of strings")
        ->excludes(text)
        ->type_name("FILE");
    app_.add_flag("--json", json_,
                  "Print a JSON list of {ids, ids_no_special, decoded, "
                  "decoded_keep} (the one format there is)");
    app_.add_option("--tiktoken-pattern", o_.tiktoken_pattern,
                    "For a file of ranks whose name does not say it: gpt2, "
                    "cl100k_base, o200k_base, llama3, qwen");
  }

 private:
  absl::Status Finish() override {
    if (!o_.texts.empty() || !o_.texts_given.empty()) return absl::OkStatus();
    return Usage(
        "nothing to tokenize: give -p TEXT, or --in FILE; see dsrun tokenize "
        "--help");
  }
  bool json_ = true;  // the one format there is
};

}  // namespace

DsrunVerb::DsrunVerb(const char* about, const char* name, DsrunOptions* options)
    : app_(about, name), o_(*options) {}

absl::StatusOr<bool> DsrunVerb::Read(std::vector<std::string> words) {
  Clear();
  // Behind the others in the help text.
  if (!has_help_) {
    has_help_ = true;
    app_.set_help_flag("-h,--help", "Print this and exit");
    app_.set_version_flag(
        "--version",
        VersionText(
            "dsrun",
            absl::StrCat("plan formats: reads 1 to ", kPlanFormatVersion,
                         ", writes none\ntargets: cpu; GPUs from sm_80 "
                         "on (a built-in list: dscompile --version asks "
                         "NVRTC)")));
  }
  DS_ASSIGN_OR_RETURN(
      const bool go_on,
      ReadCommandLine(
          app_, std::move(words),
          {.flags = {"--rank", "--world-size", "--local-rank", "--spawn"},
           .verbs = {"bench", "chat", "classify", "embed", "fill-mask",
                     "selftest", "template", "tokenize", "tune"}}));
  if (go_on) DS_RETURN_IF_ERROR(Finish());
  return go_on;
}

std::unique_ptr<DsrunVerb> MakeDsrunVerb(DsrunOptions::Verb verb,
                                         DsrunOptions* options) {
  switch (verb) {
    case DsrunOptions::Verb::kGenerate:
      break;
    case DsrunOptions::Verb::kBench:
      return std::make_unique<Bench>(options);
    case DsrunOptions::Verb::kClassify:
      return std::make_unique<Classify>(options);
    case DsrunOptions::Verb::kEmbed:
      return std::make_unique<Embed>(options);
    case DsrunOptions::Verb::kFillMask:
      return std::make_unique<FillMask>(options);
    case DsrunOptions::Verb::kSelftest:
      return std::make_unique<Selftest>(options);
    case DsrunOptions::Verb::kTemplate:
      return std::make_unique<Template>(options);
    case DsrunOptions::Verb::kTokenize:
      return std::make_unique<Tokenize>(options);
    case DsrunOptions::Verb::kTune:
      return std::make_unique<Tune>(options);
  }
  return std::make_unique<Generate>(options);
}

}  // namespace deepslice
