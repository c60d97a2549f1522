// Pre-tokenizer steps: split by pattern, digits, byte level.
#include "runtime/text/pre_tokenize.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/text/byte_level.h"
#include "runtime/text/unicode_class.h"
#include "runtime/text/utf8.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using Piece = PreTokens::Piece;

// GPT-2's cut into words, numbers, other characters and white space.
constexpr absl::string_view kByteLevelPattern =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"
    "\\s+(?!\\S)|\\s+";

struct Match {
  Piece piece;
  bool is_match;
};

// All of `text` as matches and the stretches between them.
absl::Status FindRegex(Regex::Matcher& matcher, absl::string_view text,
                       std::vector<Match>* out) {
  uint32_t previous = 0;  // end of the last match
  bool any = false;
  size_t pos = 0;
  const uint32_t size = static_cast<uint32_t>(text.size());
  while (pos <= text.size()) {
    size_t end = 0;
    DS_ASSIGN_OR_RETURN(bool found, matcher.MatchAt(text, pos, &end));
    // An empty match right after a match would not get on.
    if (found && end == pos && any && previous == pos) found = false;
    if (found) {
      const auto begin = static_cast<uint32_t>(pos);
      if (begin > previous) out->push_back({{previous, begin}, false});
      previous = static_cast<uint32_t>(end);
      any = true;
      out->push_back({{begin, previous}, true});
      if (end > pos) {
        pos = end;
        continue;
      }
    }
    if (pos >= text.size()) break;
    pos += DecodeUtf8(text, pos).size;
  }
  if (previous < size) out->push_back({{previous, size}, false});
  return absl::OkStatus();
}

void FindLiteral(absl::string_view literal, absl::string_view text,
                 std::vector<Match>* out) {
  size_t previous = 0;
  for (size_t pos; (pos = text.find(literal, previous)) != text.npos;) {
    if (pos > previous) {
      out->push_back(
          {{static_cast<uint32_t>(previous), static_cast<uint32_t>(pos)},
           false});
    }
    previous = pos + literal.size();
    out->push_back(
        {{static_cast<uint32_t>(pos), static_cast<uint32_t>(previous)}, true});
  }
  if (previous < text.size()) {
    out->push_back(
        {{static_cast<uint32_t>(previous), static_cast<uint32_t>(text.size())},
         false});
  }
}

void FindDigits(absl::string_view text, std::vector<Match>* out) {
  uint32_t previous = 0;
  for (size_t pos = 0; pos < text.size();) {
    const CodePoint c = DecodeUtf8(text, pos);
    const auto begin = static_cast<uint32_t>(pos);
    pos += c.size;
    if (!IsNumeric(c.value)) continue;
    if (begin > previous) out->push_back({{previous, begin}, false});
    previous = static_cast<uint32_t>(pos);
    out->push_back({{begin, previous}, true});
  }
  if (previous < text.size()) {
    out->push_back({{previous, static_cast<uint32_t>(text.size())}, false});
  }
}

// Joins neighbours as `behavior` says; `matches` are in text order.
void Apply(const std::vector<Match>& matches, SplitBehavior behavior,
           bool invert, std::vector<Piece>* out) {
  std::vector<Piece> pieces;
  bool previous = false;
  switch (behavior) {
    case SplitBehavior::kIsolated:
      for (const Match& m : matches) pieces.push_back(m.piece);
      break;
    case SplitBehavior::kRemoved:
      for (const Match& m : matches) {
        if (m.is_match == invert) pieces.push_back(m.piece);
      }
      break;
    case SplitBehavior::kContiguous:
    case SplitBehavior::kMergedWithPrevious:
      for (const Match& m : matches) {
        const bool is_match = m.is_match != invert;
        const bool join = behavior == SplitBehavior::kContiguous
                              ? is_match == previous
                              : is_match && !previous;
        if (join && !pieces.empty()) {
          pieces.back().end = m.piece.end;
        } else {
          pieces.push_back(m.piece);
        }
        previous = is_match;
      }
      break;
    case SplitBehavior::kMergedWithNext:
      for (auto m = matches.rbegin(); m != matches.rend(); ++m) {
        const bool is_match = m->is_match != invert;
        if (is_match && !previous && !pieces.empty()) {
          pieces.back().begin = m->piece.begin;
        } else {
          pieces.push_back(m->piece);
        }
        previous = is_match;
      }
      std::reverse(pieces.begin(), pieces.end());
      break;
  }
  for (const Piece& p : pieces) {
    if (p.end > p.begin) out->push_back(p);
  }
}

// Gives each piece a leading space where it has none.
void AddPrefixSpaces(PreTokens* t) {
  std::string text;
  text.reserve(t->text.size() + t->pieces.size());
  for (Piece& p : t->pieces) {
    const auto begin = static_cast<uint32_t>(text.size());
    if (t->text[p.begin] != ' ') text.push_back(' ');
    text.append(t->text, p.begin, p.end - p.begin);
    p = {begin, static_cast<uint32_t>(text.size())};
  }
  t->text = std::move(text);
}

void RewriteAsByteLevel(PreTokens* t) {
  std::string text;
  for (Piece& p : t->pieces) {
    const auto begin = static_cast<uint32_t>(text.size());
    AppendByteLevel(absl::string_view(t->text).substr(p.begin, p.end - p.begin),
                    &text);
    p = {begin, static_cast<uint32_t>(text.size())};
  }
  t->text = std::move(text);
}

// Cuts the pieces at every match and at every border of matches, without the
// lists that the other behaviours need.
absl::Status CutIsolated(Regex::Matcher& matcher, absl::string_view text,
                         uint32_t base, std::vector<Piece>* out) {
  size_t pos = 0, previous = 0;
  const auto push = [&](size_t begin, size_t end) {
    if (end > begin) {
      out->push_back({base + static_cast<uint32_t>(begin),
                      base + static_cast<uint32_t>(end)});
    }
  };
  while (pos < text.size()) {
    size_t end = 0;
    DS_ASSIGN_OR_RETURN(const bool found, matcher.MatchAt(text, pos, &end));
    if (found) {  // an empty match cuts as well
      push(previous, pos);
      push(pos, end);
      previous = end;
    }
    pos = found && end > pos ? end : pos + DecodeUtf8(text, pos).size;
  }
  push(previous, text.size());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PreTokenizer> PreTokenizer::Create(
    const std::vector<PreTokenizerStep>& steps) {
  PreTokenizer p;
  for (size_t i = 0; i < steps.size(); ++i) {
    Step step{steps[i], nullptr};
    const bool split = step.spec.kind == PreTokenizerKind::kSplit;
    // A literal that is not UTF-8 could cut a character in two.
    if (split &&
        (step.spec.pattern.empty() || !IsValidUtf8(step.spec.pattern))) {
      return absl::InvalidArgumentError(
          "a Split has a pattern that is empty or not UTF-8");
    }
    absl::string_view pattern;
    if (split && step.spec.is_regex) pattern = step.spec.pattern;
    if (step.spec.kind == PreTokenizerKind::kByteLevel && step.spec.use_regex) {
      pattern = kByteLevelPattern;
    }
    if (!pattern.empty()) {
      DS_ASSIGN_OR_RETURN(step.regex, Regex::Compile(pattern));
    }
    p.steps_.push_back(std::move(step));
  }
  p.raw_bytes_ =
      !steps.empty() && steps.back().kind == PreTokenizerKind::kByteLevel;
  return p;
}

absl::Status PreTokenizer::Run(PreTokens* out) const {
  out->pieces.clear();
  if (!out->text.empty()) {
    out->pieces.push_back({0, static_cast<uint32_t>(out->text.size())});
  }
  std::vector<Match> matches;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const PreTokenizerStep& spec = steps_[i].spec;
    const Regex* regex = steps_[i].regex.get();
    const bool byte_level = spec.kind == PreTokenizerKind::kByteLevel;
    if (byte_level && spec.add_prefix_space) AddPrefixSpaces(out);
    if (regex || !byte_level) {
      std::vector<Piece> cut;
      std::optional<Regex::Matcher> matcher;
      if (regex) matcher.emplace(*regex, out->text.size());
      for (const Piece& p : out->pieces) {
        const absl::string_view text =
            absl::string_view(out->text).substr(p.begin, p.end - p.begin);
        if (regex &&
            (byte_level || spec.behavior == SplitBehavior::kIsolated)) {
          DS_RETURN_IF_ERROR(CutIsolated(*matcher, text, p.begin, &cut));
          continue;
        }
        matches.clear();
        SplitBehavior behavior = spec.behavior;
        if (spec.kind == PreTokenizerKind::kDigits) {
          FindDigits(text, &matches);
          behavior = spec.individual_digits ? SplitBehavior::kIsolated
                                            : SplitBehavior::kContiguous;
        } else if (regex) {
          DS_RETURN_IF_ERROR(FindRegex(*matcher, text, &matches));
        } else {
          FindLiteral(spec.pattern, text, &matches);
        }
        const size_t first = cut.size();
        Apply(matches, behavior, spec.invert, &cut);
        for (size_t k = first; k < cut.size(); ++k) {
          cut[k].begin += p.begin;
          cut[k].end += p.begin;
        }
      }
      out->pieces = std::move(cut);
    }
    if (byte_level && i + 1 < steps_.size()) RewriteAsByteLevel(out);
  }
  return absl::OkStatus();
}

}  // namespace deepslice
