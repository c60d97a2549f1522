// A tokenizer as data: what the readers fill in, what the plan stores and what
// the encoder walks. A new kind of tokenizer is a new step kind here.
#ifndef DEEPSLICE_RUNTIME_TEXT_TOKENIZER_SPEC_H_
#define DEEPSLICE_RUNTIME_TEXT_TOKENIZER_SPEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace deepslice {

// Roles of a token id, as bits. An id with none of them is a hole of the
// vocabulary: it decodes to nothing.
inline constexpr uint8_t kTokenInModel = 1;  // the model may produce it
inline constexpr uint8_t kTokenAdded = 2;    // matched before the model runs
inline constexpr uint8_t kTokenSpecial = 4;  // added, and not part of the text

struct AddedToken {
  int32_t id = 0;            // its text is the token's text
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // takes white space before it
  bool rstrip = false;       // takes white space after it
  bool normalized = false;   // matched in normalised text
  bool special = false;
};

// Numbers of every enum here are written into plans: they keep their meaning.
enum class NormalizerKind : uint8_t {
  kNfc = 1,
  kNfd = 2,
  kNfkc = 3,
  kNfkd = 4
};

enum class PreTokenizerKind : uint8_t {
  kSplit = 1,
  kDigits = 2,
  kByteLevel = 3
};

enum class SplitBehavior : uint8_t {
  kRemoved = 0,
  kIsolated = 1,
  kMergedWithPrevious = 2,
  kMergedWithNext = 3,
  kContiguous = 4,
};

struct PreTokenizerStep {
  PreTokenizerKind kind = PreTokenizerKind::kByteLevel;
  // kSplit
  std::string pattern;
  bool is_regex = false;  // `pattern` is in Oniguruma's syntax, else literal
  bool invert = false;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  // kDigits
  bool individual_digits = false;
  // kByteLevel
  bool add_prefix_space = false;
  bool use_regex = false;
};

enum class ModelKind : uint8_t { kBpe = 1 };

struct BpeMerge {
  int32_t left;
  int32_t right;
  int32_t merged;
};

enum class DecoderKind : uint8_t { kByteLevel = 1, kFuse = 2 };

struct TokenizerSpec {
  // Vocabulary: token i is token_text[token_ends[i - 1] : token_ends[i]].
  std::string token_text;
  std::vector<uint32_t> token_ends;
  std::vector<uint8_t> token_bits;

  ModelKind model = ModelKind::kBpe;
  bool ignore_merges = false;  // a pre-token of the vocabulary is that token
  bool fuse_unk = false;
  int32_t unk_id = -1;           // -1: unknown characters are dropped
  std::vector<BpeMerge> merges;  // by falling priority

  std::vector<AddedToken> added;
  std::vector<NormalizerKind> normalizers;
  std::vector<PreTokenizerStep> pre_tokenizers;
  // The post-processor of one sequence: ids before and after it.
  std::vector<int32_t> prefix_ids;
  std::vector<int32_t> suffix_ids;
  std::vector<DecoderKind> decoders;  // none: tokens are joined by a space
  int32_t bos_id = -1;
  int32_t eos_id = -1;

  int32_t vocab_size() const { return static_cast<int32_t>(token_ends.size()); }
  absl::string_view token(int32_t id) const {
    const uint32_t begin = id == 0 ? 0 : token_ends[id - 1];
    return absl::string_view(token_text).substr(begin, token_ends[id] - begin);
  }
  void AddToken(absl::string_view text, uint8_t bits) {
    token_text.append(text.data(), text.size());
    token_ends.push_back(static_cast<uint32_t>(token_text.size()));
    token_bits.push_back(bits);
  }
};

// The serialised form. The same spec gives the same bytes on every machine.
std::string SerializeTokenizer(const TokenizerSpec& spec);

// Reads untrusted bytes. DataLoss with the byte offset; afterwards every id,
// enum and offset of the spec is in range.
absl::StatusOr<TokenizerSpec> ParseTokenizer(absl::string_view bytes);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_TOKENIZER_SPEC_H_
