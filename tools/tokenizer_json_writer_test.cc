#include "tools/tokenizer_json_writer.h"

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "runtime/text/tokenizer_tables.h"
#include "runtime/text/tokenizer_vectors.h"
#include "schema/base/file.h"

namespace deepslice {
namespace {

// The tables of a golden case, as a plan holds them.
std::string Tables(const std::string& name) {
  const char* root = std::getenv("DS_SOURCE_ROOT");
  const auto text =
      ReadFile(absl::StrCat(root == nullptr ? "." : root,
                            "/tests/golden_cases/tokenizers/", name,
                            "/tokenizer.json"),
               1 << 24);
  EXPECT_TRUE(text.ok()) << text.status();
  if (!text.ok()) return "";
  auto tables = ReadTokenizerJson(*text, json::Value());
  EXPECT_TRUE(tables.ok() && AddTokenizerVectors(&*tables).ok()) << name;
  return tables.ok() ? tables->bytes : "";
}

TEST(WriteTokenizerFiles, GivesBackBpeOverBytes) {
  for (const char* name : {"gpt2", "llama3", "qwen2", "smollm"}) {
    const auto files = WriteTokenizerFiles(Tables(name));
    ASSERT_TRUE(files.has_value()) << name;
    EXPECT_EQ(files->tokenizer.Find("model")->Find("type")->as_string(), "BPE");
  }
}

TEST(WriteTokenizerFiles, IsSilentWhereItCannotSayAll) {
  for (const char* name : {"bert_cased", "clip", "llama2", "t5_unigram"}) {
    EXPECT_FALSE(WriteTokenizerFiles(Tables(name)).has_value()) << name;
  }
  EXPECT_FALSE(WriteTokenizerFiles("").has_value());
  EXPECT_FALSE(WriteTokenizerFiles("no tokenizer").has_value());
}

}  // namespace
}  // namespace deepslice
