// Tokenizers as plans hold them: the length of a text, the text, the tables.
#include <algorithm>

#include "runtime/text/tokenizer.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/tokenizer_use.h"

namespace deepslice {
namespace {

FUZZ_TARGET(tokenizer_tables) {
  if (input.empty()) return;
  const size_t length =
      std::min<size_t>(static_cast<uint8_t>(input[0]), input.size() - 1);
  const auto tokenizer = Tokenizer::Load(input.substr(1 + length));
  if (!tokenizer.ok()) return CheckRefusal(tokenizer.status());
  UseTokenizer(**tokenizer, input.substr(1, length));
}

}  // namespace
}  // namespace deepslice
