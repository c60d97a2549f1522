#include "compiler/config_window.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

using Windows = std::vector<int64_t>;

// As the families read their windows: all layers, or Qwen2's keys.
enum class Family { kNone, kMistral, kQwen2 };

absl::StatusOr<Windows> Describe(Family family, absl::string_view text,
                                 std::vector<std::string>* notes = nullptr) {
  DS_ASSIGN_OR_RETURN(const json::Value config, json::Parse(text));
  WindowValues values;
  if (family != Family::kNone) {
    values.size = FindConfig(config, "sliding_window");
  }
  if (family == Family::kQwen2) {
    values.enabled = FindConfig(config, "use_sliding_window");
    values.first_layer = FindConfig(config, "max_window_layers");
    values.layer_types = FindConfig(config, "layer_types");
  }
  std::vector<std::string> ignored;
  return DescribeWindows(values, 3, config,
                         notes == nullptr ? &ignored : notes);
}

void Expect(Family family, absl::string_view config, const Windows& want) {
  DS_ASSERT_OK_AND_ASSIGN(const Windows got, Describe(family, config));
  EXPECT_EQ(got, want) << std::string(config);
}

TEST(DescribeWindows, SlidesInEveryLayerOrNone) {
  Expect(Family::kMistral, R"({"sliding_window": 8})", {8, 8, 8});
  Expect(Family::kMistral, R"({"sliding_window": null})", {0, 0, 0});
  Expect(Family::kNone, R"({"sliding_window": 8})", {0, 0, 0});
}

TEST(DescribeWindows, SlidesFromTheFirstWindowLayerWhenSwitchedOn) {
  Expect(Family::kQwen2,
         R"({"sliding_window": 8, "use_sliding_window": true,
             "max_window_layers": 2})",
         {0, 0, 8});
  Expect(Family::kQwen2,
         R"({"sliding_window": 8, "use_sliding_window": false,
             "max_window_layers": 0})",
         {0, 0, 0});
  Expect(Family::kQwen2,
         R"({"sliding_window": null, "use_sliding_window": true,
             "max_window_layers": 0})",
         {0, 0, 0});
}

TEST(DescribeWindows, FollowsLayerTypesWhereTheFamilyReadsThem) {
  Expect(Family::kQwen2,
         R"({"sliding_window": 8, "use_sliding_window": true,
             "max_window_layers": 0, "layer_types": ["sliding_attention",
             "full_attention", "sliding_attention"]})",
         {8, 0, 8});
  DS_EXPECT_ERROR(Describe(Family::kQwen2,
                           R"({"use_sliding_window": false, "sliding_window": 8,
                               "layer_types": ["full_attention",
                               "sliding_attention", "full_attention"]})"),
                  kInvalidArgument,
                  "layer_types[1]: found \"sliding_attention\"; allowed: "
                  "\"full_attention\", as the config has no window");
}

// Seven layers of a family with a pattern, or with GPT-Neo's runs.
absl::StatusOr<Windows> DescribeSeven(bool runs, absl::string_view text) {
  DS_ASSIGN_OR_RETURN(const json::Value config, json::Parse(text));
  WindowValues values;
  values.size = {json::Value(8), "window_size"};
  if (runs) {
    values.attention_types = FindConfig(config, "attention_types");
  } else {
    values.pattern = FindConfig(config, "sliding_window_pattern");
    values.layer_types = FindConfig(config, "layer_types");
  }
  std::vector<std::string> notes;
  return DescribeWindows(values, 7, config, &notes);
}

TEST(DescribeWindows, LeavesOutEveryLayerOfThePattern) {
  EXPECT_EQ(*DescribeSeven(false, R"({"sliding_window_pattern": 3})"),
            (Windows{8, 8, 0, 8, 8, 0, 8}));
  EXPECT_EQ(*DescribeSeven(false, R"({"sliding_window_pattern": 1})"),
            (Windows{0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(*DescribeSeven(false, R"({"sliding_window_pattern": 2,
      "layer_types": ["full_attention", "full_attention", "sliding_attention",
      "full_attention", "full_attention", "full_attention",
      "full_attention"]})"),
            (Windows{0, 0, 8, 0, 0, 0, 0}));
  DS_EXPECT_ERROR(DescribeSeven(false, R"({"sliding_window_pattern": 0})"),
                  kInvalidArgument,
                  "sliding_window_pattern: found 0; allowed: an integer from");
}

TEST(DescribeWindows, ReadsRunsOfGlobalAndLocalLayers) {
  EXPECT_EQ(*DescribeSeven(true, R"({"attention_types":
      [[["global", "local"], 2], [["local"], 3]]})"),
            (Windows{0, 8, 0, 8, 8, 8, 8}));
  EXPECT_EQ(*DescribeSeven(true, R"({"attention_types": [[["local"], 7]],
      "attention_layers": ["local", "local", "local", "local", "local", "local",
      "local"]})"),
            (Windows{8, 8, 8, 8, 8, 8, 8}));
  const auto expect = [](absl::string_view config, absl::string_view part) {
    DS_EXPECT_ERROR(DescribeSeven(true, config), kInvalidArgument, part);
  };
  expect("{}", "attention_types: found none, which means 24 layers; allowed:");
  expect(R"({"attention_types": 3})", "attention_types: found 3; allowed: a l");
  for (const char* runs :
       {"[3]", "[[3, 7]]", R"([[["local"], "7"]])",
        R"([[["local"], 99999999]])", R"([[["local"], -1]])",
        R"([[["local"], 7, 7]])", R"([[["local"], 6]])",
        R"([[["local"], 7], [["local"], 7]])", R"([[[], 7]])", "[]"}) {
    expect(absl::StrCat(R"({"attention_types": )", runs, "}"),
           "attention_types: found [");
  }
  expect(R"({"attention_types": [[["locale"], 7]]})",
         "attention_types: found \"locale\"; allowed: \"global\" or");
  expect(R"({"attention_types": [[["global"], 7]], "attention_layers":
             ["global", "local", "global", "global", "global", "global",
             "global"]})",
         "attention_layers[1]: found \"local\"; allowed: the same as "
         "attention_types");
  expect(R"({"attention_types": [[["global"], 7]], "attention_layers":
             ["global"]})",
         "attention_layers[0]: found");
}

TEST(DescribeWindows, RefusesLayerTypesThatItWouldHaveToIgnore) {
  const char* mixed = R"({"sliding_window": 8, "layer_types":
      ["sliding_attention", "sliding_attention", "full_attention"]})";
  DS_EXPECT_ERROR(Describe(Family::kMistral, mixed), kUnimplemented,
                  "layer_types[2]: found \"full_attention\"");
  DS_EXPECT_ERROR(Describe(Family::kNone, mixed), kUnimplemented,
                  "layer_types[0]: found \"sliding_attention\"");
  Expect(Family::kMistral, R"({"sliding_window": 8, "layer_types":
      ["sliding_attention", "sliding_attention", "sliding_attention"]})",
         {8, 8, 8});
}

TEST(DescribeWindows, RefusesBadValues) {
  DS_EXPECT_ERROR(Describe(Family::kMistral, R"({"sliding_window": 0})"),
                  kInvalidArgument,
                  "sliding_window: found 0; allowed: an "
                  "integer from 1");
  DS_EXPECT_ERROR(
      Describe(Family::kNone, R"({"layer_types": ["full_attention"]})"),
      kInvalidArgument,
      "layer_types: found a list of 1; allowed: a list of 3, one for each");
  DS_EXPECT_ERROR(Describe(Family::kNone, R"({"layer_types": ["full_attention",
                               "linear_attention", "full_attention"]})"),
                  kUnimplemented, "found \"linear_attention\"");
}

TEST(DescribeWindows, NotesAWindowThatHasNoEffect) {
  std::vector<std::string> notes;
  DS_ASSERT_OK(Describe(Family::kNone, R"({"sliding_window": 8})", &notes));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0],
            "config.json: sliding_window 8 has no effect in this family");
  notes.clear();
  DS_ASSERT_OK(Describe(Family::kNone, R"({"sliding_window": null})", &notes));
  EXPECT_TRUE(notes.empty());
}

}  // namespace
}  // namespace deepslice
