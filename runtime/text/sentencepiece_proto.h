// The parts of a sentencepiece model file that say how it encodes.
#ifndef DEEPSLICE_RUNTIME_TEXT_SENTENCEPIECE_PROTO_H_
#define DEEPSLICE_RUNTIME_TEXT_SENTENCEPIECE_PROTO_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace deepslice {

enum class PieceType : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

struct SentencePieceModel {
  struct Piece {
    std::string text;
    float score = 0;
    PieceType type = PieceType::kNormal;
  };
  enum Kind : uint8_t { kUnigram = 1, kBpe = 2, kWord = 3, kChar = 4 };

  std::vector<Piece> pieces;
  Kind kind = kUnigram;
  bool byte_fallback = false;
  bool whitespace_as_suffix = false;
  std::string unk_piece = "<unk>";
  std::string bos_piece = "<s>";
  std::string eos_piece = "</s>";
  std::string unk_surface = " \xE2\x81\x87 ";  // U+2047
  std::string charsmap;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
  bool denormalizes = false;  // decoded text goes through a map of its own

  // The id of exactly one piece of type kUnknown.
  int32_t unk_id = -1;
};

// Reads untrusted bytes. DataLoss with the byte's offset for damage,
// InvalidArgument for what sentencepiece itself refuses: pieces that are empty,
// doubled, of an unknown type or with a score that is no number, no or several
// unknown pieces, byte pieces that are none or not complete.
absl::StatusOr<SentencePieceModel> ParseSentencePieceModel(
    absl::string_view bytes);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_SENTENCEPIECE_PROTO_H_
