// Runs normalizer steps; those over single characters lie in char_filters.cc.
#include "runtime/text/normalizer.h"

#include <utf8proc.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/text/byte_level.h"
#include "runtime/text/char_filters.h"
#include "runtime/text/normalize.h"
#include "runtime/text/regex_matches.h"
#include "runtime/text/utf8.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

constexpr size_t kMaxTextBytes = limits::kTextBytes;
constexpr absl::string_view kSpaceSymbol = "\xE2\x96\x81";  // U+2581

}  // namespace

absl::StatusOr<Normalizer> Normalizer::Create(const TokenizerSpec& spec) {
  Normalizer n;
  bool sentencepiece = false;
  for (const NormalizerStep& s : spec.normalizers) {
    Step step{s, nullptr, nullptr};
    if (s.kind == NormalizerKind::kReplace) {
      if (s.pattern.empty() || !IsValidUtf8(s.pattern) ||
          !IsValidUtf8(s.content)) {
        return absl::InvalidArgumentError(
            "a Replace has a pattern that is empty or text that is not UTF-8");
      }
      if (s.Has(NormalizerStep::kIsRegex)) {
        DS_ASSIGN_OR_RETURN(step.regex, Regex::Compile(s.pattern));
      }
    } else if (s.kind == NormalizerKind::kPrepend) {
      if (!IsValidUtf8(s.content)) {
        return absl::InvalidArgumentError("a Prepend's text is not UTF-8");
      }
    } else if (s.kind == NormalizerKind::kCharsmap ||
               (s.kind == NormalizerKind::kSentencePiece &&
                !s.content.empty())) {
      DS_ASSIGN_OR_RETURN(Charsmap map, Charsmap::Parse(s.content));
      step.map = std::make_shared<const Charsmap>(std::move(map));
      step.spec.content.clear();
    }
    sentencepiece |= s.kind == NormalizerKind::kSentencePiece;
    n.steps_.push_back(std::move(step));
  }
  if (sentencepiece) {
    std::vector<std::pair<absl::string_view, int32_t>> keys;
    for (int32_t id = 0; id < spec.vocab_size(); ++id) {
      if (spec.token_bits[id] & kTokenUserDefined && !spec.token(id).empty()) {
        keys.emplace_back(spec.token(id), id);
      }
    }
    auto trie = std::make_shared<ByteTrie>();
    if (!keys.empty()) trie->Build(std::move(keys));
    n.user_defined_ = std::move(trie);
  }
  return n;
}

absl::Status Normalizer::Run(Text* text) const {
  if (text->allowance != nullptr) return RunWithin(text->allowance, text);
  TextAllowance own(text->view.size());
  return RunWithin(&own, text);
}

absl::Status Normalizer::RunWithin(TextAllowance* allowance, Text* text) const {
  for (const Step& step : steps_) {
    const NormalizerStep& s = step.spec;
    const absl::string_view in = text->view;
    std::string* out = &text->next;
    bool changed = false, first_dropped = false;
    switch (s.kind) {
      case NormalizerKind::kNfc:
      case NormalizerKind::kNfd:
      case NormalizerKind::kNfkc:
      case NormalizerKind::kNfkd:
        changed = NormalizeUnicode(in, s.kind, out);
        break;
      case NormalizerKind::kLowercase:
        changed = Lowercase(in, out);
        break;
      case NormalizerKind::kStripAccents:
        changed = StripAccents(in, out, &first_dropped);
        break;
      case NormalizerKind::kStrip:
        changed =
            StripSpace(in, s.Has(NormalizerStep::kStripLeft),
                       s.Has(NormalizerStep::kStripRight), out, &first_dropped);
        break;
      case NormalizerKind::kReplace: {
        DS_ASSIGN_OR_RETURN(changed, Replace(step, allowance, text));
        break;
      }
      case NormalizerKind::kPrepend:
        if (!in.empty()) *out = absl::StrCat(s.content, in);
        changed = !in.empty();
        break;
      case NormalizerKind::kCharsmap:
        changed = ApplyCharsmap(step, allowance->bytes, text);
        break;
      case NormalizerKind::kBert:
        changed = NormalizeForBert(in, s, out, &first_dropped);
        break;
      case NormalizerKind::kNmt:
        changed = NormalizeForNmt(in, out, &first_dropped);
        break;
      case NormalizerKind::kByteLevel:
        out->clear();
        AppendByteLevel(in, out);
        changed = true;
        break;
      case NormalizerKind::kSentencePiece:
        changed = SentencePiece(step, allowance->bytes, text);
        break;
    }
    if (first_dropped) text->at_start = false;
    if (!changed) continue;
    DS_RETURN_IF_ERROR(allowance->Write(out->size()));
    text->buffer.swap(text->next);
    text->view = text->buffer;
    if (text->view.size() > kMaxTextBytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the normalized text has more than ", kMaxTextBytes,
                       " bytes; encode a shorter one"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Normalizer::Replace(const Step& step,
                                         TextAllowance* allowance, Text* text) {
  const absl::string_view in = text->view;
  const std::string& content = step.spec.content;
  std::string* out = &text->next;
  out->clear();
  size_t done = 0;
  bool any = false;
  const auto replace = [&](size_t begin, size_t end) {
    if (begin == 0) {
      // A longer match leaves its last character's place to the new text.
      const size_t first = DecodeUtf8(in, 0).size;
      if (content.empty() ? end > 0 : end > first) text->at_start = false;
    }
    out->append(in.data() + done, begin - done);
    out->append(content);
    done = end;
    any = true;
    return out->size() <= allowance->bytes;
  };
  if (step.regex == nullptr) {
    const std::string& pattern = step.spec.pattern;
    for (size_t pos; (pos = in.find(pattern, done)) != in.npos;) {
      if (!replace(pos, pos + pattern.size())) break;
    }
  } else if (!in.empty()) {
    Regex::Matcher matcher(*step.regex, allowance);
    DS_RETURN_IF_ERROR(ForEachMatch(matcher, in, replace));
  }
  if (!any) return false;
  out->append(in.data() + done, in.size() - done);
  return true;
}

// As the published tokenizers do it: of a grapheme below 6 bytes, and else of
// each of its characters, the shortest rule that it starts with replaces all.
bool Normalizer::ApplyCharsmap(const Step& step, uint64_t most, Text* text) {
  const absl::string_view in = text->view;
  std::string* out = &text->next;
  out->clear();
  bool changed = false;
  const auto transform = [&](size_t begin, size_t end) {
    size_t size = 0;
    absl::string_view replacement;
    if (!step.map->Find(in.substr(0, end), begin, /*longest=*/false, &size,
                        &replacement)) {
      return false;
    }
    out->append(replacement.data(), replacement.size());
    changed = true;
    return true;
  };
  for (size_t pos = 0; pos < in.size() && out->size() <= most;) {
    utf8proc_int32_t state = 0;
    CodePoint c = DecodeUtf8(in, pos);
    size_t end = pos + c.size;
    while (end < in.size()) {
      const CodePoint next = DecodeUtf8(in, end);
      if (c.value < 0x80 && next.value < 0x80 && c.value != '\r') break;
      if (utf8proc_grapheme_break_stateful(
              static_cast<utf8proc_int32_t>(c.value),
              static_cast<utf8proc_int32_t>(next.value), &state)) {
        break;
      }
      end += next.size;
      c = next;
    }
    if (end - pos >= 6 || !transform(pos, end)) {
      for (size_t i = pos; i < end && out->size() <= most;) {
        const size_t size = DecodeUtf8(in, i).size;
        if (!transform(i, i + size)) out->append(in.data() + i, size);
        i += size;
      }
    }
    pos = end;
  }
  return changed;
}

bool Normalizer::SentencePiece(const Step& step, uint64_t most,
                               Text* text) const {
  const NormalizerStep& s = step.spec;
  const bool remove_extra = s.Has(NormalizerStep::kSpmRemoveExtra);
  const absl::string_view space =
      s.Has(NormalizerStep::kSpmEscape) ? kSpaceSymbol : " ";
  const absl::string_view in = text->view;
  std::string* out = &text->next;
  out->clear();
  // What in[pos:] starts with, normalised.
  const auto prefix = [&](size_t pos, size_t* size) {
    absl::string_view piece;
    if (!user_defined_->empty() && user_defined_->Longest(in, pos, size) >= 0) {
      return in.substr(pos, *size);
    }
    if (step.map && step.map->Find(in, pos, /*longest=*/true, size, &piece)) {
      return piece;
    }
    const CodePoint c = DecodeUtf8(in, pos);
    *size = c.size;
    return c.valid ? in.substr(pos, c.size) : absl::string_view("\xEF\xBF\xBD");
  };
  size_t pos = 0, size = 0;
  while (remove_extra && pos < in.size() && prefix(pos, &size) == " ") {
    pos += size;
  }
  if (pos == in.size()) return !in.empty();
  bool dummy = s.Has(NormalizerStep::kSpmDummyPrefix);
  if (s.Has(NormalizerStep::kSpmPrefixFirstOnly)) {
    // As the published class: at the very start, unless a space stands there.
    dummy = dummy && text->at_start && in[pos] != ' ' &&
            !absl::StartsWith(in.substr(pos), kSpaceSymbol);
  }
  const bool suffix = s.Has(NormalizerStep::kSpmSuffix);
  if (dummy && !suffix) out->append(space.data(), space.size());
  bool after_space = remove_extra;
  for (; pos < in.size() && out->size() <= most; pos += size) {
    absl::string_view piece = prefix(pos, &size);
    while (after_space && absl::StartsWith(piece, " ")) piece.remove_prefix(1);
    if (!piece.empty()) {
      for (char c : piece) {
        if (c == ' ') {
          out->append(space.data(), space.size());
        } else {
          out->push_back(c);
        }
      }
      after_space = piece.back() == ' ';
    }
    if (!remove_extra) after_space = false;
  }
  while (remove_extra && absl::EndsWith(*out, space)) {
    out->resize(out->size() - space.size());
  }
  if (dummy && suffix) out->append(space.data(), space.size());
  return true;
}

absl::StatusOr<std::vector<std::string>> AddedTokenTexts(
    const TokenizerSpec& spec, const Normalizer& normalizer) {
  std::vector<std::string> out;
  TextAllowance allowance;  // of all of them together
  for (const AddedToken& token : spec.added) {
    Normalizer::Text text;
    text.view = spec.token(token.id);
    if (token.normalized) {
      text.at_start = true;
      text.allowance = &allowance;
      allowance.Add(text.view.size());
      DS_RETURN_IF_ERROR(
          Annotate(normalizer.Run(&text), "added token ", token.id));
    }
    out.emplace_back(text.view);
  }
  return out;
}

}  // namespace deepslice
