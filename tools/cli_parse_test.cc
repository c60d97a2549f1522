// Flags as a person types them: other programs' names, the environment, values
// with units, help.
#include "tools/cli_parse.h"

#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "schema/base/status_matchers.h"
#include "tools/cli_environment.h"
#include "tools/cli_help.h"
#include "tools/cli_values.h"
#include "tools/flag_aliases.h"
#include "tools/foreign_words.h"

namespace deepslice {
namespace {

using Words = std::vector<std::string>;

// A command with a flag of each kind, and what it read.
struct Command {
  CLI::App app{"Does things.", "dstool"};
  std::string plan, format = "text";
  int tp = 1;
  bool force = false, greedy = false;
  double temperature = 1;
  int64_t memory = 0;
  double timeout = 60;

  Command() {
    app.add_option("PLAN,-m,--model", plan, "Plan folder")->required();
    app.add_option("--tp", tp, "Ranks")
        ->check(WholeNumber(1, 64))
        ->capture_default_str();
    app.add_flag("--force", force, "Replace");
    auto* g = app.add_flag("--greedy", greedy, "The likeliest");
    app.add_option("--temperature", temperature, "Flattens; default 1")
        ->check(RealNumber(0, 10))
        ->excludes(g);
    app.add_option("-o,--output", format, "How it prints")
        ->transform(OneOf({"text", "json", "md"}))
        ->capture_default_str();
    app.add_option("--memory", memory, "Of a card; default all")
        ->transform(ByteSize(1, int64_t{1} << 50));
    app.add_option("--timeout", timeout, "How long; default 60s")
        ->transform(DurationSeconds(absl::ZeroDuration(), absl::Hours(24)));
    app.add_flag("--hidden", force, "Never shown")->group("");
  }
  absl::Status Read(Words words) {
    return ReadCommandLine(app, std::move(words)).status();
  }
};

TEST(Aliases, PeersNamesMeanOurFlags) {
  for (const Words& words :
       {Words{"p", "--tp", "4"}, Words{"p", "--tensor-parallel-size", "4"},
        Words{"p", "--num-shard=4"}, Words{"p", "-tp", "4"},
        Words{"p", "-tp=4"}, Words{"--model-id", "p", "--mp-size", "4"}}) {
    Command c;
    DS_ASSERT_OK(c.Read(words));
    EXPECT_EQ(c.tp, 4) << words.back();
    EXPECT_EQ(c.plan, "p");
  }
  Command c;
  DS_ASSERT_OK(c.Read({"p", "--temp", "0.5", "--outfile", "md"}));
  EXPECT_EQ(c.temperature, 0.5);
  EXPECT_EQ(c.format, "md");
}

TEST(Aliases, AreOnesThatNoOtherFlagHas) {
  std::map<absl::string_view, absl::string_view> flags;
  absl::string_view last;
  for (const FlagAlias& a : FlagAliases()) {
    EXPECT_LE(last, a.flag);
    last = a.flag;
    EXPECT_TRUE(flags.emplace(a.alias, a.flag).second) << a.alias;
    // NormalizedArguments has made dashes of them.
    EXPECT_EQ(a.alias.find('_'), absl::string_view::npos) << a.alias;
  }
}

TEST(Aliases, StopAtDashesAndSpareOwnNames) {
  Words words = {"--temp", "1", "--", "-tp", "2"};
  ReplaceAliases([](const std::string& n) { return n == "temperature"; },
                 &words);
  EXPECT_EQ(words, (Words{"--temperature", "1", "--", "-tp", "2"}));
  // A command may have a flag of that name, with a meaning of its own.
  words = {"--batch-size", "1"};
  ReplaceAliases(
      [](const std::string& n) { return n == "batch" || n == "batch-size"; },
      &words);
  EXPECT_EQ(words, (Words{"--batch-size", "1"}));
}

TEST(ForeignFlags, AreAnsweredWithHowItIsDoneHere) {
  const auto refuses = [](Words words, absl::string_view part) {
    Command c;
    DS_EXPECT_ERROR(c.Read(std::move(words)), kInvalidArgument, part);
  };
  refuses({"p", "--port", "8000"}, "unknown flag --port; there is no server");
  refuses({"p", "--port=8000"}, "unknown flag --port; there is no server");
  refuses({"p", "-ngl", "99"}, "unknown flag -ngl; a plan runs whole");
  refuses({"p", "-i"}, "unknown flag -i; --chat");
  refuses({"p", "--quantization", "awq"}, "--quantization; the plan has its");
  // What a command has is its own to explain, and so is all behind dashes.
  refuses({"p", "-tp", "x"}, "--tp: found \"x\"");
  refuses({"p", "--", "--port"}, "--port");
  Command c;
  const absl::Status behind = c.Read({"p", "--", "--port"});
  EXPECT_FALSE(absl::StrContains(behind.message(), "server")) << behind;
}

TEST(ForeignFlags, HaveNoCounterpartUnderTheirName) {
  for (const char* known : {"", "-", "--", "-p", "--greedy", "plan", "port"}) {
    EXPECT_EQ(AnswerToFlag(known), "") << known;
  }
  EXPECT_NE(AnswerToFlag("--num-shard=2"), "");
  EXPECT_EQ(AnswerToVerb("bench"), "");
}

TEST(Environment, GivesWhatTheCommandLineDoesNot) {
  const std::map<std::string, std::string> variables = {
      {"DSTOOL_TP", "4"},      {"DSTOOL_FORCE", "true"},
      {"DSTOOL_OUTPUT", "md"}, {"DSTOOL_TEMPERATURE", "0.5"},
      {"DSTOOL_HELP", "1"},    {"DSTOOL_TIMEOUT", ""}};
  const auto get = [&](const char* name) -> const char* {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  };
  Command c;
  Words words = {"p", "-ojson", "--greedy", "--", "x"};
  const auto used = AddFromEnvironment(c.app, get, &words);
  DS_ASSERT_OK(used);
  // --greedy rules the temperature out; the command line wins.
  EXPECT_EQ(*used, (Words{"DSTOOL_TP", "DSTOOL_FORCE"}));
  EXPECT_EQ(words,
            (Words{"p", "-ojson", "--greedy", "--tp=4", "--force", "--", "x"}));
}

TEST(Environment, RefusesSwitchesThatAreNeitherOnNorOff) {
  Command c;
  Words words = {"p"};
  const auto on = [](const char* name) -> const char* {
    return std::string(name) == "DSTOOL_FORCE" ? "maybe" : nullptr;
  };
  DS_EXPECT_ERROR(AddFromEnvironment(c.app, on, &words), kInvalidArgument,
                  "DSTOOL_FORCE: found \"maybe\"; allowed are 1 and 0");
  const auto off = [](const char* name) -> const char* {
    return std::string(name) == "DSTOOL_FORCE" ? "off" : nullptr;
  };
  const auto used = AddFromEnvironment(c.app, off, &words);
  DS_ASSERT_OK(used);
  EXPECT_TRUE(used->empty());
}

TEST(Environment, ErrorsNameTheVariable) {
  setenv("DSTOOL_TP", "many", 1);
  Command c;
  const absl::Status status = c.Read({"p"});
  unsetenv("DSTOOL_TP");
  EXPECT_TRUE(absl::StrContains(status.message(), "found \"many\"")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "DSTOOL_TP")) << status;
}

TEST(Values, EnumsHintAtTheNearest) {
  Command c;
  DS_EXPECT_ERROR(c.Read({"p", "-o", "jsno"}), kInvalidArgument,
                  "found \"jsno\"; allowed are text, json, md; did you mean "
                  "json?");
  Command upper;
  DS_ASSERT_OK(upper.Read({"p", "-o", "JSON"}));
  EXPECT_EQ(upper.format, "json");
}

TEST(Values, SizesHaveUnits) {
  const std::pair<const char*, int64_t> cases[] = {{"0", 0},
                                                   {"4096", 4096},
                                                   {"80GiB", 80LL << 30},
                                                   {"80G", 80LL << 30},
                                                   {"80 GB", 80000000000},
                                                   {"80gb", 80000000000},
                                                   {"80e9", 80000000000},
                                                   {"1.5k", 1536},
                                                   {"2T", 2LL << 40},
                                                   {"3M", 3 << 20},
                                                   {"5kB", 5000}};
  for (const auto& [text, bytes] : cases) {
    const auto got = ParseByteSize(text);
    DS_ASSERT_OK(got);
    EXPECT_EQ(*got, bytes) << text;
  }
  for (const char* bad : {"", "G", "-1", "80Q", "1..2", "1e", "1e30", "nan",
                          "0x10", "80 exbibytes", "9e99T"}) {
    DS_EXPECT_ERROR(ParseByteSize(bad), kInvalidArgument, "80GiB, 80G, 80e9");
  }
  Command c;
  DS_ASSERT_OK(c.Read({"p", "--memory", "80GiB"}));
  EXPECT_EQ(c.memory, 80LL << 30);
}

TEST(Values, TimesHaveUnits) {
  for (const auto& [text, want] :
       {std::make_pair("30s", absl::Seconds(30)),
        std::make_pair("500ms", absl::Milliseconds(500)),
        std::make_pair("1h30m", absl::Minutes(90)),
        std::make_pair("45", absl::Seconds(45)),
        std::make_pair("0.5", absl::Milliseconds(500))}) {
    const auto got = ParseDurationText(text);
    DS_ASSERT_OK(got);
    EXPECT_EQ(*got, want) << text;
  }
  for (const char* bad : {"", "-1s", "soon", "inf", "nan", "5 parsecs"}) {
    DS_EXPECT_ERROR(ParseDurationText(bad), kInvalidArgument, "30s, 2m");
  }
  Command c;
  DS_ASSERT_OK(c.Read({"p", "--timeout", "2m"}));
  EXPECT_EQ(c.timeout, 120);
  DS_EXPECT_ERROR(c.Read({"p", "--timeout", "25h"}), kInvalidArgument,
                  "allowed are 0 to 24h");
}

TEST(Help, ShowsDefaultsOtherNamesAndNothingHidden) {
  Command c;
  const std::string text = HelpText(c.app);
  for (const char* part :
       {"usage: dstool [flags] PLAN", "Plan folder", "default 1",
        "-o, --output", "default text", "--num-shard", "not with --greedy"}) {
    EXPECT_TRUE(absl::StrContains(text, part)) << part << "\n" << text;
  }
  EXPECT_FALSE(absl::StrContains(text, "--hidden"));
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != text.npos;
       begin = end + 1) {
    EXPECT_LE(end - begin, 80u) << text.substr(begin, end - begin);
  }
  const std::string json = json::Write(HelpJson(c.app));
  EXPECT_TRUE(absl::StrContains(json, "\"--tp\",\"--mp-size\"")) << json;
}

TEST(Help, UnknownFlagsHintAtOtherProgramsNames) {
  Command c;
  DS_EXPECT_ERROR(c.Read({"p", "--num-shards", "2"}), kInvalidArgument,
                  "did you mean --num-shard?");
  const absl::Status hidden = c.Read({"p", "--hiddenn"});
  EXPECT_FALSE(absl::StrContains(hidden.message(), "--hidden?")) << hidden;
}

}  // namespace
}  // namespace deepslice
