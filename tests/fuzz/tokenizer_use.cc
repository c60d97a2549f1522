#include "tests/fuzz/tokenizer_use.h"

#include <memory>
#include <string>
#include <vector>

#include "runtime/text/utf8.h"
#include "tests/fuzz/fuzz_target.h"

namespace deepslice {
namespace {

// A text may grow by a step's content for every character of it.
constexpr size_t kMostText = 256;

void Decode(const Tokenizer& tokenizer, const std::vector<int32_t>& ids,
            bool skip_special) {
  const auto whole = tokenizer.Decode(ids, skip_special);
  if (!whole.ok()) return CheckRefusal(whole.status());
  FUZZ_CHECK(IsValidUtf8(*whole));
  StreamDecoder stream(tokenizer, skip_special);
  std::string joined;
  for (const int32_t id : ids) {
    const auto more = stream.Add(id);
    FUZZ_CHECK(more.ok() && IsValidUtf8(*more));
    joined += *more;
  }
  const auto rest = stream.Finish();
  FUZZ_CHECK(rest.ok());
  FUZZ_CHECK(joined + *rest == *whole);
}

}  // namespace

void UseTokenizer(const Tokenizer& tokenizer, absl::string_view text) {
  text = text.substr(0, kMostText);
  const int32_t vocab = tokenizer.vocab_size();
  for (const bool special : {true, false}) {
    const EncodeOptions options = {.add_special = special,
                                   .parse_special = special};
    const auto ids = tokenizer.Encode(text, options);
    if (!ids.ok()) {
      CheckRefusal(ids.status());
      continue;
    }
    for (const int32_t id : *ids) FUZZ_CHECK(id >= 0 && id < vocab);
    Decode(tokenizer, *ids, !special);
    // A plain range over all of the text: as if nothing in it were special.
    const auto plain = tokenizer.EncodeWithPlainRanges(
        text, {.add_special = special, .parse_special = true},
        {{0, text.size()}});
    FUZZ_CHECK(plain.ok() || special);
    if (!special && plain.ok()) FUZZ_CHECK(*plain == *ids);
  }
  // Ids that no text gives.
  std::vector<int32_t> any;
  for (size_t i = 0; i < text.size() && i < 32 && vocab > 0; ++i) {
    any.push_back(static_cast<uint8_t>(text[i]) % vocab);
  }
  Decode(tokenizer, any, false);
  for (const int32_t id : {-1, vocab}) {
    FUZZ_CHECK(!tokenizer.Decode({id}, false).ok());
    FUZZ_CHECK(tokenizer.IdToToken(id).empty());
  }
}

void UseTokenizer(const absl::StatusOr<TokenizerTables>& tables,
                  absl::string_view text) {
  if (!tables.ok()) return CheckRefusal(tables.status());
  const auto tokenizer = Tokenizer::Load(tables->bytes);
  FUZZ_CHECK(tokenizer.ok());
  UseTokenizer(**tokenizer, text);
}

}  // namespace deepslice
