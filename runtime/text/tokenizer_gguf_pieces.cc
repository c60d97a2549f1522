// GGUF's "llama" and "t5" vocabularies: sentencepiece's pieces and scores.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/text/gguf_vocabulary.h"
#include "runtime/text/json_at.h"
#include "runtime/text/sentencepiece_spec.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// "<0x41>", with digits as sentencepiece writes them.
bool IsByteToken(absl::string_view text) {
  if (text.size() != 6) return false;
  for (int byte = 0; byte < 256; ++byte) {
    if (text == absl::StrFormat("<0x%02X>", byte)) return true;
  }
  return false;
}

}  // namespace

absl::Status ReadGgufPieces(const GgufVocabulary& v, bool unigram,
                            TokenizerSpec* spec) {
  if (!v.has_types() || !v.has_scores()) {
    return GgufVocabulary::Invalid(
        v.has_types() ? "scores" : "token_type",
        "is missing; this kind of vocabulary needs one for each token: "
        "convert the model again");
  }
  SentencePieceModel model;
  model.kind =
      unigram ? SentencePieceModel::kUnigram : SentencePieceModel::kBpe;
  DS_ASSIGN_OR_RETURN(model.unk_id,
                      v.TokenId("unknown_token_id", unigram ? 2 : 0));
  DS_ASSIGN_OR_RETURN(model.add_dummy_prefix, v.Flag("add_space_prefix", true));
  DS_ASSIGN_OR_RETURN(model.remove_extra_whitespaces,
                      v.Flag("remove_extra_whitespaces", unigram));
  DS_ASSIGN_OR_RETURN(model.escape_whitespaces,
                      v.Flag("escape_whitespaces", true));
  DS_ASSIGN_OR_RETURN(model.whitespace_as_suffix,
                      v.Flag("treat_whitespace_as_suffix", false));
  DS_ASSIGN_OR_RETURN(model.charsmap, v.Charsmap());
  for (const GgufVocabulary::Token& t : v.tokens()) {
    if (t.type == GgufTokenType::kByte && !IsByteToken(t.text)) {
      return GgufVocabulary::Invalid(
          "tokens",
          absl::StrCat("token ", model.pieces.size(), " \"", ShownText(t.text),
                       "\" has type 6 (byte); must be <0x00> to "
                       "<0xFF>"));
    }
    model.pieces.push_back({std::string(t.text), static_cast<float>(t.score),
                            static_cast<PieceType>(t.type)});
    model.byte_fallback |= t.type == GgufTokenType::kByte;
  }
  TokenizerBuilder builder;
  // Tokens that a user defined stand for themselves before the pieces see the
  // text, as control tokens do.
  SentencePieceModel pieces = model;
  for (auto& p : pieces.pieces) {
    if (p.type == PieceType::kUserDefined && !unigram) {
      p.type = PieceType::kControl;
    }
  }
  DS_RETURN_IF_ERROR(
      Annotate(AddPieces(pieces, ControlTokens::kToken, &builder),
               GgufVocabulary::Key("tokens")));
  for (size_t i = 0; i < v.tokens().size(); ++i) {
    const GgufVocabulary::Token& t = v.tokens()[i];
    AddedToken added;
    added.special =
        t.type == GgufTokenType::kControl || t.type == GgufTokenType::kUnknown;
    if (!added.special && (unigram || t.type != GgufTokenType::kUserDefined)) {
      continue;
    }
    DS_RETURN_IF_ERROR(
        Annotate(builder.AddAddedToken(t.text, static_cast<int64_t>(i), added),
                 GgufVocabulary::Key("tokens")));
  }
  builder.Finish(spec);
  DS_RETURN_IF_ERROR(
      Annotate(FillSentencePieceSpec(pieces, ControlTokens::kToken, spec),
               GgufVocabulary::Key("model")));
  spec->bos_id = unigram ? -1 : 1;
  spec->eos_id = unigram ? 1 : 2;
  return v.PlaceBosAndEos(!unigram, unigram, spec);
}

}  // namespace deepslice
