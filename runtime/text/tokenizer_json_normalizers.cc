// Normalizers of tokenizer.json.
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "runtime/text/charsmap.h"
#include "runtime/text/tokenizer_json_steps.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

constexpr std::pair<absl::string_view, NormalizerKind> kPlain[] = {
    {"NFC", NormalizerKind::kNfc},
    {"NFD", NormalizerKind::kNfd},
    {"NFKC", NormalizerKind::kNfkc},
    {"NFKD", NormalizerKind::kNfkd},
    {"Lowercase", NormalizerKind::kLowercase},
    {"StripAccents", NormalizerKind::kStripAccents},
    {"Nmt", NormalizerKind::kNmt},
    {"ByteLevel", NormalizerKind::kByteLevel}};

absl::Status ReadBert(const JsonAt& at, NormalizerStep* step) {
  DS_RETURN_IF_ERROR(
      at.OnlyMembers({"type", "clean_text", "handle_chinese_chars",
                      "strip_accents", "lowercase"}));
  step->kind = NormalizerKind::kBert;
  DS_ASSIGN_OR_RETURN(const bool clean, at.BoolOr("clean_text", true));
  DS_ASSIGN_OR_RETURN(const bool ideographs,
                      at.BoolOr("handle_chinese_chars", true));
  DS_ASSIGN_OR_RETURN(const bool lower, at.BoolOr("lowercase", true));
  // Null: as lowercase.
  DS_ASSIGN_OR_RETURN(const bool accents, at.BoolOr("strip_accents", lower));
  if (clean) step->flags |= NormalizerStep::kBertClean;
  if (ideographs) step->flags |= NormalizerStep::kBertIdeographs;
  if (accents) step->flags |= NormalizerStep::kBertStripAccents;
  if (lower) step->flags |= NormalizerStep::kBertLowercase;
  return absl::OkStatus();
}

absl::Status ReadCharsmap(const JsonAt& at, NormalizerStep* step) {
  DS_RETURN_IF_ERROR(at.OnlyMembers({"type", "precompiled_charsmap"}));
  step->kind = NormalizerKind::kCharsmap;
  const JsonAt m = at.Member("precompiled_charsmap");
  DS_ASSIGN_OR_RETURN(const std::string text,
                      at.String("precompiled_charsmap"));
  if (!absl::Base64Unescape(text, &step->content)) {
    return m.Invalid("is no base64; copy the file again");
  }
  return Annotate(Charsmap::Parse(step->content).status(),
                  "tokenizer.json: ", m.path);
}

absl::Status ReadStep(const JsonAt& at, absl::string_view type,
                      NormalizerStep* step) {
  for (const auto& [name, kind] : kPlain) {
    if (type != name) continue;
    step->kind = kind;
    return at.OnlyMembers({"type"});
  }
  if (type == "BertNormalizer") return ReadBert(at, step);
  if (type == "Precompiled") return ReadCharsmap(at, step);
  if (type == "Strip") {
    DS_RETURN_IF_ERROR(at.OnlyMembers({"type", "strip_left", "strip_right"}));
    step->kind = NormalizerKind::kStrip;
    DS_ASSIGN_OR_RETURN(const bool left, at.BoolOr("strip_left", true));
    DS_ASSIGN_OR_RETURN(const bool right, at.BoolOr("strip_right", true));
    if (left) step->flags |= NormalizerStep::kStripLeft;
    if (right) step->flags |= NormalizerStep::kStripRight;
    return absl::OkStatus();
  }
  if (type == "Replace") {
    DS_RETURN_IF_ERROR(at.OnlyMembers({"type", "pattern", "content"}));
    step->kind = NormalizerKind::kReplace;
    bool is_regex = false;
    DS_RETURN_IF_ERROR(
        ReadPattern(at.Member("pattern"), &step->pattern, &is_regex));
    if (is_regex) step->flags |= NormalizerStep::kIsRegex;
    DS_ASSIGN_OR_RETURN(step->content, at.String("content"));
    return absl::OkStatus();
  }
  if (type == "Prepend") {
    DS_RETURN_IF_ERROR(at.OnlyMembers({"type", "prepend"}));
    step->kind = NormalizerKind::kPrepend;
    DS_ASSIGN_OR_RETURN(step->content, at.String("prepend"));
    return absl::OkStatus();
  }
  return at.UnknownType(
      type,
      "BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, "
      "Precompiled, Prepend, Replace, Sequence, Strip and StripAccents");
}

}  // namespace

absl::Status ReadNormalizer(const JsonAt& at, TokenizerSpec* spec) {
  if (at.is_null()) return absl::OkStatus();
  DS_ASSIGN_OR_RETURN(const std::string type, at.Type());
  if (type == "Sequence") {
    return ReadJsonSequence(at, "normalizers", [&](const JsonAt& item) {
      return ReadNormalizer(item, spec);
    });
  }
  NormalizerStep step;
  DS_RETURN_IF_ERROR(ReadStep(at, type, &step));
  spec->normalizers.push_back(std::move(step));
  return at.CheckSteps(spec->normalizers.size());
}

}  // namespace deepslice
