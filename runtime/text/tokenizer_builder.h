// What the readers of tokenizer files share: a vocabulary under construction.
#ifndef DEEPSLICE_RUNTIME_TEXT_TOKENIZER_BUILDER_H_
#define DEEPSLICE_RUNTIME_TEXT_TOKENIZER_BUILDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/text/tokenizer_spec.h"

namespace deepslice {

// Collects tokens in any order, then fills in the vocabulary, merges and added
// tokens of a spec. Errors are InvalidArgument without the file's name.
class TokenizerBuilder {
 public:
  // The file lists `count` more tokens. Their ids are below their number and
  // limits::kTokenizerHoles, so that no id makes a file large.
  void Expect(size_t count) { expected_ += static_cast<int64_t>(count); }
  // A token of the model; text and id are new. `bits`: more of kToken...
  absl::Status AddModelToken(absl::string_view text, int64_t id,
                             uint8_t bits = 0);
  // A token of the vocabulary that is never produced or matched.
  absl::Status AddUnusedToken(absl::string_view text, int64_t id);
  // One with a text of its own, but for what `bits` say.
  absl::Status AddNamedToken(absl::string_view text, int64_t id, uint8_t bits);
  // `token.id` is taken as it is. The text may be a model token's, then the id
  // must be that token's.
  absl::Status AddAddedToken(absl::string_view text, int64_t id,
                             AddedToken token);
  // By falling priority; both parts and the whole, which lacks the first
  // `right_prefix` bytes of its right part, must be tokens.
  absl::Status AddMerge(absl::string_view left, absl::string_view right,
                        size_t right_prefix = 0);

  // -1 when there is none.
  int32_t Find(absl::string_view text) const;
  bool IsAdded(int32_t id) const { return (bits_[id] & kTokenAdded) != 0; }
  int32_t vocab_size() const { return static_cast<int32_t>(texts_.size()); }

  // Ids of the vocabulary that no token has.
  int32_t CountHoles() const;
  // How many of the 256 characters of the byte alphabet are no model token.
  int32_t CountMissingBytes() const;
  // How many of "<0x00>" to "<0xFF>" are no token.
  int32_t CountMissingByteTokens() const;

  // Fills in `spec`; afterwards only Find may be called.
  void Finish(TokenizerSpec* spec);

 private:
  absl::Status Place(absl::string_view text, int64_t id, uint8_t bits);

  int64_t expected_ = 0;
  std::vector<std::string> texts_;  // by id
  std::vector<uint8_t> bits_;
  std::vector<bool> taken_;
  absl::flat_hash_map<std::string, int32_t> ids_;
  std::vector<BpeMerge> merges_;
  std::vector<AddedToken> added_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_TOKENIZER_BUILDER_H_
