#include "tools/dsrun_options.h"

#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

absl::StatusOr<std::optional<DsrunOptions>> Parse(
    std::vector<const char*> words) {
  words.insert(words.begin(), "dsrun");
  return ParseDsrunOptions(static_cast<int>(words.size()), words.data());
}

DsrunOptions Good(std::vector<const char*> words) {
  auto options = Parse(std::move(words));
  EXPECT_TRUE(options.ok()) << options.status().ToString();
  if (!options.ok() || !options->has_value()) return {};
  return **options;
}

TEST(DsrunOptions, ReadsAGeneration) {
  const DsrunOptions o =
      Good({"my_plan", "--prompt_ids", "5,6,7", "--max-new-tokens", "12",
            "--greedy", "--ignore_eos", "--print-ids"});
  EXPECT_EQ(o.verb, DsrunOptions::Verb::kGenerate);
  EXPECT_EQ(o.plan, "my_plan");
  EXPECT_EQ(o.prompt_ids, (std::vector<std::vector<int32_t>>{{5, 6, 7}}));
  EXPECT_EQ(o.generation.max_new_tokens, 12);
  EXPECT_EQ(o.generation.sample, false);
  EXPECT_EQ(o.generation.ignore_eos, true);
  EXPECT_TRUE(o.print_ids);
  EXPECT_FALSE(o.chat);
  EXPECT_EQ(o.limits.max_batch, 0);
}

TEST(DsrunOptions, ALineKnowsNothingOfTheOneBefore) {
  DsrunCommandLine line;
  const auto parse = [&](std::vector<const char*> words) {
    words.insert(words.begin(), "dsrun");
    return line.Parse(static_cast<int>(words.size()), words.data());
  };
  DS_ASSERT_OK(
      parse({"plan", "--prompt-ids", "5,6", "--stop", "x", "--stop-ids", "3",
             "--logit-bias", "4:1", "--seed", "7", "--answers", "2", "--json"})
          .status());
  EXPECT_FALSE(parse({"plan", "--sed", "7"}).ok());
  EXPECT_FALSE(parse({"plan", "--feed", "a", "--seed", "1"}).ok());
  DS_ASSERT_OK_AND_ASSIGN(const std::optional<DsrunOptions> o,
                          parse({"plan2", "-n", "3"}));
  EXPECT_EQ(o->plan, "plan2");
  EXPECT_TRUE(o->prompt_ids.empty());
  EXPECT_FALSE(o->generation.stop.has_value());
  EXPECT_FALSE(o->generation.stop_ids.has_value());
  EXPECT_FALSE(o->generation.logit_bias.has_value());
  EXPECT_FALSE(o->generation.seed.has_value());
  EXPECT_FALSE(o->generation.n.has_value());
  EXPECT_FALSE(o->feed.has_value());
  EXPECT_FALSE(o->json);
  const auto bench = [&](std::vector<const char*> more) {
    more.insert(more.begin(), {"bench", "plan"});
    return (*parse(more))->bench_format;
  };
  EXPECT_EQ(bench({"-o", "json"}), DsrunOptions::Format::kJson);
  EXPECT_EQ(bench({}), DsrunOptions::Format::kText);
  EXPECT_EQ((*parse({"selftest", "plan"}))->device.init_timeout,
            absl::Hours(1));
  EXPECT_LT((*parse({"plan", "-p", "a"}))->device.init_timeout, absl::Hours(1));
}

TEST(DsrunOptions, ReadsSamplingUnderItsOtherNames) {
  const DsrunOptions o =
      Good({"plan", "-p", "a_b --c", "--temp", "0.5", "--top_k=40", "--top-p",
            "0.9", "--seed", "7", "--max_tokens", "3", "-c", "100"});
  EXPECT_EQ(o.prompt, "a_b --c");
  EXPECT_EQ(o.generation.sample, true);
  EXPECT_EQ(o.generation.temperature, 0.5f);
  EXPECT_EQ(o.generation.top_k, 40);
  EXPECT_EQ(o.generation.top_p, 0.9f);
  EXPECT_EQ(o.generation.seed, 7u);
  EXPECT_EQ(o.generation.max_new_tokens, 3);
  EXPECT_EQ(o.limits.max_seq_len, 100);
  EXPECT_FALSE(Good({"plan", "--seed", "7"}).generation.sample.has_value());
  EXPECT_EQ(Good({"plan", "--temp", "0"}).generation.sample, false);
}

TEST(DsrunOptions, ReadsTheRestOfAGeneration) {
  const DsrunOptions o = Good({"plan",
                               "--min-p",
                               "0.1",
                               "--typical",
                               "0.7",
                               "--repeat_penalty",
                               "1.1",
                               "--frequency-penalty",
                               "-0.5",
                               "--presence-penalty",
                               "0.25",
                               "--logit-bias",
                               "5:1.5,6-2",
                               "--logit-bias",
                               "7:-inf",
                               "--stop",
                               "a,b",
                               "-r",
                               "c d",
                               "--stop-token-ids",
                               "8,9",
                               "--min-tokens",
                               "2",
                               "--n",
                               "3",
                               "--json",
                               "--top-logprobs",
                               "4",
                               "--ignore-generation-config",
                               "--prompts",
                               "file.jsonl",
                               "--max_out_tokens",
                               "50",
                               "--min-out-tokens",
                               "40"});
  const GenerationChoice& g = o.generation;
  EXPECT_EQ(g.min_p, 0.1f);
  EXPECT_EQ(g.typical_p, 0.7f);
  EXPECT_EQ(g.sample, true);
  EXPECT_EQ(g.repetition_penalty, 1.1f);
  EXPECT_EQ(g.frequency_penalty, -0.5f);
  EXPECT_EQ(g.presence_penalty, 0.25f);
  ASSERT_EQ(g.logit_bias->size(), 3u);
  EXPECT_EQ((*g.logit_bias)[1].id, 6);
  EXPECT_EQ((*g.logit_bias)[1].bias, -2.0f);
  EXPECT_EQ((*g.logit_bias)[2].bias, -std::numeric_limits<float>::infinity());
  EXPECT_EQ(*g.stop, (std::vector<std::string>{"a,b", "c d"}));
  EXPECT_EQ(*g.stop_ids, (std::vector<int32_t>{8, 9}));
  EXPECT_EQ(g.min_new_tokens, 2);
  EXPECT_EQ(g.n, 3);
  EXPECT_EQ(g.logprobs, 4);
  EXPECT_TRUE(o.json);
  EXPECT_TRUE(o.ignore_generation_config);
  EXPECT_EQ(o.prompts, "file.jsonl");
  EXPECT_EQ(o.limits.max_seq_len, 50);
  EXPECT_EQ(o.min_out_tokens, 40);
  EXPECT_EQ(Good({"plan", "-f", "text"}).prompt_file, "text");
}

TEST(DsrunOptions, ReadsABeamSearch) {
  const GenerationChoice g =
      Good({"plan", "--num_beams", "4", "--num-return-sequences", "2",
            "--length-penalty", "-0.5", "--early-stopping", "never"})
          .generation;
  EXPECT_EQ(g.beams, 4);
  EXPECT_EQ(g.n, 2);
  EXPECT_EQ(g.length_penalty, -0.5f);
  EXPECT_EQ(g.early_stopping, BeamParams::Stop::kNever);
}

TEST(DsrunOptions, VerbsHaveTheirOwnFlags) {
  const DsrunOptions bench =
      Good({"bench", "plan", "-p", "64", "-n", "8", "-o", "json"});
  EXPECT_EQ(bench.verb, DsrunOptions::Verb::kBench);
  EXPECT_EQ(bench.bench_prompt, 64);
  EXPECT_EQ(bench.bench_new, 8);
  EXPECT_EQ(bench.bench_runs, 5);
  EXPECT_EQ(bench.bench_format, DsrunOptions::Format::kJson);
  EXPECT_EQ(Good({"bench", "plan", "-o", "md"}).bench_format,
            DsrunOptions::Format::kMarkdown);
  EXPECT_EQ(Good({"tune", "plan"}).verb, DsrunOptions::Verb::kTune);
  const DsrunOptions tokenize =
      Good({"tokenize", "plan", "--in", "texts.json", "--json"});
  EXPECT_EQ(tokenize.verb, DsrunOptions::Verb::kTokenize);
  EXPECT_EQ(tokenize.texts, "texts.json");
  EXPECT_EQ(Good({"tokenize", "plan", "-p", "a", "-p", "b"}).texts_given,
            (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(Good({"chat", "plan"}).chat);
  EXPECT_TRUE(Good({"plan", "--chat"}).chat);
}

TEST(DsrunOptions, ReadsSeveralPromptsOfIds) {
  EXPECT_EQ(
      Good({"plan", "--prompt-ids", "5,6,7;8;9 1", "--print-ids"}).prompt_ids,
      (std::vector<std::vector<int32_t>>{{5, 6, 7}, {8}, {9, 1}}));
}

TEST(DsrunOptions, ReadsWhichDevice) {
  using Kind = DeviceChoice::Kind;
  EXPECT_EQ(Good({"plan"}).device.kind, Kind::kAuto);
  EXPECT_EQ(Good({"plan", "--device", "cpu"}).device.kind, Kind::kCpu);
  const DeviceChoice any = Good({"plan", "--device", "cuda"}).device;
  EXPECT_EQ(any.kind, Kind::kCuda);
  EXPECT_EQ(any.ordinal, -1);
  const DeviceChoice third =
      Good({"bench", "plan", "--device=cuda:3", "--init-timeout", "7"}).device;
  EXPECT_EQ(third.kind, Kind::kCuda);
  EXPECT_EQ(third.ordinal, 3);
  EXPECT_EQ(third.init_timeout, absl::Seconds(7));
  EXPECT_EQ(Good({"plan", "--device", "2"}).device.ordinal, 2);
  EXPECT_TRUE(Good({"plan", "--share_gpu"}).device.share_gpu);
}

TEST(DsrunOptions, RankFlagsPassThroughAndAreKeptForRanksStartedHere) {
  const DsrunOptions o = Good({"plan", "-p", "x", "--local_rank=1"});
  EXPECT_EQ(o.rank_flags.local_rank, "1");
  EXPECT_FALSE(o.rank_flags.rank.has_value());
  EXPECT_EQ(o.arguments,
            (std::vector<std::string>{"plan", "-p", "x", "--local-rank=1"}));
  EXPECT_EQ(Good({"plan", "-p", "x", "--rank"}).rank_flags.rank, "");
  EXPECT_EQ(Good({"--rank", "2", "plan", "-p", "x"}).rank_flags.rank, "2");
}

TEST(DsrunOptions, RefusesWithOneLineThatHelps) {
  const auto refuses = [](std::vector<const char*> words,
                          absl::string_view part) {
    const auto got = Parse(std::move(words));
    DS_EXPECT_ERROR(got, kInvalidArgument, part);
    EXPECT_EQ(got.status().message().find('\n'), absl::string_view::npos);
  };
  refuses({}, "PLAN is required");
  refuses({"plan", "--temprature", "1"},
          "unknown flag --temprature; did you mean --temperature?");
  refuses({"--gredy"}, "did you mean --greedy?");
  refuses({"plan", "--rnk", "1"}, "did you mean --rank?");
  refuses({"plan", "other"}, "unexpected argument \"other\"");
  refuses({"plan", "-n", "many"}, "many");
  refuses({"plan", "-n", "0"}, "--max-new-tokens");
  refuses({"plan", "--prompt-ids", "5,x"}, "\"x\" is no token id");
  refuses({"plan", "--prompt-ids", "-4"}, "\"-4\" is no token id");
  refuses({"plan", "--prompt-ids", "4294967296"}, "is no token id");
  refuses({"plan", "--prompt-ids", ","}, "at least one id");
  refuses({"plan", "--prompt-ids", "5;", "--print-ids"}, "at least one id");
  refuses({"plan", "--beams", "2", "--top-p", "0.9"}, "--beams");
  refuses({"plan", "--beams", "2", "--stop", "x"}, "--beams");
  refuses({"plan", "--beams", "2", "--n", "3"},
          "--answers is 3, above --beams, 2");
  refuses({"plan", "--early-stopping", "soon"}, "soon");
  refuses({"plan", "--logprobs", "3"}, "--json");
  refuses({"plan", "--typical-p", "0"}, "--typical-p: 0 leaves no token");
  refuses({"plan", "--min-p", "2"}, "--min-p");
  refuses({"plan", "--repetition-penalty", "0"},
          "--repetition-penalty: found 0");
  refuses({"plan", "--logit-bias", "5"},
          "--logit-bias: found \"5\"; write ID:BIAS");
  refuses({"plan", "--logit-bias", "5:1,x:2"}, "--logit-bias: found \"x:2\"");
  refuses({"plan", "--logit-bias", "5:nan"}, "--logit-bias: found \"5:nan\"");
  refuses({"plan", "--stop-ids", "5,x"}, "--stop-ids: \"x\" is no token id");
  refuses({"plan", "--stop", ""}, "--stop: an empty text stops nothing");
  refuses({"plan", "-n", "3", "--min-tokens", "4"},
          "--min-new-tokens is 4, above --max-new-tokens, 3");
  refuses({"plan", "--chat", "--json"}, "--json");
  refuses({"plan", "--chat", "--answers", "2"}, "--answers");
  refuses({"plan", "--prompts", "x", "-p", "y"}, "--prompts");
  refuses({"plan", "--feed", "x", "--fetch", "y", "--min-p", "0.1"},
          "--min-p: --feed generates nothing");
  refuses({"plan", "--perplexity", "x", "--stop", "y"},
          "--stop: --perplexity generates nothing");
  refuses({"plan", "--device", "tpu"},
          "--device: found \"tpu\"; auto, cpu, cuda or cuda:N");
  refuses({"plan", "--device", "cuda:-1"}, "--device: found");
  refuses({"plan", "--seed", "-1"}, "--seed: found \"-1\"");
  refuses({"plan", "--temperature", "nan"}, "--temperature: found \"nan\"");
  refuses({"plan", "--top-p", "nan"}, "--top-p: found \"nan\"");
  // Clamped, it would count as the largest number there is.
  refuses({"bench", "plan", "-p", "99999999999999999999"},
          "--prompt-tokens: found \"99999999999999999999\"");
  refuses({"plan", "-t", "1025"}, "whole numbers from 1 to 1024");
  refuses({"tokenize", "plan"}, "nothing to tokenize: give -p TEXT, or --in");
  refuses({"tokenize", "plan", "-p", "a", "--in", "b"}, "--in");
  refuses({"serve", "plan"}, "unknown verb \"serve\"; there is no server");
  refuses({"run", "plan"}, "unknown verb \"run\"; without a verb");
  refuses({"plan", "bench"}, "unexpected argument \"bench\"; a verb comes");
  refuses({"plan", "verify"}, "\"verify\"; that is a verb of dsplan");
  refuses({"go", "/"}, "unknown verb \"go\"; allowed are bench, chat");
  refuses({"benhc", "plan"}, "unknown verb \"benhc\"; did you mean bench?");
  refuses({"plan", "--", "--greedy"}, "unexpected argument \"--greedy\"");
  refuses({"plan", "--greedy", "--top-k", "4"}, "--greedy");
  refuses({"plan", "--top-p", "1.5"}, "--top-p");
  refuses({"plan", "--top-p", "0"}, "--top-p");
  refuses({"plan", "--feed", "x"}, "--fetch");
  refuses({"plan", "--window", "4"}, "--perplexity");
  refuses({"plan", "-p", "x", "--system", "y"}, "--chat");
  refuses({"bench", "plan", "-o", "xml"}, "xml");
  refuses({"bench", "plan", "--greedy"}, "unknown flag --greedy");
  refuses({"plan", "--spawned=0/9"}, "--spawned=");
}

TEST(DsrunOptions, HelpAndVersionGoToStdout) {
  testing::internal::CaptureStdout();
  auto help = Parse({"--help"});
  const std::string help_text = testing::internal::GetCapturedStdout();
  DS_ASSERT_OK(help);
  EXPECT_FALSE(help->has_value());
  for (const char* part : {"--max-seq-len", "default 128", "--perplexity",
                           "bench", "Exit codes"}) {
    EXPECT_NE(help_text.find(part), std::string::npos) << part;
  }
  testing::internal::CaptureStdout();
  DS_ASSERT_OK(Parse({"bench", "--help"}));
  EXPECT_NE(testing::internal::GetCapturedStdout().find("--repetitions"),
            std::string::npos);
  testing::internal::CaptureStdout();
  DS_ASSERT_OK(Parse({"--version"}));
  EXPECT_EQ(testing::internal::GetCapturedStdout().rfind("dsrun ", 0), 0u);
}

}  // namespace
}  // namespace deepslice
