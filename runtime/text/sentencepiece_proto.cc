// Reads sentencepiece's ModelProto; field numbers are those of its .proto.
#include "runtime/text/sentencepiece_proto.h"

#include <cmath>
#include <cstring>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/text/utf8.h"
#include "runtime/text/wire_reader.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using Field = WireReader::Field;

absl::Status Text(const Field& f, absl::string_view name, std::string* out) {
  DS_RETURN_IF_ERROR(WireReader::Expect(f, WireReader::kBytes, name));
  *out = std::string(f.bytes);
  return absl::OkStatus();
}

absl::Status Flag(const Field& f, absl::string_view name, bool* out) {
  DS_RETURN_IF_ERROR(WireReader::Expect(f, WireReader::kVarint, name));
  *out = f.value != 0;
  return absl::OkStatus();
}

absl::Status ReadPiece(const Field& message, size_t id,
                       SentencePieceModel::Piece* piece) {
  WireReader reader(message.bytes, message.at);
  Field f;
  while (true) {
    DS_ASSIGN_OR_RETURN(const bool more, reader.Next(&f));
    if (!more) return absl::OkStatus();
    switch (f.number) {
      case 1:
        DS_RETURN_IF_ERROR(Text(f, "a piece's text", &piece->text));
        break;
      case 2: {
        DS_RETURN_IF_ERROR(
            WireReader::Expect(f, WireReader::kFixed32, "a piece's score"));
        const auto bits = static_cast<uint32_t>(f.value);
        std::memcpy(&piece->score, &bits, 4);
        break;
      }
      case 3:
        DS_RETURN_IF_ERROR(
            WireReader::Expect(f, WireReader::kVarint, "a piece's type"));
        if (f.value < 1 || f.value > 6) {
          return absl::InvalidArgumentError(
              absl::StrCat("piece ", id, " has type ", f.value,
                           "; 1 (normal) to 6 (byte) are known"));
        }
        piece->type = static_cast<PieceType>(f.value);
        break;
      default:
        break;
    }
  }
}

absl::Status ReadTrainerSpec(const Field& message, SentencePieceModel* model) {
  WireReader reader(message.bytes, message.at);
  Field f;
  while (true) {
    DS_ASSIGN_OR_RETURN(const bool more, reader.Next(&f));
    if (!more) return absl::OkStatus();
    switch (f.number) {
      case 3:
        DS_RETURN_IF_ERROR(
            WireReader::Expect(f, WireReader::kVarint, "model_type"));
        if (f.value < 1 || f.value > 4) {
          return absl::InvalidArgumentError(
              absl::StrCat("trainer_spec.model_type is ", f.value,
                           "; 1 (unigram) to 4 (char) are known"));
        }
        model->kind = static_cast<SentencePieceModel::Kind>(f.value);
        break;
      case 24:
        DS_RETURN_IF_ERROR(Flag(f, "treat_whitespace_as_suffix",
                                &model->whitespace_as_suffix));
        break;
      case 35:
        DS_RETURN_IF_ERROR(Flag(f, "byte_fallback", &model->byte_fallback));
        break;
      case 44:
        DS_RETURN_IF_ERROR(Text(f, "unk_surface", &model->unk_surface));
        break;
      case 45:
        DS_RETURN_IF_ERROR(Text(f, "unk_piece", &model->unk_piece));
        break;
      case 46:
        DS_RETURN_IF_ERROR(Text(f, "bos_piece", &model->bos_piece));
        break;
      case 47:
        DS_RETURN_IF_ERROR(Text(f, "eos_piece", &model->eos_piece));
        break;
      default:
        break;
    }
  }
}

// `normalizer_spec`, or (model null) `denormalizer_spec`.
absl::Status ReadNormalizerSpec(const Field& message, SentencePieceModel* model,
                                std::string* charsmap) {
  WireReader reader(message.bytes, message.at);
  Field f;
  SentencePieceModel ignored;
  if (model == nullptr) model = &ignored;
  while (true) {
    DS_ASSIGN_OR_RETURN(const bool more, reader.Next(&f));
    if (!more) return absl::OkStatus();
    switch (f.number) {
      case 2:
        DS_RETURN_IF_ERROR(Text(f, "precompiled_charsmap", charsmap));
        break;
      case 3:
        DS_RETURN_IF_ERROR(
            Flag(f, "add_dummy_prefix", &model->add_dummy_prefix));
        break;
      case 4:
        DS_RETURN_IF_ERROR(Flag(f, "remove_extra_whitespaces",
                                &model->remove_extra_whitespaces));
        break;
      case 5:
        DS_RETURN_IF_ERROR(
            Flag(f, "escape_whitespaces", &model->escape_whitespaces));
        break;
      default:
        break;
    }
  }
}

std::string Quote(absl::string_view text) {
  return absl::StrCat("\"", absl::Utf8SafeCEscape(text.substr(0, 80)), "\"");
}

absl::Status CheckPieces(SentencePieceModel* model) {
  absl::flat_hash_set<absl::string_view> seen;
  int32_t bytes = 0;
  for (size_t i = 0; i < model->pieces.size(); ++i) {
    const SentencePieceModel::Piece& p = model->pieces[i];
    const auto refuse = [&](absl::string_view what) {
      return absl::InvalidArgumentError(
          absl::StrCat("piece ", i, " (", Quote(p.text), ") ", what));
    };
    if (p.text.empty()) return refuse("is empty; a piece has text");
    if (!IsValidUtf8(p.text))
      return refuse("is not UTF-8; train or copy it again");
    if (!std::isfinite(p.score)) {
      return refuse(
          "has a score that is no finite number; train or copy it again");
    }
    if (!seen.insert(p.text).second) {
      return refuse("is there twice; a piece has one id");
    }
    if (p.type == PieceType::kUnknown) {
      if (model->unk_id >= 0) {
        return refuse(absl::StrCat("is a second unknown piece, after piece ",
                                   model->unk_id, "; one is allowed"));
      }
      model->unk_id = static_cast<int32_t>(i);
    }
    if (p.type == PieceType::kByte) {
      if (!model->byte_fallback) {
        return refuse(
            "is a byte, but trainer_spec.byte_fallback is not set; bytes need "
            "it");
      }
      unsigned value = 0;
      if (p.text.size() != 6 ||
          std::sscanf(p.text.c_str(), "<0x%02X>", &value) != 1 ||
          p.text != absl::StrFormat("<0x%02X>", value)) {
        return refuse("is a byte; it must be <0x00> to <0xFF>");
      }
      ++bytes;
    }
  }
  if (model->unk_id < 0) {
    return absl::InvalidArgumentError(
        "no piece has type 2 (unknown); a model has one");
  }
  if (model->byte_fallback && bytes != 256) {
    return absl::InvalidArgumentError(
        absl::StrCat("trainer_spec.byte_fallback is set, but there are ", bytes,
                     " byte pieces; <0x00> to <0xFF> are needed"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SentencePieceModel> ParseSentencePieceModel(
    absl::string_view bytes) {
  SentencePieceModel model;
  WireReader reader(bytes);
  Field f;
  while (true) {
    DS_ASSIGN_OR_RETURN(const bool more, reader.Next(&f));
    if (!more) break;
    if (f.number < 1 || f.number > 5) continue;
    DS_RETURN_IF_ERROR(WireReader::Expect(f, WireReader::kBytes,
                                          absl::StrCat("field ", f.number)));
    if (f.number == 1) {
      if (static_cast<int64_t>(model.pieces.size()) >= limits::kVocab) {
        return absl::InvalidArgumentError(absl::StrCat(
            "has more than ", limits::kVocab, " pieces; no more are allowed"));
      }
      model.pieces.emplace_back();
      DS_RETURN_IF_ERROR(
          ReadPiece(f, model.pieces.size() - 1, &model.pieces.back()));
    } else if (f.number == 2) {
      DS_RETURN_IF_ERROR(ReadTrainerSpec(f, &model));
    } else if (f.number == 3) {
      DS_RETURN_IF_ERROR(ReadNormalizerSpec(f, &model, &model.charsmap));
    } else if (f.number == 5) {
      std::string charsmap;
      DS_RETURN_IF_ERROR(ReadNormalizerSpec(f, nullptr, &charsmap));
      model.denormalizes = !charsmap.empty();
    }
  }
  if (model.pieces.empty()) {
    return absl::InvalidArgumentError(
        "holds no pieces; a sentencepiece model was expected");
  }
  DS_RETURN_IF_ERROR(CheckPieces(&model));
  return model;
}

}  // namespace deepslice
