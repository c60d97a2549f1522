// Decoders of tokenizer.json.
#include "absl/strings/str_cat.h"
#include "runtime/text/tokenizer_json_steps.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

absl::Status ReadStrip(const JsonAt& at, DecoderStep* step) {
  DS_RETURN_IF_ERROR(at.OnlyMembers({"type", "content", "start", "stop"}));
  step->kind = DecoderKind::kStrip;
  DS_ASSIGN_OR_RETURN(step->pattern, at.Character("content"));
  for (const bool first : {true, false}) {
    const absl::string_view key = first ? "start" : "stop";
    DS_ASSIGN_OR_RETURN(const int64_t n, at.Int(key));
    if (n < 0 || n > INT32_MAX) {
      return at.Member(key).Invalid(
          absl::StrCat("is ", n, "; must be 0 to ", INT32_MAX));
    }
    (first ? step->start : step->stop) = static_cast<uint32_t>(n);
  }
  return absl::OkStatus();
}

absl::Status ReadCtc(const JsonAt& at, DecoderStep* step) {
  DS_RETURN_IF_ERROR(
      at.OnlyMembers({"type", "pad_token", "word_delimiter_token", "cleanup"}));
  step->kind = DecoderKind::kCtc;
  DS_ASSIGN_OR_RETURN(step->pattern, at.String("pad_token"));
  DS_ASSIGN_OR_RETURN(step->content, at.String("word_delimiter_token"));
  if (step->pattern.empty() || step->content.empty()) {
    return at.Invalid("pad_token and word_delimiter_token must not be empty");
  }
  DS_ASSIGN_OR_RETURN(const bool cleanup, at.BoolOr("cleanup", true));
  if (cleanup) step->flags |= DecoderStep::kCleanup;
  return absl::OkStatus();
}

absl::Status ReadStep(const JsonAt& at, absl::string_view type,
                      DecoderStep* step) {
  if (type == "ByteLevel") {
    step->kind = DecoderKind::kByteLevel;
    return at.OnlyMembers(
        {"type", "add_prefix_space", "trim_offsets", "use_regex"});
  }
  if (type == "Fuse" || type == "ByteFallback") {
    step->kind =
        type == "Fuse" ? DecoderKind::kFuse : DecoderKind::kByteFallback;
    return at.OnlyMembers({"type"});
  }
  if (type == "Replace") {
    DS_RETURN_IF_ERROR(at.OnlyMembers({"type", "pattern", "content"}));
    step->kind = DecoderKind::kReplace;
    bool is_regex = false;
    DS_RETURN_IF_ERROR(
        ReadPattern(at.Member("pattern"), &step->pattern, &is_regex));
    if (is_regex) step->flags |= DecoderStep::kIsRegex;
    DS_ASSIGN_OR_RETURN(step->content, at.String("content"));
    return absl::OkStatus();
  }
  if (type == "Strip") return ReadStrip(at, step);
  if (type == "CTC") return ReadCtc(at, step);
  if (type == "Metaspace") {
    DS_RETURN_IF_ERROR(
        at.OnlyMembers({"type", "replacement", "prepend_scheme",
                        "add_prefix_space", "split", "str_rep"}));
    step->kind = DecoderKind::kMetaspace;
    DS_ASSIGN_OR_RETURN(step->pattern, at.Character("replacement"));
    DS_ASSIGN_OR_RETURN(const PrependScheme scheme, ReadPrependScheme(at));
    step->start = scheme != PrependScheme::kNever;
    return absl::OkStatus();
  }
  if (type == "WordPiece") {
    DS_RETURN_IF_ERROR(at.OnlyMembers({"type", "prefix", "cleanup"}));
    step->kind = DecoderKind::kWordPiece;
    DS_ASSIGN_OR_RETURN(step->pattern, at.String("prefix"));
    DS_ASSIGN_OR_RETURN(const bool cleanup, at.BoolOr("cleanup", true));
    if (cleanup) step->flags |= DecoderStep::kCleanup;
    return absl::OkStatus();
  }
  if (type == "BPEDecoder") {
    DS_RETURN_IF_ERROR(at.OnlyMembers({"type", "suffix"}));
    step->kind = DecoderKind::kBpe;
    DS_ASSIGN_OR_RETURN(step->pattern, at.String("suffix"));
    if (step->pattern.empty()) return at.Member("suffix").Invalid("is empty");
    return absl::OkStatus();
  }
  return at.UnknownType(
      type,
      "BPEDecoder, ByteFallback, ByteLevel, CTC, Fuse, Metaspace, Replace, "
      "Sequence, Strip and WordPiece");
}

}  // namespace

absl::Status ReadDecoder(const JsonAt& at, TokenizerSpec* spec) {
  if (at.is_null()) return absl::OkStatus();
  DS_ASSIGN_OR_RETURN(const std::string type, at.Type());
  if (type == "Sequence") {
    return ReadJsonSequence(at, "decoders", [&](const JsonAt& item) {
      return ReadDecoder(item, spec);
    });
  }
  DecoderStep step;
  DS_RETURN_IF_ERROR(ReadStep(at, type, &step));
  spec->decoders.push_back(std::move(step));
  return at.CheckSteps(spec->decoders.size());
}

}  // namespace deepslice
