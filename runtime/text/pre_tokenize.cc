// Pre-tokenizer steps: some cut the pieces they are given, some rewrite them.
#include "runtime/text/pre_tokenize.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/text/byte_level.h"
#include "runtime/text/regex_matches.h"
#include "runtime/text/split_behavior.h"
#include "runtime/text/unicode_class.h"
#include "runtime/text/utf8.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using Piece = PreTokens::Piece;

void FindLiteral(absl::string_view literal, absl::string_view text,
                 SplitMatches* out) {
  for (size_t pos = 0; (pos = text.find(literal, pos)) != text.npos;) {
    out->Add(pos, pos + literal.size());
    pos += literal.size();
  }
}

void FindClass(uint16_t bits, absl::string_view text, SplitMatches* out) {
  const CharTable& chars = CharTable::Get();
  for (size_t pos = 0; pos < text.size();) {
    const CodePoint c = DecodeUtf8(text, pos);
    if (chars[c.value] & bits) out->Add(pos, pos + c.size);
    pos += c.size;
  }
}

// White space is dropped; what is between is cut as `cut` says.
enum class WordCut {
  kNone,
  kPunctuation,  // each punctuation character is a piece
  kWords,        // runs of word characters, and of others
};
void CutWords(absl::string_view text, uint32_t base, WordCut cut,
              std::vector<Piece>* out) {
  const CharTable& chars = CharTable::Get();
  size_t begin = 0;   // of the piece that goes on
  uint16_t kind = 0;  // of its characters
  const auto end_at = [&](size_t pos) {
    if (pos > begin && kind != kCharSpace) {
      out->push_back({base + static_cast<uint32_t>(begin),
                      base + static_cast<uint32_t>(pos)});
    }
    begin = pos;
  };
  for (size_t pos = 0; pos < text.size();) {
    const CodePoint c = DecodeUtf8(text, pos);
    const uint16_t bits = chars[c.value];
    uint16_t next = 1;
    bool alone = false;
    if (bits & kCharSpace) {
      next = kCharSpace;
    } else if (cut == WordCut::kPunctuation) {
      alone = (bits & kCharPunctuation) != 0;
    } else if (cut == WordCut::kWords && (bits & kCharWord)) {
      next = kCharWord;
    }
    if (next != kind || alone) end_at(pos);
    kind = next;
    pos += c.size;
    if (alone) {
      end_at(pos);
      kind = 0;
    }
  }
  end_at(text.size());
}

// Characters of any script in front of the first other one are dropped, as the
// published pre-tokenizer does.
void CutScripts(absl::string_view text, uint32_t base,
                std::vector<Piece>* out) {
  size_t begin = 0;
  uint8_t last = 0;  // script of the characters so far
  for (size_t pos = 0; pos < text.size();) {
    const CodePoint c = DecodeUtf8(text, pos);
    const uint8_t script = ScriptOf(c.value);
    if (script != 0 && script != last) {
      if (last != 0) {
        out->push_back({base + static_cast<uint32_t>(begin),
                        base + static_cast<uint32_t>(pos)});
      }
      begin = pos;
      last = script;
    }
    pos += c.size;
  }
  if (last != 0) {
    out->push_back({base + static_cast<uint32_t>(begin),
                    base + static_cast<uint32_t>(text.size())});
  }
}

void CutLengths(absl::string_view text, uint32_t base, uint32_t length,
                std::vector<Piece>* out) {
  size_t begin = 0;
  uint32_t count = 0;
  for (size_t pos = 0; pos < text.size();) {
    pos += DecodeUtf8(text, pos).size;
    if (++count < length && pos < text.size()) continue;
    out->push_back({base + static_cast<uint32_t>(begin),
                    base + static_cast<uint32_t>(pos)});
    begin = pos;
    count = 0;
  }
}

// Makes `text`, of whose bytes the pieces are already, the text. Pieces have
// 32 bits for a byte's place.
absl::Status Rewritten(std::string text, TextAllowance* allowance,
                       PreTokens* t) {
  DS_RETURN_IF_ERROR(allowance->Write(text.size()));
  if (text.size() > UINT32_MAX) {
    return absl::ResourceExhaustedError(
        "the pre-tokenized text has more than 4 GiB; encode a shorter one");
  }
  t->buffer = std::move(text);
  t->text = t->buffer;
  return absl::OkStatus();
}

// Gives each piece a leading space where it has none.
absl::Status AddPrefixSpaces(TextAllowance* allowance, PreTokens* t) {
  std::string text;
  text.reserve(t->text.size() + t->pieces.size());
  for (Piece& p : t->pieces) {
    const auto begin = static_cast<uint32_t>(text.size());
    if (t->text[p.begin] != ' ') text.push_back(' ');
    text.append(t->text.data() + p.begin, p.end - p.begin);
    p = {begin, static_cast<uint32_t>(text.size())};
  }
  return Rewritten(std::move(text), allowance, t);
}

absl::Status RewriteAsByteLevel(TextAllowance* allowance, PreTokens* t) {
  std::string text;
  for (Piece& p : t->pieces) {
    const auto begin = static_cast<uint32_t>(text.size());
    AppendByteLevel(t->text.substr(p.begin, p.end - p.begin), &text);
    p = {begin, static_cast<uint32_t>(text.size())};
  }
  return Rewritten(std::move(text), allowance, t);
}

// Writes spaces as the symbol of the step, one more in front of a piece where
// the step says so, and cuts before every symbol.
absl::Status RunMetaspace(const PreTokenizerStep& s, TextAllowance* allowance,
                          PreTokens* t) {
  const std::string& symbol = s.pattern;
  std::string text;
  text.reserve(t->text.size() + t->text.size() / 4 + symbol.size());
  std::vector<Piece> pieces;
  pieces.reserve(t->pieces.size());
  for (const Piece& p : t->pieces) {
    const absl::string_view in = t->text.substr(p.begin, p.end - p.begin);
    auto begin = static_cast<uint32_t>(text.size());
    const bool here = s.prepend_scheme == PrependScheme::kAlways ||
                      (s.prepend_scheme == PrependScheme::kFirst &&
                       t->at_start && p.begin == 0);
    if (here && in[0] != ' ' && !absl::StartsWith(in, symbol)) text += symbol;
    // Beyond what it may write there is only the error.
    for (size_t pos = 0; pos < in.size() && text.size() <= allowance->bytes;) {
      const bool space = in[pos] == ' ';
      if (!space && !absl::StartsWith(in.substr(pos), symbol)) {
        text.push_back(in[pos++]);
        continue;
      }
      // Only the last of several symbols goes with what follows.
      if (s.split && text.size() > begin) {
        pieces.push_back({begin, static_cast<uint32_t>(text.size())});
        begin = static_cast<uint32_t>(text.size());
      }
      text += symbol;
      pos += space ? 1 : symbol.size();
    }
    pieces.push_back({begin, static_cast<uint32_t>(text.size())});
  }
  t->pieces = std::move(pieces);
  return Rewritten(std::move(text), allowance, t);
}

// Cuts at every match and at every border of matches, without the lists that
// the other behaviours need.
absl::Status CutIsolated(Regex::Matcher& matcher, absl::string_view text,
                         uint32_t base, std::vector<Piece>* out) {
  size_t previous = 0;
  const auto push = [&](size_t begin, size_t end) {
    if (end > begin) {
      out->push_back({base + static_cast<uint32_t>(begin),
                      base + static_cast<uint32_t>(end)});
    }
  };
  DS_RETURN_IF_ERROR(ForEachMatch(matcher, text, [&](size_t begin, size_t end) {
    push(previous, begin);
    push(begin, end);
    previous = end;
    return true;
  }));
  push(previous, text.size());
  return absl::OkStatus();
}

void CutByScanner(SplitScanner scanner, absl::string_view text, uint32_t base,
                  std::vector<Piece>* out) {
  const CharTable& chars = CharTable::Get();
  for (size_t pos = 0; pos < text.size();) {
    const size_t end = scanner(chars, text, pos);
    out->push_back(
        {base + static_cast<uint32_t>(pos), base + static_cast<uint32_t>(end)});
    pos = end;
  }
}

}  // namespace

absl::StatusOr<PreTokenizer> PreTokenizer::Create(
    const std::vector<PreTokenizerStep>& steps) {
  PreTokenizer p;
  for (const PreTokenizerStep& spec : steps) {
    Step step{spec, nullptr, nullptr};
    const bool split = spec.kind == PreTokenizerKind::kSplit;
    // A literal that is not UTF-8 could cut a character in two.
    if ((split || spec.kind == PreTokenizerKind::kDelimiter ||
         spec.kind == PreTokenizerKind::kMetaspace) &&
        (spec.pattern.empty() || !IsValidUtf8(spec.pattern))) {
      return absl::InvalidArgumentError(
          "a pre-tokenizer has a pattern that is empty or not UTF-8");
    }
    if (spec.kind == PreTokenizerKind::kFixedLength && spec.length == 0) {
      return absl::InvalidArgumentError("a FixedLength has length 0");
    }
    absl::string_view pattern;
    if (split && spec.is_regex) pattern = spec.pattern;
    if (spec.kind == PreTokenizerKind::kByteLevel && spec.use_regex) {
      pattern = kGpt2Pattern;
    }
    if (!pattern.empty()) {
      // Where everything is a match, "isolated" keeps what the removal of the
      // rest keeps.
      const bool whole =
          !split || (spec.behavior == SplitBehavior::kIsolated) ||
          (spec.behavior == SplitBehavior::kRemoved && spec.invert);
      if (whole) step.scanner = FindSplitScanner(pattern);
      if (step.scanner == nullptr) {
        DS_ASSIGN_OR_RETURN(step.regex, Regex::Compile(pattern));
      }
    }
    p.steps_.push_back(std::move(step));
  }
  p.raw_bytes_ =
      !steps.empty() && steps.back().kind == PreTokenizerKind::kByteLevel;
  return p;
}

absl::Status PreTokenizer::Cut(const Step& step, TextAllowance* allowance,
                               PreTokens* out) {
  const PreTokenizerStep& spec = step.spec;
  std::vector<Piece> cut;
  cut.reserve(out->text.size() / 4 + 4);
  std::optional<Regex::Matcher> matcher;
  if (step.regex) matcher.emplace(*step.regex, allowance);
  const bool isolated = spec.kind == PreTokenizerKind::kByteLevel ||
                        spec.behavior == SplitBehavior::kIsolated;
  SplitMatches matches;
  for (const Piece& p : out->pieces) {
    const absl::string_view text = out->text.substr(p.begin, p.end - p.begin);
    if (step.scanner != nullptr) {
      CutByScanner(step.scanner, text, p.begin, &cut);
      continue;
    }
    if (step.regex && isolated) {
      DS_RETURN_IF_ERROR(CutIsolated(*matcher, text, p.begin, &cut));
      continue;
    }
    matches.Start();
    SplitBehavior behavior = spec.behavior;
    switch (spec.kind) {
      case PreTokenizerKind::kSplit:
        if (step.regex) {
          DS_RETURN_IF_ERROR(
              ForEachMatch(*matcher, text, [&](size_t begin, size_t end) {
                matches.Add(begin, end);
                return true;
              }));
        } else {
          FindLiteral(spec.pattern, text, &matches);
        }
        break;
      case PreTokenizerKind::kDigits:
        FindClass(kCharNumeric, text, &matches);
        behavior = spec.individual_digits ? SplitBehavior::kIsolated
                                          : SplitBehavior::kContiguous;
        break;
      case PreTokenizerKind::kPunctuation:
        FindClass(kCharPunctuation, text, &matches);
        break;
      case PreTokenizerKind::kDelimiter:
        FindLiteral(spec.pattern, text, &matches);
        behavior = SplitBehavior::kRemoved;
        break;
      case PreTokenizerKind::kBert:
        CutWords(text, p.begin, WordCut::kPunctuation, &cut);
        continue;
      case PreTokenizerKind::kWhitespace:
        CutWords(text, p.begin, WordCut::kWords, &cut);
        continue;
      case PreTokenizerKind::kWhitespaceSplit:
        CutWords(text, p.begin, WordCut::kNone, &cut);
        continue;
      case PreTokenizerKind::kUnicodeScripts:
        CutScripts(text, p.begin, &cut);
        continue;
      case PreTokenizerKind::kFixedLength:
        CutLengths(text, p.begin, spec.length, &cut);
        continue;
      case PreTokenizerKind::kByteLevel:
      case PreTokenizerKind::kMetaspace:
        cut.push_back(p);  // cut nowhere
        continue;
    }
    matches.Finish(text.size());
    matches.Apply(behavior, spec.invert, p.begin, &cut);
  }
  out->pieces = std::move(cut);
  return absl::OkStatus();
}

absl::Status PreTokenizer::Run(PreTokens* out) const {
  out->pieces.clear();
  if (out->text.empty()) return absl::OkStatus();
  if (out->allowance != nullptr) return RunWithin(out->allowance, out);
  TextAllowance own(out->text.size());
  return RunWithin(&own, out);
}

absl::Status PreTokenizer::RunWithin(TextAllowance* allowance,
                                     PreTokens* out) const {
  out->pieces.push_back({0, static_cast<uint32_t>(out->text.size())});
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    const bool byte_level = step.spec.kind == PreTokenizerKind::kByteLevel;
    if (step.spec.kind == PreTokenizerKind::kMetaspace) {
      DS_RETURN_IF_ERROR(RunMetaspace(step.spec, allowance, out));
      continue;
    }
    if (byte_level && step.spec.add_prefix_space) {
      DS_RETURN_IF_ERROR(AddPrefixSpaces(allowance, out));
    }
    if (!byte_level || step.spec.use_regex) {
      DS_RETURN_IF_ERROR(Cut(step, allowance, out));
    }
    if (byte_level && i + 1 < steps_.size()) {
      DS_RETURN_IF_ERROR(RewriteAsByteLevel(allowance, out));
    }
  }
  return absl::OkStatus();
}

}  // namespace deepslice
