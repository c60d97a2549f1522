// sentencepiece's rules as spec fields; its BPE merges whatever gives a piece,
// so that all splits of every piece become merges, ranked by score.
#include "runtime/text/sentencepiece_spec.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "runtime/text/charsmap.h"
#include "runtime/text/utf8.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

bool InText(PieceType type) {
  return type == PieceType::kNormal || type == PieceType::kUserDefined ||
         type == PieceType::kUnused;
}

absl::Status MakeMerges(const SentencePieceModel& model, TokenizerSpec* spec) {
  absl::flat_hash_map<absl::string_view, int32_t> symbols;
  std::vector<int32_t> order;
  for (size_t i = 0; i < model.pieces.size(); ++i) {
    if (!InText(model.pieces[i].type)) continue;
    symbols.emplace(model.pieces[i].text, static_cast<int32_t>(i));
    order.push_back(static_cast<int32_t>(i));
  }
  const auto score = [&](int32_t id) { return model.pieces[id].score; };
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return score(a) > score(b); });
  // A part of a piece as a symbol: a piece, or one character; -1: neither.
  const auto symbol = [&](absl::string_view text) {
    const auto it = symbols.find(text);
    if (it != symbols.end()) return it->second;
    const CodePoint c = DecodeUtf8(text, 0);
    if (c.size != text.size()) return -1;
    const int32_t id =
        spec->vocab_size() + static_cast<int32_t>(spec->extra_symbols.size());
    spec->extra_symbols.push_back(c.value);
    symbols.emplace(text, id);
    return id;
  };
  for (size_t k = 0; k < order.size(); ++k) {
    const absl::string_view text = model.pieces[order[k]].text;
    for (size_t pos = DecodeUtf8(text, 0).size; pos < text.size();
         pos += DecodeUtf8(text, pos).size) {
      const int32_t left = symbol(text.substr(0, pos));
      if (left < 0) continue;
      const int32_t right = symbol(text.substr(pos));
      if (right < 0) continue;
      const bool same = !spec->merges.empty() &&
                        score(spec->merges.back().merged) == score(order[k]);
      spec->merges.push_back({left, right, order[k], same});
      if (static_cast<int64_t>(spec->merges.size()) >
          limits::kTokenizerMerges) {
        return absl::InvalidArgumentError(
            absl::StrCat("the pieces give more than ", limits::kTokenizerMerges,
                         " merges; no more are allowed"));
      }
    }
  }
  return absl::OkStatus();
}

void AddDecoders(const SentencePieceModel& model, ControlTokens control,
                 TokenizerSpec* spec) {
  if (control == ControlTokens::kText) {
    DecoderStep step{DecoderKind::kSentencePiece};
    step.content = model.unk_surface;
    if (model.add_dummy_prefix) step.flags |= DecoderStep::kSpmDropSpace;
    if (model.remove_extra_whitespaces) {
      step.flags |= DecoderStep::kSpmDropSpaces;
    }
    spec->decoders = {step};
    return;
  }
  if (model.kind == SentencePieceModel::kUnigram && !model.byte_fallback) {
    DecoderStep step{DecoderKind::kMetaspace, 0, "\xE2\x96\x81"};
    step.start = model.add_dummy_prefix;
    spec->decoders = {step};
    return;
  }
  spec->decoders = {{DecoderKind::kReplace, 0, "\xE2\x96\x81", " "},
                    {DecoderKind::kByteFallback},
                    {DecoderKind::kFuse}};
  if (model.add_dummy_prefix) {
    spec->decoders.push_back({DecoderKind::kStrip, 0, " ", "", 1, 0});
  }
}

}  // namespace

absl::Status AddPieces(const SentencePieceModel& model, ControlTokens control,
                       TokenizerBuilder* builder) {
  builder->Expect(model.pieces.size());
  for (size_t i = 0; i < model.pieces.size(); ++i) {
    const SentencePieceModel::Piece& p = model.pieces[i];
    const auto id = static_cast<int64_t>(i);
    switch (p.type) {
      case PieceType::kNormal:
        DS_RETURN_IF_ERROR(builder->AddModelToken(p.text, id));
        break;
      case PieceType::kUserDefined:
        DS_RETURN_IF_ERROR(
            builder->AddModelToken(p.text, id, kTokenUserDefined));
        break;
      case PieceType::kUnused:
        DS_RETURN_IF_ERROR(builder->AddModelToken(p.text, id, kTokenUnused));
        break;
      case PieceType::kByte:
        DS_RETURN_IF_ERROR(builder->AddNamedToken(p.text, id, 0));
        break;
      case PieceType::kUnknown:
      case PieceType::kControl:
        DS_RETURN_IF_ERROR(builder->AddNamedToken(
            p.text, id,
            control == ControlTokens::kText && p.type == PieceType::kControl
                ? kTokenSpecial
                : 0));
        break;
    }
  }
  return absl::OkStatus();
}

absl::Status FillSentencePieceSpec(const SentencePieceModel& model,
                                   ControlTokens control, TokenizerSpec* spec) {
  if (model.kind != SentencePieceModel::kUnigram &&
      model.kind != SentencePieceModel::kBpe) {
    return absl::UnimplementedError(absl::StrCat(
        "trainer_spec.model_type is ", static_cast<int>(model.kind),
        model.kind == SentencePieceModel::kWord ? " (word)" : " (char)",
        ", which is not supported; supported are 1 (unigram) and 2 (bpe)"));
  }
  if (model.denormalizes) {
    return absl::UnimplementedError(
        "denormalizer_spec has a character map, which is not supported; only "
        "models without one are");
  }
  spec->sentencepiece = true;
  spec->fuse_unk = true;
  spec->byte_fallback = model.byte_fallback;
  spec->unk_id = model.unk_id;
  if (model.kind == SentencePieceModel::kBpe) {
    spec->model = ModelKind::kBpe;
    DS_RETURN_IF_ERROR(MakeMerges(model, spec));
  } else {
    spec->model = ModelKind::kUnigram;
    for (const auto& p : model.pieces) spec->scores.push_back(p.score);
    spec->scores.resize(spec->token_ends.size());
  }
  NormalizerStep step{NormalizerKind::kSentencePiece};
  if (model.add_dummy_prefix) step.flags |= NormalizerStep::kSpmDummyPrefix;
  if (model.remove_extra_whitespaces) {
    step.flags |= NormalizerStep::kSpmRemoveExtra;
  }
  if (model.escape_whitespaces) step.flags |= NormalizerStep::kSpmEscape;
  if (model.whitespace_as_suffix) step.flags |= NormalizerStep::kSpmSuffix;
  if (!model.charsmap.empty()) {
    DS_RETURN_IF_ERROR(Annotate(Charsmap::Parse(model.charsmap).status(),
                                "normalizer_spec.precompiled_charsmap"));
  }
  step.content = model.charsmap;
  spec->normalizers = {step};
  AddDecoders(model, control, spec);
  return absl::OkStatus();
}

}  // namespace deepslice
