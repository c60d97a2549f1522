// tokenizer.json: text to encode, tokenizer_config.json, the file.
#include "runtime/text/tokenizer_tables.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/tokenizer_use.h"

namespace deepslice {
namespace {

FUZZ_TARGET(tokenizer_json) {
  const auto parts = SplitParts(input, 3);
  const auto config = json::Parse(parts[1]);
  UseTokenizer(
      ReadTokenizerJson(parts[2], config.ok() ? *config : json::Value()),
      parts[0]);
}

}  // namespace
}  // namespace deepslice
