// sentencepiece models: text to encode, model_type, tokenizer_config.json, the
// file.
#include "runtime/text/tokenizer_tables.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/tokenizer_use.h"

namespace deepslice {
namespace {

FUZZ_TARGET(sentencepiece_model) {
  const auto parts = SplitParts(input, 4);
  const auto config = json::Parse(parts[2]);
  UseTokenizer(ReadTokenizerSentencePiece(
                   parts[3], config.ok() ? *config : json::Value(), parts[1]),
               parts[0]);
}

}  // namespace
}  // namespace deepslice
