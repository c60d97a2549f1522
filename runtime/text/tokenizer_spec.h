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
inline constexpr uint8_t kTokenSpecial = 4;  // not part of the text
// sentencepiece: found in a text before anything is merged.
inline constexpr uint8_t kTokenUserDefined = 8;
// sentencepiece: a step of merging that is taken back at the end.
inline constexpr uint8_t kTokenUnused = 16;
// Neither produced nor matched, but it has a text.
inline constexpr uint8_t kTokenNamed = 32;

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
  kNfkd = 4,
  kLowercase = 5,
  kStripAccents = 6,
  kStrip = 7,      // flags: kStripLeft, kStripRight
  kReplace = 8,    // every match of `pattern` becomes `content`
  kPrepend = 9,    // `content`, unless the text is empty
  kCharsmap = 10,  // `content`: sentencepiece's compiled map, as HF applies it
  kBert = 11,      // flags: kBert...
  kNmt = 12,
  kByteLevel = 13,
  kSentencePiece = 14,  // flags: kSpm...; `content` may be a map
};

struct NormalizerStep {
  static constexpr uint16_t kStripLeft = 1, kStripRight = 2;
  static constexpr uint16_t kIsRegex = 4;
  static constexpr uint16_t kBertClean = 8, kBertIdeographs = 16,
                            kBertStripAccents = 32, kBertLowercase = 64;
  static constexpr uint16_t kSpmDummyPrefix = 128, kSpmPrefixFirstOnly = 256,
                            kSpmRemoveExtra = 512, kSpmEscape = 1024,
                            kSpmSuffix = 2048;  // white space is a suffix
  static constexpr uint16_t kAllFlags = 4095;

  NormalizerKind kind = NormalizerKind::kNfc;
  uint16_t flags = 0;
  std::string pattern = {};
  std::string content = {};

  bool Has(uint16_t flag) const { return (flags & flag) != 0; }
};

enum class PreTokenizerKind : uint8_t {
  kSplit = 1,
  kDigits = 2,
  kByteLevel = 3,
  kMetaspace = 4,
  kBert = 5,
  kWhitespace = 6,       // words and stretches of punctuation
  kWhitespaceSplit = 7,  // at white space
  kPunctuation = 8,
  kDelimiter = 9,  // at the character `pattern`
  kUnicodeScripts = 10,
  kFixedLength = 11,
};

enum class SplitBehavior : uint8_t {
  kRemoved = 0,
  kIsolated = 1,
  kMergedWithPrevious = 2,
  kMergedWithNext = 3,
  kContiguous = 4,
};

enum class PrependScheme : uint8_t { kAlways = 0, kFirst = 1, kNever = 2 };

struct PreTokenizerStep {
  PreTokenizerKind kind = PreTokenizerKind::kByteLevel;
  // kSplit, kDelimiter; kMetaspace: the character that stands for a space
  std::string pattern;
  bool is_regex = false;  // `pattern` is in Oniguruma's syntax, else literal
  bool invert = false;
  SplitBehavior behavior = SplitBehavior::kIsolated;  // kPunctuation too
  // kDigits
  bool individual_digits = false;
  // kByteLevel
  bool add_prefix_space = false;
  bool use_regex = false;
  // kMetaspace
  PrependScheme prepend_scheme = PrependScheme::kAlways;
  bool split = false;
  // kFixedLength: characters
  uint32_t length = 0;
};

enum class ModelKind : uint8_t {
  kBpe = 1,
  kUnigram = 2,
  kWordPiece = 3,
  kWordLevel = 4,
  kLongest = 5,  // the longest token at every place, as RWKV's
};

struct BpeMerge {
  int32_t left;  // a token, or vocab_size + i: the character extra_symbols[i]
  int32_t right;
  int32_t merged;
  bool same_rank = false;  // as the merge before it
};

enum class DecoderKind : uint8_t {
  kByteLevel = 1,
  kFuse = 2,
  kByteFallback = 3,
  kReplace = 4,
  kStrip = 5,      // `start` and `stop` times the character `pattern`
  kMetaspace = 6,  // `pattern` is a space; `start`: drop it at the beginning
  kWordPiece = 7,  // `pattern` goes on with a word; flag kCleanup
  kBpe = 8,        // `pattern` ends a word
  kCtc = 9,        // `pattern` is the pad, `content` a space; flag kCleanup
  kSentencePiece = 10,  // `content`: text of an unknown token; kSpm... flags
};

struct DecoderStep {
  static constexpr uint8_t kIsRegex = 1, kCleanup = 2, kSpmDropSpace = 4,
                           kSpmDropSpaces = 8;
  static constexpr uint8_t kAllFlags = 15;

  DecoderKind kind = DecoderKind::kByteLevel;
  uint8_t flags = 0;
  std::string pattern = {};
  std::string content = {};
  uint32_t start = 0;
  uint32_t stop = 0;

  bool Has(uint8_t flag) const { return (flags & flag) != 0; }
};

// What a text must give, special tokens included.
struct TokenizerVector {
  std::string text;
  std::vector<int32_t> ids;
};

struct TokenizerSpec {
  // Vocabulary: token i is token_text[token_ends[i - 1] : token_ends[i]].
  std::string token_text;
  std::vector<uint32_t> token_ends;
  std::vector<uint8_t> token_bits;

  ModelKind model = ModelKind::kBpe;
  bool ignore_merges = false;  // a pre-token of the vocabulary is that token
  bool fuse_unk = false;
  bool byte_fallback = false;  // unknown characters as tokens <0x00> to <0xFF>
  // Rules of sentencepiece's own encoder where the others differ.
  bool sentencepiece = false;
  // -1: what is unknown is dropped by BPE, refused by the others.
  int32_t unk_id = -1;
  // BPE, WordPiece: written before what goes on with a word, after its end.
  std::string continuing_prefix;
  std::string end_of_word_suffix;
  uint32_t max_word_chars = 0;   // WordPiece: longer words are unknown
  std::vector<BpeMerge> merges;  // by falling priority
  std::vector<uint32_t> extra_symbols;
  std::vector<double> scores;  // of each token: Unigram, sentencepiece's BPE

  std::vector<AddedToken> added;
  std::vector<NormalizerStep> normalizers;
  std::vector<PreTokenizerStep> pre_tokenizers;
  // The post-processor of one sequence: ids before and after it.
  std::vector<int32_t> prefix_ids;
  std::vector<int32_t> suffix_ids;
  std::vector<DecoderStep> decoders;  // none: tokens are joined by a space
  int32_t bos_id = -1;
  int32_t eos_id = -1;
  std::vector<TokenizerVector> vectors;

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
