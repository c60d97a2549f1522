// Pre-tokenizers and post-processors of tokenizer.json.
#include "runtime/text/tokenizer_json_steps.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

absl::Status ReadBehavior(const JsonAt& at, SplitBehavior* out) {
  DS_ASSIGN_OR_RETURN(const std::string behavior, at.String("behavior"));
  constexpr std::pair<absl::string_view, SplitBehavior> kNames[] = {
      {"Removed", SplitBehavior::kRemoved},
      {"Isolated", SplitBehavior::kIsolated},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous}};
  for (const auto& [name, value] : kNames) {
    if (behavior == name) {
      *out = value;
      return absl::OkStatus();
    }
  }
  return at.Member("behavior")
      .Invalid(
          absl::StrCat("is \"", behavior,
                       "\"; must be Removed, Isolated, MergedWithPrevious, "
                       "MergedWithNext or Contiguous"));
}

absl::Status ReadSplit(const JsonAt& at, PreTokenizerStep* step) {
  DS_RETURN_IF_ERROR(at.OnlyMembers({"type", "pattern", "behavior", "invert"}));
  step->kind = PreTokenizerKind::kSplit;
  DS_RETURN_IF_ERROR(
      ReadPattern(at.Member("pattern"), &step->pattern, &step->is_regex));
  DS_ASSIGN_OR_RETURN(step->invert, at.BoolOr("invert", false));
  return ReadBehavior(at, &step->behavior);
}

absl::Status ReadMetaspace(const JsonAt& at, PreTokenizerStep* step) {
  step->kind = PreTokenizerKind::kMetaspace;
  DS_RETURN_IF_ERROR(at.OnlyMembers({"type", "replacement", "prepend_scheme",
                                     "add_prefix_space", "split", "str_rep"}));
  DS_ASSIGN_OR_RETURN(step->pattern, at.Character("replacement"));
  DS_ASSIGN_OR_RETURN(step->prepend_scheme, ReadPrependScheme(at));
  DS_ASSIGN_OR_RETURN(step->split, at.BoolOr("split", true));
  return absl::OkStatus();
}

absl::Status ReadFixedLength(const JsonAt& at, PreTokenizerStep* step) {
  step->kind = PreTokenizerKind::kFixedLength;
  DS_RETURN_IF_ERROR(at.OnlyMembers({"type", "length"}));
  int64_t length = 5;
  if (!at.Member("length").is_null()) {
    DS_ASSIGN_OR_RETURN(length, at.Int("length"));
  }
  if (length < 1 || length > INT32_MAX) {
    return at.Member("length").Invalid(
        absl::StrCat("is ", length, "; must be 1 to ", INT32_MAX));
  }
  step->length = static_cast<uint32_t>(length);
  return absl::OkStatus();
}

// Steps that have no options.
absl::StatusOr<bool> ReadPlainStep(const JsonAt& at, absl::string_view type,
                                   PreTokenizerStep* step) {
  constexpr std::pair<absl::string_view, PreTokenizerKind> kNames[] = {
      {"BertPreTokenizer", PreTokenizerKind::kBert},
      {"Whitespace", PreTokenizerKind::kWhitespace},
      {"WhitespaceSplit", PreTokenizerKind::kWhitespaceSplit},
      {"UnicodeScripts", PreTokenizerKind::kUnicodeScripts}};
  for (const auto& [name, kind] : kNames) {
    if (type != name) continue;
    DS_RETURN_IF_ERROR(at.OnlyMembers({"type"}));
    step->kind = kind;
    return true;
  }
  return false;
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

absl::StatusOr<PrependScheme> ReadPrependScheme(const JsonAt& at) {
  // Older files say add_prefix_space.
  DS_ASSIGN_OR_RETURN(const bool prefix, at.BoolOr("add_prefix_space", true));
  const JsonAt m = at.Member("prepend_scheme");
  if (m.is_null()) {
    return prefix ? PrependScheme::kAlways : PrependScheme::kNever;
  }
  DS_ASSIGN_OR_RETURN(const std::string name, at.String("prepend_scheme"));
  if (name != "always" && name != "first" && name != "never") {
    return m.Invalid(
        absl::StrCat("is \"", name, "\"; must be always, first or never"));
  }
  if (!prefix && name == "always") {
    return m.Invalid(
        "is \"always\", but add_prefix_space is false; make them agree");
  }
  return !prefix || name == "never" ? PrependScheme::kNever
         : name == "first"          ? PrependScheme::kFirst
                                    : PrependScheme::kAlways;
}

absl::Status ReadPreTokenizer(const JsonAt& at, TokenizerSpec* spec) {
  if (at.is_null()) return absl::OkStatus();
  DS_ASSIGN_OR_RETURN(const std::string type, at.Type());
  if (type == "Sequence") {
    return ReadJsonSequence(at, "pretokenizers", [&](const JsonAt& item) {
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
  } else if (type == "Metaspace") {
    DS_RETURN_IF_ERROR(ReadMetaspace(at, &step));
  } else if (type == "Punctuation") {
    DS_RETURN_IF_ERROR(at.OnlyMembers({"type", "behavior"}));
    step.kind = PreTokenizerKind::kPunctuation;
    if (!at.Member("behavior").is_null()) {
      DS_RETURN_IF_ERROR(ReadBehavior(at, &step.behavior));
    }
  } else if (type == "CharDelimiterSplit") {
    DS_RETURN_IF_ERROR(at.OnlyMembers({"type", "delimiter"}));
    step.kind = PreTokenizerKind::kDelimiter;
    DS_ASSIGN_OR_RETURN(step.pattern, at.Character("delimiter"));
  } else if (type == "FixedLength") {
    DS_RETURN_IF_ERROR(ReadFixedLength(at, &step));
  } else {
    DS_ASSIGN_OR_RETURN(const bool known, ReadPlainStep(at, type, &step));
    if (!known) {
      return at.UnknownType(
          type,
          "BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, "
          "FixedLength, Metaspace, Punctuation, Sequence, Split, "
          "UnicodeScripts, Whitespace and WhitespaceSplit");
    }
  }
  spec->pre_tokenizers.push_back(std::move(step));
  return at.CheckSteps(spec->pre_tokenizers.size());
}

absl::Status ReadPostProcessor(const JsonAt& at, TokenizerSpec* spec) {
  if (at.is_null()) return absl::OkStatus();
  DS_ASSIGN_OR_RETURN(const std::string type, at.Type());
  // ByteLevel changes offsets of tokens, never ids.
  if (type == "ByteLevel") return absl::OkStatus();
  if (type == "Sequence") {
    return ReadJsonSequence(at, "processors", [&](const JsonAt& item) {
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
    return at.UnknownType(type,
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

}  // namespace deepslice
