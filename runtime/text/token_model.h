// Turns one pre-token into token ids.
#ifndef DEEPSLICE_RUNTIME_TEXT_TOKEN_MODEL_H_
#define DEEPSLICE_RUNTIME_TEXT_TOKEN_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/text/tokenizer_spec.h"

namespace deepslice {

// Text of tokens to their ids.
using TokenIndex = absl::flat_hash_map<absl::string_view, int32_t>;

// Immutable and thread-safe; spec and index that it is made from outlive it.
class TokenModel {
 public:
  // Working memory of one thread, kept from word to word.
  struct Scratch {
    std::vector<int32_t> ids;
    std::vector<uint32_t> ranks;
    std::vector<int32_t> previous, next;
    std::vector<uint64_t> heap;
    std::string mapped;
    absl::flat_hash_map<int32_t, std::pair<int32_t, int32_t>> unmerge;
    struct PathNode {
      double score;
      int32_t id;
      uint32_t begin;  // UINT32_MAX: not reached yet
    };
    std::vector<PathNode> path;
  };

  virtual ~TokenModel() = default;

  // Appends the ids of `word`, which is not empty. FailedPrecondition for text
  // that the vocabulary lacks, where the model has no unknown token.
  virtual absl::Status Encode(absl::string_view word, Scratch* scratch,
                              std::vector<int32_t>* out) const = 0;

  // Whether a word may be cut before each U+2581 that follows another character
  // without a change of ids.
  virtual bool CutsAtSpaceSymbol() const { return false; }
};

// `raw_bytes`: words are bytes, each the character of the byte alphabet.
std::unique_ptr<TokenModel> MakeTokenModel(const TokenizerSpec& spec,
                                           const TokenIndex& index,
                                           bool raw_bytes);

// What is common to them.
namespace token_model {

inline constexpr absl::string_view kSpaceSymbol = "\xE2\x96\x81";  // U+2581

// Whether the model may make this token out of a text. Special tokens come
// from the matcher of added tokens alone: no text spells one by way of the
// vocabulary.
inline bool Makes(const TokenizerSpec& spec, int32_t id) {
  return (spec.token_bits[id] & (kTokenInModel | kTokenSpecial)) ==
         kTokenInModel;
}
// The id of a token that the model may make, or -1.
int32_t Find(const TokenizerSpec& spec, const TokenIndex& index,
             absl::string_view text);
// Of "<0x00>" to "<0xFF>"; -1 where the vocabulary lacks one.
std::vector<int32_t> ByteTokens(const TokenizerSpec& spec,
                                const TokenIndex& index);
absl::Status UnknownText(absl::string_view text);

}  // namespace token_model

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_TOKEN_MODEL_H_
