// Every row of limits.def: what is allowed at its edge is read, what is beyond
// is refused with the limit's number. This file: checkpoints, JSON and graphs.
#include "schema/base/limits.h"

#include <unistd.h>

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/checkpoint/gguf.h"
#include "compiler/checkpoint/gguf_checkpoint.h"
#include "compiler/checkpoint/pickle.h"
#include "compiler/checkpoint/safetensors.h"
#include "compiler/checkpoint/shard_index.h"
#include "compiler/checkpoint/side_files.h"
#include "compiler/checkpoint/test_files.h"
#include "compiler/checkpoint/zip_archive.h"
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "schema/base/file.h"
#include "tests/limits/edge.h"

namespace deepslice {
namespace {

// Rows that bound work rather than size: the tests named here reach them, where
// one step more or less can't be counted out.
constexpr absl::string_view kWork[] = {
    "RegexHeapBytes",        // pcre_regex_test: no stack, bounded heap
    "RegexStepsPerMatcher",  // pcre_regex_test: backtracking without bound
    "RegexStepsPerByte",     // the same
    "StepTextPerByte",       // text_allowance_test: steps that multiply a text
    "PlanDepth",             // plan.fbs is not as deep; the verifier's bound
    "PlanTables",            // a plan of PlanBytes has fewer
    "TokenizerModelBytes",   // the reader of tokenizer.model
    "TemplateSteps",         // chat_template_test: loops without end
    "TemplateDepth",         // chat_template_test: macros that call themselves
    "TemplateOperators",     // chat_template_test: chains of operators
    "TemplateValueDepth",    // chat_template_test: lists in each other
};

absl::Status Gguf(const GgufBuilder& b) {
  return ReadGguf(b.Build(), "m.gguf").status();
}

absl::Status GgufCounts(uint64_t tensors, uint64_t keys, size_t size) {
  Zeros file(size);
  file.Write(
      0, absl::StrCat("GGUF", Bytes<uint32_t>(3), Bytes(tensors), Bytes(keys)));
  return ReadGguf(file.view(), "m.gguf").status();
}

// A model with one attribute of that value.
absl::Status GgufAttribute(absl::string_view key, int64_t value) {
  GgufBuilder b;
  b.Text("general.architecture", "llama");
  for (const absl::string_view k :
       {"embedding_length", "block_count", "feed_forward_length",
        "attention.head_count", "context_length", "vocab_size"}) {
    b.Key(absl::StrCat("llama.", k), 10,
          Bytes<uint64_t>(k == key                  ? value
                          : k == "embedding_length" ? 2
                                                    : 1));
  }
  b.F32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  b.Tensor("token_embd.weight", {1}, 0, FloatBytes({1}));
  const std::string bytes = b.Build();
  return OpenGguf({"m.gguf", bytes, {}}).status();
}

absl::Status Safetensors(absl::string_view name, absl::string_view shape) {
  return ReadSafetensorsHeader(OneTensor(name, shape, {1}), "m.safetensors")
      .status();
}

// A file of `size` bytes, for the length of a call.
absl::Status WithFile(
    int64_t size, absl::string_view begin,
    const std::function<absl::Status(const std::string& path)>& read) {
  const TempFolder folder;
  const std::string path = folder.Write("config.json", begin);
  EXPECT_EQ(truncate(path.c_str(), size), 0);
  return read(path);
}

absl::Status Nested(int64_t depth) {
  return json::Parse(std::string(depth, '[') + std::string(depth, ']'))
      .status();
}

absl::Status Pickled(absl::string_view bytes) {
  pickle::Heap heap;
  pickle::Budget budget;
  return pickle::ReadPickle(bytes, 0, heap, budget).status();
}

absl::Status Index(int64_t shards) {
  std::string text = "{\"weight_map\":{";
  for (int64_t i = 0; i < shards; ++i) {
    absl::StrAppendFormat(&text, "%s\"t%d\":\"%d.safetensors\"",
                          i == 0 ? "" : ",", i, i);
  }
  return ReadShardIndex(text + "}}", "index.json").status();
}

}  // namespace

std::vector<Edge> FileEdges() {
  return {
      {"SafetensorsHeaderBytes",
       [](int64_t n) {
         Zeros file(8 + static_cast<size_t>(n));
         file.Write(0, Bytes<uint64_t>(n));
         file.Write(8, "{}");
         return ReadSafetensorsHeader(file.view(), "m").status();
       }},
      {"TensorsPerCheckpoint",
       [](int64_t n) { return GgufCounts(n, 0, 40 << 20); }},
      {"TensorNameBytes",
       [](int64_t n) {
         const std::string name(n, 't');
         const absl::Status gguf =
             Gguf(GgufBuilder().Tensor(name, {1}, 0, FloatBytes({1})));
         const absl::Status safetensors = Safetensors(name, "[1]");
         EXPECT_EQ(gguf.ok(), safetensors.ok()) << gguf << safetensors;
         return gguf;
       },
       kOk},
      {"TensorRank",
       [](int64_t n) {
         std::string shape = "[1";
         for (int64_t i = 1; i < n; ++i) shape += ",1";
         return Safetensors("t", shape + "]");
       },
       kOk},
      {"TensorBytes",
       [](int64_t n) {
         return Gguf(GgufBuilder().Tensor("t", {static_cast<uint64_t>(n)}, 24,
                                          std::string(1, '\0')));
       },
       0, "at most 70368744177664"},
      {"Shards", Index, kOk},
      {"JsonDepth", Nested, kOk},
      {"JsonFileBytes",
       [](int64_t n) {
         return WithFile(n, "", [](const std::string& path) {
           return ReadFile(path, limits::kJsonFileBytes).status();
         });
       },
       kOk},
      {"ConfigFileBytes",
       [](int64_t n) {
         return WithFile(n, "{}", [](const std::string& path) {
           return ReadConfigObject(path).status();
         });
       }},
      {"HiddenSize",
       [](int64_t n) { return GgufAttribute("embedding_length", n); }, 0,
       "must be from 1 to 1048576"},
      {"Layers", [](int64_t n) { return GgufAttribute("block_count", n); },
       kOk},
      {"Heads",
       [](int64_t n) { return GgufAttribute("attention.head_count", n); }, 0,
       "must be from 1 to 65536"},
      {"Vocab", [](int64_t n) { return GgufAttribute("vocab_size", n); }, kOk},
      {"Positions",
       [](int64_t n) { return GgufAttribute("context_length", n); }, kOk},
      {"GgufKeyValues", [](int64_t n) { return GgufCounts(0, n, 20 << 20); }},
      {"GgufKeyBytes",
       [](int64_t n) {
         return Gguf(GgufBuilder().U32(std::string(n, 'k'), 1));
       },
       kOk},
      {"GgufStringBytes",
       [](int64_t n) {
         return Gguf(GgufBuilder().Text("k", std::string(n, 's')));
       },
       kOk},
      {"GgufArrayItems",
       [](int64_t n) {
         return Gguf(GgufBuilder().Key(
             "k", 9, Bytes<uint32_t>(4) + Bytes<uint64_t>(n)));
       },
       0, "at most 67108864"},
      {"GgufBoolItems",
       [](int64_t n) {
         return Gguf(GgufBuilder().Key(
             "k", 9,
             Bytes<uint32_t>(7) + Bytes<uint64_t>(n) + std::string(n, '\1')));
       },
       kOk},
      {"GgufDims",
       [](int64_t n) {
         return Gguf(GgufBuilder().Tensor("t", std::vector<uint64_t>(n, 1), 0,
                                          FloatBytes({1})));
       },
       kOk},
      {"GgufAlignment",
       [](int64_t n) {
         GgufBuilder b;
         b.alignment = n;
         return Gguf(b.U32("general.alignment", n));
       },
       kOk | kPowerOfTwo},
      {"ZipEntries",
       [](int64_t n) {
         // A zip64 record, its locator and the record of the end.
         const std::string count = Bytes<uint64_t>(n);
         return ReadZip(absl::StrCat("PK\x06\x06", std::string(20, '\0'), count,
                                     count, std::string(16, '\0'), "PK\x06\x07",
                                     std::string(12, '\0'), Bytes<uint32_t>(1),
                                     "PK\x05\x06", Bytes<uint32_t>(0),
                                     Bytes<uint32_t>(0xffffffff),
                                     Bytes<uint64_t>(0), Bytes<uint16_t>(0)),
                        "m.pt")
             .status();
       }},
      {"PickleOps",
       [](int64_t n) { return Pickled(std::string(n - 1, '(') + "."); }},
      {"PickleMemo",
       [](int64_t n) {
         return Pickled(absl::StrCat("N", std::string(n, '\x94'), "."));
       },
       kOk},
      {"PickleDepth",
       [](int64_t n) {
         return Pickled(absl::StrCat("N", std::string(n, '\x85'), "."));
       },
       kOk},
      {"PickleTextBytes",
       [](int64_t n) {
         Zeros file(static_cast<size_t>(n) + 10);
         file.Write(0, absl::StrCat("\x8e", Bytes<uint64_t>(n)));
         file.Write(static_cast<size_t>(n) + 9, ".");
         return Pickled(file.view());
       },
       kOk},
      {"IrTextBytes",
       [](int64_t n) { return ParseGraph(Zeros(n).view(), "g.ir").status(); }},
  };
}

namespace {

std::vector<Edge> AllEdges() {
  std::vector<Edge> all = FileEdges();
  for (const auto& more : {PlanEdges(), TextEdges()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

const limits::Limit* FindLimit(absl::string_view name) {
  for (const limits::Limit& l : limits::kAll) {
    if (l.name == name) return &l;
  }
  return nullptr;
}

class Limits : public testing::TestWithParam<Edge> {};

TEST_P(Limits, OnlyWhatIsBeyondIsRefusedByIt) {
  const Edge& edge = GetParam();
  const limits::Limit* limit = FindLimit(edge.name);
  ASSERT_NE(limit, nullptr);
  const std::string number =
      edge.written != nullptr ? edge.written : absl::StrCat(limit->value);
  const auto names = [&](const absl::Status& s) {
    return !s.ok() && absl::StrContains(s.message(), number);
  };
  const int64_t n = limit->value;
  const int64_t below = (edge.flags & kPowerOfTwo) ? n / 2 : n - 1;
  const int64_t above = (edge.flags & kPowerOfTwo) ? n * 2 : n + 1;
  if (!(edge.flags & kOnlyAbove)) {
    for (const int64_t allowed : {below, n}) {
      const absl::Status s = edge.read(allowed);
      EXPECT_FALSE(names(s)) << allowed << ": " << s;
      EXPECT_TRUE(s.ok() || !(edge.flags & kOk)) << allowed << ": " << s;
    }
  }
  const absl::Status s = edge.read(above);
  EXPECT_TRUE(names(s)) << above << ": " << s << "; wanted " << number;
}

INSTANTIATE_TEST_SUITE_P(All, Limits, testing::ValuesIn(AllEdges()),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

TEST(LimitsTable, EveryRowIsTriedOnce) {
  std::set<absl::string_view> tried(std::begin(kWork), std::end(kWork));
  EXPECT_EQ(tried.size(), std::size(kWork));
  for (const Edge& e : AllEdges()) {
    EXPECT_TRUE(tried.insert(e.name).second) << e.name;
  }
  for (const limits::Limit& l : limits::kAll) {
    EXPECT_EQ(tried.count(l.name), 1u) << l.name << " has no test";
  }
  EXPECT_EQ(tried.size(), std::size(limits::kAll));
}

TEST(LimitsTable, RowsAreSpeltApart) {
  std::set<absl::string_view> spellings;
  for (const limits::Limit& l : limits::kAll) {
    EXPECT_GT(l.value, 0) << l.name;
    EXPECT_FALSE(l.unit.empty() || l.subject.empty()) << l.name;
    EXPECT_TRUE(spellings.insert(l.spelling).second) << l.spelling;
  }
}

}  // namespace
}  // namespace deepslice
