// Normalizers, pre-tokenizers, post-processors and decoders of tokenizer.json.
#include "runtime/text/tokenizer_json_steps.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/text/pcre_regex.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {

JsonAt JsonAt::Member(absl::string_view key) const {
  return {value ? value->Find(key) : nullptr,
          path.empty() ? std::string(key) : absl::StrCat(path, ".", key)};
}

JsonAt JsonAt::Item(size_t index) const {
  return {&value->items()[index], absl::StrCat(path, "[", index, "]")};
}

absl::Status JsonAt::Invalid(absl::string_view what) const {
  return absl::InvalidArgumentError(
      absl::StrCat("tokenizer.json: ", path, ": ", what));
}

absl::Status JsonAt::NotSupported(absl::string_view what) const {
  return absl::UnimplementedError(
      absl::StrCat("tokenizer.json: ", path, ": ", what));
}

absl::Status JsonAt::Expect(json::Kind kind) const {
  if (value && value->kind() == kind) return absl::OkStatus();
  return Invalid(absl::StrCat("is ",
                              value ? json::KindName(value->kind()) : "missing",
                              "; must be ", json::KindName(kind)));
}

absl::StatusOr<bool> JsonAt::BoolOr(absl::string_view key,
                                    bool fallback) const {
  const JsonAt m = Member(key);
  if (m.is_null()) return fallback;
  DS_RETURN_IF_ERROR(m.Expect(json::Kind::kBool));
  return m.value->as_bool();
}

absl::StatusOr<std::string> JsonAt::String(absl::string_view key) const {
  const JsonAt m = Member(key);
  DS_RETURN_IF_ERROR(m.Expect(json::Kind::kString));
  return m.value->as_string();
}

absl::StatusOr<int64_t> JsonAt::Int(absl::string_view key) const {
  const JsonAt m = Member(key);
  DS_RETURN_IF_ERROR(m.Expect(json::Kind::kInt));
  return m.value->as_int();
}

absl::StatusOr<JsonAt> JsonAt::Array(absl::string_view key) const {
  JsonAt m = Member(key);
  DS_RETURN_IF_ERROR(m.Expect(json::Kind::kArray));
  return m;
}

absl::Status JsonAt::OnlyMembers(
    std::initializer_list<absl::string_view> known) const {
  for (const json::Value::Member& m : value->members()) {
    if (std::find(known.begin(), known.end(), m.first) == known.end()) {
      return Member(m.first).NotSupported(
          "this option is not known; only files without it can be read");
    }
  }
  return absl::OkStatus();
}

namespace {

absl::StatusOr<std::string> Type(const JsonAt& at) {
  DS_RETURN_IF_ERROR(at.Expect(json::Kind::kObject));
  return at.String("type");
}

absl::Status UnknownType(const JsonAt& at, absl::string_view type,
                         absl::string_view supported) {
  return at.NotSupported(absl::StrCat(
      "type \"", type, "\" is not supported; supported are ", supported));
}

// Reads each member of a Sequence with `read`.
template <typename Read>
absl::Status ReadSequence(const JsonAt& at, absl::string_view key, Read read) {
  DS_RETURN_IF_ERROR(at.OnlyMembers({"type", key}));
  DS_ASSIGN_OR_RETURN(const JsonAt list, at.Array(key));
  // A plan holds at most 64 steps of a kind.
  if (list.value->items().size() > 32) {
    return list.Invalid("has more than 32 steps; at most 32 are allowed");
  }
  for (size_t i = 0; i < list.value->items().size(); ++i) {
    DS_RETURN_IF_ERROR(read(list.Item(i)));
  }
  return absl::OkStatus();
}

absl::Status CheckSteps(const JsonAt& at, size_t steps) {
  return steps <= 32 ? absl::OkStatus()
                     : at.Invalid("has more than 32 steps in all");
}

absl::Status ReadSplit(const JsonAt& at, PreTokenizerStep* step) {
  DS_RETURN_IF_ERROR(at.OnlyMembers({"type", "pattern", "behavior", "invert"}));
  step->kind = PreTokenizerKind::kSplit;
  const JsonAt pattern = at.Member("pattern");
  DS_RETURN_IF_ERROR(pattern.Expect(json::Kind::kObject));
  DS_RETURN_IF_ERROR(pattern.OnlyMembers({"Regex", "String"}));
  step->is_regex = pattern.value->Find("Regex") != nullptr;
  DS_ASSIGN_OR_RETURN(step->pattern,
                      pattern.String(step->is_regex ? "Regex" : "String"));
  if (step->pattern.empty()) return pattern.Invalid("is empty");
  if (step->is_regex) {
    DS_RETURN_IF_ERROR(Annotate(Regex::Compile(step->pattern).status(),
                                "tokenizer.json: ", pattern.path, ".Regex"));
  }
  DS_ASSIGN_OR_RETURN(step->invert, at.BoolOr("invert", false));
  DS_ASSIGN_OR_RETURN(const std::string behavior, at.String("behavior"));
  constexpr std::pair<absl::string_view, SplitBehavior> kNames[] = {
      {"Removed", SplitBehavior::kRemoved},
      {"Isolated", SplitBehavior::kIsolated},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous}};
  for (const auto& [name, value] : kNames) {
    if (behavior == name) {
      step->behavior = value;
      return absl::OkStatus();
    }
  }
  return at.Member("behavior")
      .Invalid(
          absl::StrCat("is \"", behavior,
                       "\"; must be Removed, Isolated, MergedWithPrevious, "
                       "MergedWithNext or Contiguous"));
}

// ["[SEP]", 102] of BertProcessing and RobertaProcessing.
absl::StatusOr<int32_t> PairId(const JsonAt& at, const TokenizerSpec& spec) {
  DS_RETURN_IF_ERROR(at.Expect(json::Kind::kArray));
  if (at.value->items().size() != 2 || !at.value->items()[1].is_int()) {
    return at.Invalid("must be a token and its id");
  }
  const int64_t id = at.value->items()[1].as_int();
  if (id < 0 || id >= spec.vocab_size()) {
    return at.Invalid(absl::StrCat("id ", id, " is outside the vocabulary of ",
                                   spec.vocab_size(), " tokens"));
  }
  return static_cast<int32_t>(id);
}

absl::StatusOr<std::vector<int32_t>> TemplateIds(const JsonAt& processor,
                                                 absl::string_view name,
                                                 const TokenizerSpec& spec) {
  const JsonAt entry = processor.Member("special_tokens").Member(name);
  DS_RETURN_IF_ERROR(entry.Expect(json::Kind::kObject));
  DS_ASSIGN_OR_RETURN(const JsonAt ids, entry.Array("ids"));
  std::vector<int32_t> out;
  for (size_t i = 0; i < ids.value->items().size(); ++i) {
    const JsonAt item = ids.Item(i);
    DS_RETURN_IF_ERROR(item.Expect(json::Kind::kInt));
    const int64_t id = item.value->as_int();
    if (id < 0 || id >= spec.vocab_size()) {
      return item.Invalid(absl::StrCat(id, " is outside the vocabulary of ",
                                       spec.vocab_size(), " tokens"));
    }
    out.push_back(static_cast<int32_t>(id));
  }
  return out;
}

// Ids before and after the one sequence that the template holds.
absl::Status ReadTemplate(const JsonAt& at, const TokenizerSpec& spec,
                          std::vector<int32_t>* prefix,
                          std::vector<int32_t>* suffix) {
  DS_RETURN_IF_ERROR(
      at.OnlyMembers({"type", "single", "pair", "special_tokens"}));
  DS_ASSIGN_OR_RETURN(const JsonAt single, at.Array("single"));
  bool after = false;
  for (size_t i = 0; i < single.value->items().size(); ++i) {
    const JsonAt piece = single.Item(i);
    DS_RETURN_IF_ERROR(piece.Expect(json::Kind::kObject));
    DS_RETURN_IF_ERROR(piece.OnlyMembers({"SpecialToken", "Sequence"}));
    if (piece.value->Find("Sequence")) {
      DS_ASSIGN_OR_RETURN(const std::string id,
                          piece.Member("Sequence").String("id"));
      if (after || id != "A") {
        return piece.NotSupported(
            "the template of one text must hold sequence A once");
      }
      after = true;
      continue;
    }
    DS_ASSIGN_OR_RETURN(const std::string name,
                        piece.Member("SpecialToken").String("id"));
    DS_ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                        TemplateIds(at, name, spec));
    std::vector<int32_t>* out = after ? suffix : prefix;
    out->insert(out->end(), ids.begin(), ids.end());
  }
  if (!after) return single.NotSupported("the template has no sequence A");
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadNormalizer(const JsonAt& at, TokenizerSpec* spec) {
  if (at.is_null()) return absl::OkStatus();
  DS_ASSIGN_OR_RETURN(const std::string type, Type(at));
  if (type == "Sequence") {
    return ReadSequence(at, "normalizers", [&](const JsonAt& item) {
      return ReadNormalizer(item, spec);
    });
  }
  constexpr std::pair<absl::string_view, NormalizerKind> kNames[] = {
      {"NFC", NormalizerKind::kNfc},
      {"NFD", NormalizerKind::kNfd},
      {"NFKC", NormalizerKind::kNfkc},
      {"NFKD", NormalizerKind::kNfkd}};
  for (const auto& [name, kind] : kNames) {
    if (type != name) continue;
    DS_RETURN_IF_ERROR(at.OnlyMembers({"type"}));
    spec->normalizers.push_back(kind);
    return CheckSteps(at, spec->normalizers.size());
  }
  return UnknownType(at, type, "NFC, NFD, NFKC, NFKD and Sequence");
}

absl::Status ReadPreTokenizer(const JsonAt& at, TokenizerSpec* spec) {
  if (at.is_null()) return absl::OkStatus();
  DS_ASSIGN_OR_RETURN(const std::string type, Type(at));
  if (type == "Sequence") {
    return ReadSequence(at, "pretokenizers", [&](const JsonAt& item) {
      return ReadPreTokenizer(item, spec);
    });
  }
  PreTokenizerStep step;
  if (type == "Split") {
    DS_RETURN_IF_ERROR(ReadSplit(at, &step));
  } else if (type == "Digits") {
    DS_RETURN_IF_ERROR(at.OnlyMembers({"type", "individual_digits"}));
    step.kind = PreTokenizerKind::kDigits;
    DS_ASSIGN_OR_RETURN(step.individual_digits,
                        at.BoolOr("individual_digits", false));
  } else if (type == "ByteLevel") {
    DS_RETURN_IF_ERROR(at.OnlyMembers(
        {"type", "add_prefix_space", "trim_offsets", "use_regex"}));
    step.kind = PreTokenizerKind::kByteLevel;
    DS_ASSIGN_OR_RETURN(step.add_prefix_space,
                        at.BoolOr("add_prefix_space", true));
    DS_ASSIGN_OR_RETURN(step.use_regex, at.BoolOr("use_regex", true));
  } else {
    return UnknownType(at, type, "ByteLevel, Digits, Split and Sequence");
  }
  spec->pre_tokenizers.push_back(std::move(step));
  return CheckSteps(at, spec->pre_tokenizers.size());
}

absl::Status ReadPostProcessor(const JsonAt& at, TokenizerSpec* spec) {
  if (at.is_null()) return absl::OkStatus();
  DS_ASSIGN_OR_RETURN(const std::string type, Type(at));
  // ByteLevel changes offsets of tokens, never ids.
  if (type == "ByteLevel") return absl::OkStatus();
  if (type == "Sequence") {
    return ReadSequence(at, "processors", [&](const JsonAt& item) {
      return ReadPostProcessor(item, spec);
    });
  }
  std::vector<int32_t> prefix, suffix;
  if (type == "TemplateProcessing") {
    DS_RETURN_IF_ERROR(ReadTemplate(at, *spec, &prefix, &suffix));
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    DS_RETURN_IF_ERROR(at.OnlyMembers(
        {"type", "sep", "cls", "trim_offsets", "add_prefix_space"}));
    DS_ASSIGN_OR_RETURN(const int32_t cls, PairId(at.Member("cls"), *spec));
    DS_ASSIGN_OR_RETURN(const int32_t sep, PairId(at.Member("sep"), *spec));
    prefix = {cls};
    suffix = {sep};
  } else {
    return UnknownType(at, type,
                       "BertProcessing, ByteLevel, RobertaProcessing, "
                       "TemplateProcessing and Sequence");
  }
  // A later processor wraps what the ones before it made.
  spec->prefix_ids.insert(spec->prefix_ids.begin(), prefix.begin(),
                          prefix.end());
  spec->suffix_ids.insert(spec->suffix_ids.end(), suffix.begin(), suffix.end());
  if (spec->prefix_ids.size() + spec->suffix_ids.size() > 1000) {
    return at.Invalid("adds more than 1000 tokens; at most 1000 are allowed");
  }
  return absl::OkStatus();
}

absl::Status ReadDecoder(const JsonAt& at, TokenizerSpec* spec) {
  if (at.is_null()) return absl::OkStatus();
  DS_ASSIGN_OR_RETURN(const std::string type, Type(at));
  if (type == "Sequence") {
    return ReadSequence(at, "decoders", [&](const JsonAt& item) {
      return ReadDecoder(item, spec);
    });
  }
  if (type == "ByteLevel") {
    DS_RETURN_IF_ERROR(at.OnlyMembers(
        {"type", "add_prefix_space", "trim_offsets", "use_regex"}));
    spec->decoders.push_back(DecoderKind::kByteLevel);
  } else if (type == "Fuse") {
    spec->decoders.push_back(DecoderKind::kFuse);
  } else {
    return UnknownType(at, type, "ByteLevel, Fuse and Sequence");
  }
  return CheckSteps(at, spec->decoders.size());
}

}  // namespace deepslice
