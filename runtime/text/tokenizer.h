// Tokenizer tables as the plan holds them, and the encoder and decoder over
// them. Nothing here parses files: readers lie in tokenizer_tables.h.
#ifndef DEEPSLICE_RUNTIME_TEXT_TOKENIZER_H_
#define DEEPSLICE_RUNTIME_TEXT_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace deepslice {

struct EncodeOptions {
  bool add_special = true;  // run the post-processor (BOS, EOS, ...)
  // Text of special tokens becomes their ids. Off for user text in a chat.
  bool parse_special = true;
};

// Bytes [begin, end) of a text.
struct ByteRange {
  size_t begin = 0;
  size_t end = 0;
};

// Immutable and thread-safe after loading.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Reads TokenizerTables::bytes (tokenizer_tables.h). They are untrusted:
  // DataLoss with place, never a crash.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(
      absl::string_view bytes);

  // Any bytes; what is not UTF-8 is read as U+FFFD.
  virtual absl::StatusOr<std::vector<int32_t>> Encode(
      absl::string_view text, const EncodeOptions& options = {}) const = 0;
  // The same for a text with parts that are not trusted: special tokens that
  // touch one of the `plain` ranges stay text, whatever parse_special says.
  // Ranges are sorted and don't overlap. Where a normaliser changed a stretch
  // of text between tokens that holds a plain range, special tokens that are
  // matched in normalised text stay text in all of that stretch.
  virtual absl::StatusOr<std::vector<int32_t>> EncodeWithPlainRanges(
      absl::string_view text, const EncodeOptions& options,
      const std::vector<ByteRange>& plain) const = 0;
  // Ids outside [0, vocab_size) are InvalidArgument. Always valid UTF-8.
  virtual absl::StatusOr<std::string> Decode(const std::vector<int32_t>& ids,
                                             bool skip_special) const = 0;

  // Text of ids that come one at a time. The tokenizer outlives it.
  class Decoding {
   public:
    virtual ~Decoding() = default;
    // Appends to `out` what is decided: valid UTF-8 at every step.
    virtual absl::Status Add(int32_t id, std::string* out) = 0;
    // The rest; then it starts anew.
    virtual absl::Status Finish(std::string* out) = 0;
  };
  virtual std::unique_ptr<Decoding> StartDecoding(bool skip_special) const = 0;

  virtual int32_t vocab_size() const = 0;
  // -1 when the tokenizer names none.
  virtual int32_t bos_id() const = 0;
  virtual int32_t eos_id() const = 0;
  // What stands for text that the vocabulary lacks, or -1. It may be special,
  // although any text can give it.
  virtual int32_t unk_id() const = 0;
  virtual bool IsSpecial(int32_t id) const = 0;
  // The id of exactly this token (special or not), or -1.
  virtual int32_t TokenToId(absl::string_view token) const = 0;
  // The token's text as in the vocabulary file; empty when out of range.
  virtual std::string IdToToken(int32_t id) const = 0;
};

// Text of a growing id sequence, valid UTF-8 at every step: holds back what a
// later id may still change, an incomplete code point above all; what Add and
// Finish returned, joined, equals Decode(all ids).
class StreamDecoder {
 public:
  StreamDecoder(const Tokenizer& tokenizer, bool skip_special);
  absl::StatusOr<std::string> Add(int32_t id);
  absl::StatusOr<std::string> Finish();

 private:
  std::unique_ptr<Tokenizer::Decoding> decoding_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_TOKENIZER_H_
