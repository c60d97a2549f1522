// Small tokenizer files for tests of this folder.
#ifndef DEEPSLICE_RUNTIME_TEXT_TESTING_TOKENIZERS_H_
#define DEEPSLICE_RUNTIME_TEXT_TESTING_TOKENIZERS_H_

#include <memory>
#include <string>
#include <vector>

#include "runtime/text/byte_level.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/tokenizer_tables.h"
#include "runtime/text/utf8.h"
#include "schema/base/json.h"
#include "schema/base/status_macros.h"

namespace deepslice::testing_tokenizers {

// A step of a pre-tokenizer, normalizer, ... from its JSON text.
inline json::Value Json(absl::string_view text) { return *json::Parse(text); }

inline json::Value AddedTokenJson(absl::string_view content, int64_t id,
                                  bool special) {
  json::Value t = json::Value::Object();
  t.Set("id", id);
  t.Set("content", content);
  for (absl::string_view key :
       {"single_word", "lstrip", "rstrip", "normalized"}) {
    t.Set(key, false);
  }
  t.Set("special", special);
  return t;
}

// A byte-level BPE tokenizer.json: 256 byte tokens with ids 0 to 255, then the
// result of each merge, then <s> (special) and <u> (not special).
inline json::Value ByteLevelFile(
    const std::vector<std::pair<std::string, std::string>>& merges) {
  json::Value vocab = json::Value::Object();
  int64_t next = 0;
  for (int b = 0; b < 256; ++b) {
    std::string text;
    AppendUtf8(ByteLevelCharacter(static_cast<uint8_t>(b)), &text);
    vocab.Set(text, next++);
  }
  json::Value list = json::Value::Array();
  for (const auto& [left, right] : merges) {
    vocab.Set(left + right, next++);
    json::Value pair = json::Value::Array();
    pair.Add(left);
    pair.Add(right);
    list.Add(std::move(pair));
  }
  json::Value model = json::Value::Object();
  model.Set("type", "BPE");
  model.Set("vocab", std::move(vocab));
  model.Set("merges", std::move(list));
  json::Value file = json::Value::Object();
  json::Value added = json::Value::Array();
  added.Add(AddedTokenJson("<s>", next, true));
  added.Add(AddedTokenJson("<u>", next + 1, false));
  file.Set("added_tokens", std::move(added));
  file.Set("normalizer", nullptr);
  file.Set("pre_tokenizer",
           Json(R"({"type": "ByteLevel", "add_prefix_space": false})"));
  file.Set("post_processor", nullptr);
  file.Set("decoder", Json(R"({"type": "ByteLevel"})"));
  file.Set("model", std::move(model));
  return file;
}

// A tokenizer and the tables that it must not outlive.
struct Loaded {
  TokenizerTables tables;
  std::unique_ptr<Tokenizer> tokenizer;
  const Tokenizer* operator->() const { return tokenizer.get(); }
};

inline absl::StatusOr<Loaded> Load(TokenizerTables tables) {
  Loaded out{std::move(tables), nullptr};
  DS_ASSIGN_OR_RETURN(out.tokenizer, Tokenizer::Load(out.tables.bytes));
  return out;
}

inline absl::StatusOr<Loaded> LoadFile(const json::Value& file,
                                       const json::Value& config = {}) {
  DS_ASSIGN_OR_RETURN(TokenizerTables tables,
                      ReadTokenizerJson(json::Write(file), config));
  return Load(std::move(tables));
}

}  // namespace deepslice::testing_tokenizers

#endif  // DEEPSLICE_RUNTIME_TEXT_TESTING_TOKENIZERS_H_
