// From Oniguruma's Ruby syntax to PCRE2: copies what means the same, respells
// \s, \w, properties and scripts, refuses the rest by name.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "runtime/text/pcre_regex.h"
#include "runtime/text/unicode_class.h"
#include "runtime/text/unicode_tables.h"
#include "runtime/text/utf8.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

namespace tables = unicode_tables;

// What stands between [ and ] for a class and for its complement.
std::string WhiteSpaceClass(bool negated) {
  std::string out;
  uint32_t next = 0;
  for (const CodePointRange& r : kWhiteSpace) {
    if (!negated) {
      absl::StrAppendFormat(&out, "\\x{%x}-\\x{%x}", r.first, r.last);
    } else if (r.first > next) {
      absl::StrAppendFormat(&out, "\\x{%x}-\\x{%x}", next, r.first - 1);
    }
    next = r.last + 1;
  }
  if (negated) absl::StrAppendFormat(&out, "\\x{%x}-\\x{10ffff}", next);
  return out;
}

// "L", "Lu": in the order of Category.
constexpr absl::string_view kCategoryNames[] = {
    "Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd",
    "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm",
    "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co"};

// Members of a category that PCRE2's Unicode does not have yet, as ranges for
// a class. Oniguruma, as the published tokenizers are built, knows Unicode 16.
std::string NewMembers(absl::string_view category) {
  static const int version = [] {
    char text[64] = {};
    return pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, nullptr) <= 64 &&
                   pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, text) > 0
               ? std::atoi(text)
               : 0;
  }();
  std::string out;
  if (version >= 16) return out;
  for (size_t i = 0; i < tables::kNewCategoriesCount; ++i) {
    const tables::CategoryRange& r = tables::kNewCategories[i];
    if (absl::StartsWith(kCategoryNames[static_cast<int>(r.category)],
                         category)) {
      absl::StrAppendFormat(&out, "\\x{%x}-\\x{%x}", r.first, r.last);
    }
  }
  return out;
}

// Oniguruma's word characters, between [ and ]: with marks, which PCRE2 10.42
// leaves out, alphabetic symbols and, outside of classes, the superscripts and
// fractions below U+0100.
std::string MakeWordClass(bool in_class) {
  std::string out = "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}";
  for (absl::string_view c : {"L", "M", "Nd", "Nl", "Pc"}) {
    out += NewMembers(c);
  }
  for (size_t i = 0; i < tables::kOtherWordsCount; ++i) {
    const CodePointRange& r = tables::kOtherWords[i];
    if (in_class && r.last < 0x100) continue;
    absl::StrAppendFormat(&out, "\\x{%x}-\\x{%x}", r.first, r.last);
  }
  return out;
}
const std::string& WordClass(bool in_class) {
  static const auto* inside = new std::string(MakeWordClass(true));
  static const auto* outside = new std::string(MakeWordClass(false));
  return in_class ? *inside : *outside;
}

bool IsCategory(absl::string_view name) {
  static const auto* names = new absl::flat_hash_set<absl::string_view>{
      "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N",  "Nd",
      "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S",  "Sm",
      "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp", "C",  "Cc", "Cf", "Co", "Cs"};
  return names->contains(name);
}

bool IsScript(absl::string_view name) {
  static const auto* names = new absl::flat_hash_set<absl::string_view>{
      "Arabic",    "Armenian", "Bengali", "Cyrillic", "Devanagari",
      "Ethiopic",  "Georgian", "Greek",   "Gujarati", "Gurmukhi",
      "Han",       "Hangul",   "Hebrew",  "Hiragana", "Kannada",
      "Katakana",  "Khmer",    "Lao",     "Latin",    "Malayalam",
      "Mongolian", "Myanmar",  "Oriya",   "Sinhala",  "Tamil",
      "Telugu",    "Thai",     "Tibetan"};
  return names->contains(name);
}

class Translator {
 public:
  explicit Translator(absl::string_view in) : in_(in) {}

  absl::StatusOr<std::string> Run() {
    if (!IsValidUtf8(in_)) {
      return absl::InvalidArgumentError("pattern is not UTF-8");
    }
    while (pos_ < in_.size()) DS_RETURN_IF_ERROR(Item());
    return std::move(out_);
  }

 private:
  absl::Status Refuse(size_t at, absl::string_view what) const {
    return absl::UnimplementedError(
        absl::StrCat("pattern ", ShownPattern(in_), ": byte ", at, ": ", what,
                     " is not supported here; write it with classes, groups, "
                     "alternatives, repeats and look-around"));
  }
  bool Looking(absl::string_view s) const {
    return absl::StartsWith(in_.substr(pos_), s);
  }
  void Copy(size_t n) {
    out_.append(in_.data() + pos_, n);
    pos_ += n;
  }

  absl::Status Item() {
    const char c = in_[pos_];
    if (c == '\\') return Escape(/*in_class=*/false);
    if (c == '[') return Class();
    if (c == '(') return Group();
    if (c == '{') return Interval();
    Copy(1);
    return absl::OkStatus();
  }

  // After "(": only what both engines read alike.
  absl::Status Group() {
    const size_t at = pos_;
    for (absl::string_view open :
         {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"}) {
      if (Looking(open)) {
        Copy(open.size());
        return absl::OkStatus();
      }
    }
    if (Looking("(?i)")) {
      // In the middle of alternatives Ruby puts the rest into a group.
      if (at != 0) return Refuse(at, "(?i) after the start of the pattern");
      Copy(4);
      return absl::OkStatus();
    }
    if (Looking("(?") || Looking("(*")) {
      return Refuse(at, absl::StrCat("\"", in_.substr(at, 3), "\""));
    }
    Copy(1);
    return absl::OkStatus();
  }

  // {n}, {n,}, {n,m}; a possessive or lazy {n} means something else in Ruby.
  absl::Status Interval() {
    const size_t at = pos_;
    size_t i = pos_ + 1;
    const size_t low = i;
    while (i < in_.size() && absl::ascii_isdigit(in_[i])) ++i;
    const bool has_low = i > low;
    bool fixed = true;
    if (i < in_.size() && in_[i] == ',') {
      fixed = false;
      ++i;
      while (i < in_.size() && absl::ascii_isdigit(in_[i])) ++i;
    }
    if (!has_low || i >= in_.size() || in_[i] != '}') {
      return Refuse(at, "\"{\" that is no {n}, {n,} or {n,m}");
    }
    ++i;
    const char next = i < in_.size() ? in_[i] : '\0';
    if (next == '+' || (next == '?' && fixed)) {
      return Refuse(at, absl::StrCat("\"", in_.substr(at, i + 1 - at), "\""));
    }
    Copy(i - pos_);
    return absl::OkStatus();
  }

  absl::Status Class() {
    const size_t at = pos_;
    std::string before;  // everything ahead of this class
    before.swap(out_);
    DS_RETURN_IF_ERROR(ClassBody(at));
    if (!Looking("&&")) {
      Copy(1);
      out_.insert(0, before);
      return absl::OkStatus();
    }
    // [a&&[b]]: an a that is a b as well. PCRE2 has no intersection.
    const std::string first = out_ + "]";
    out_.clear();
    pos_ += 2;
    if (!Looking("[") || first[1] == '^') {
      return Refuse(at, "this \"&&\" in a class");
    }
    const size_t inner = pos_;
    DS_RETURN_IF_ERROR(ClassBody(inner));
    if (!Looking("]]")) return Refuse(at, "this \"&&\" in a class");
    pos_ += 2;
    out_ = absl::StrCat(before, "(?:(?=", out_, "])", first, ")");
    return absl::OkStatus();
  }

  // From "[" to its "]" or "&&", which stay.
  absl::Status ClassBody(size_t at) {
    Copy(1);
    if (Looking("^")) Copy(1);
    if (Looking("]")) return Refuse(at, "\"]\" as first member of a class");
    while (pos_ < in_.size() && in_[pos_] != ']') {
      if (in_[pos_] == '[') return Refuse(pos_, "a class inside a class");
      if (Looking("&&")) return absl::OkStatus();
      if (RangeEndsInClass()) {
        return Refuse(pos_, "a range that ends in a class");
      }
      if (in_[pos_] == '\\') {
        DS_RETURN_IF_ERROR(Escape(/*in_class=*/true));
      } else {
        Copy(1);
      }
    }
    if (pos_ >= in_.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("pattern ", ShownPattern(in_), ": byte ", at,
                       ": class without \"]\""));
    }
    return absl::OkStatus();
  }

  // At the "-" of [+-\s]: copied, it would take the first range of \s.
  bool RangeEndsInClass() const {
    return in_[pos_] == '-' && pos_ + 2 < in_.size() && in_[pos_ + 1] == '\\' &&
           absl::string_view("sSwdDpP").find(in_[pos_ + 2]) !=
               absl::string_view::npos &&
           in_[pos_ - 1] != '[' && in_[pos_ - 1] != '^';
  }

  absl::Status Escape(bool in_class) {
    const size_t at = pos_;
    if (pos_ + 1 >= in_.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("pattern ", ShownPattern(in_), ": ends in a backslash"));
    }
    const char c = in_[pos_ + 1];
    const absl::string_view open = in_class ? "" : "[";
    const absl::string_view close = in_class ? "" : "]";
    switch (c) {
      case 's':
      case 'S':
        absl::StrAppend(&out_, open, WhiteSpaceClass(c == 'S'), close);
        pos_ += 2;
        return absl::OkStatus();
      case 'w':
        absl::StrAppend(&out_, open, WordClass(in_class), close);
        pos_ += 2;
        return absl::OkStatus();
      case 'W':
        if (in_class) return Refuse(at, "\"\\W\" in a class");
        absl::StrAppend(&out_, "[^", WordClass(false), "]");
        pos_ += 2;
        return absl::OkStatus();
      case 'v':  // the one character, not PCRE2's class
        absl::StrAppend(&out_, "\\x0b");
        pos_ += 2;
        return absl::OkStatus();
      case 'p':
      case 'P':
        return Property(in_class);
      case 'd':
      case 'D':
        AppendProperty("Nd", c == 'D', in_class);
        pos_ += 2;
        return absl::OkStatus();
      case 'x':
      case 'u':
        return HexEscape(c);
      case 't':
      case 'n':
      case 'r':
      case 'f':
      case 'a':
      case 'e':
        Copy(2);
        return absl::OkStatus();
      case 'A':
      case 'z':
      case 'Z':
        if (in_class) break;
        Copy(2);
        return absl::OkStatus();
      default:
        if (absl::ascii_ispunct(static_cast<unsigned char>(c)) || c == ' ') {
          Copy(2);
          return absl::OkStatus();
        }
        break;
    }
    return Refuse(at, absl::StrCat("\"", in_.substr(at, 2), "\""));
  }

  // A negated property inside a class keeps PCRE2's idea of it: a class has no
  // way to take away.
  void AppendProperty(absl::string_view name, bool negated, bool in_class) {
    const std::string extra = NewMembers(name);
    if (in_class) {
      absl::StrAppend(&out_, negated ? "\\P{" : "\\p{", name, "}",
                      negated ? "" : extra);
    } else {
      absl::StrAppend(&out_, negated ? "[^\\p{" : "[\\p{", name, "}", extra,
                      "]");
    }
  }

  // \p{Name}, \p{^Name}, \P{Name}.
  absl::Status Property(bool in_class) {
    const size_t at = pos_;
    const size_t end = in_.find('}', pos_);
    if (pos_ + 2 >= in_.size() || in_[pos_ + 2] != '{' ||
        end == absl::string_view::npos) {
      return Refuse(at, "\\p without {name}");
    }
    absl::string_view name = in_.substr(pos_ + 3, end - pos_ - 3);
    bool negated = in_[pos_ + 1] == 'P';
    if (absl::ConsumePrefix(&name, "^")) negated = !negated;
    if (!IsCategory(name) && !IsScript(name)) {
      return Refuse(at, absl::StrCat("property \"", name, "\""));
    }
    if (IsScript(name)) {
      // PCRE2 reads a bare script name as Script_Extensions.
      absl::StrAppend(&out_, negated ? "\\P{sc:" : "\\p{sc:", name, "}");
    } else {
      AppendProperty(name, negated, in_class);
    }
    pos_ = end + 1;
    return absl::OkStatus();
  }

  // \xHH (ASCII only: beyond it Oniguruma means a byte), \x{H...}, \uHHHH.
  absl::Status HexEscape(char kind) {
    const size_t at = pos_;
    size_t i = pos_ + 2;
    const bool braced = kind == 'x' && i < in_.size() && in_[i] == '{';
    if (braced) ++i;
    const size_t digits = i;
    const size_t most = braced ? 8 : kind == 'u' ? 4 : 2;
    uint32_t value = 0;
    while (i < in_.size() && i - digits < most &&
           absl::ascii_isxdigit(static_cast<unsigned char>(in_[i]))) {
      const char d = absl::ascii_tolower(in_[i]);
      value =
          value << 4 | static_cast<uint32_t>(d <= '9' ? d - '0' : d - 'a' + 10);
      ++i;
    }
    const bool closed = !braced || (i < in_.size() && in_[i] == '}');
    const bool full = braced ? i > digits : i - digits == most;
    if (!closed || !full || value > 0x10FFFF ||
        (value >= 0xD800 && value <= 0xDFFF) ||
        (kind == 'x' && !braced && value >= 0x80)) {
      return Refuse(at, "this hexadecimal escape");
    }
    absl::StrAppendFormat(&out_, "\\x{%x}", value);
    pos_ = i + (braced ? 1 : 0);
    return absl::OkStatus();
  }

  absl::string_view in_;
  size_t pos_ = 0;
  std::string out_;
};

}  // namespace

std::string ShownPattern(absl::string_view pattern) {
  size_t end = std::min<size_t>(pattern.size(), 120);
  if (end < pattern.size() && IsValidUtf8(pattern)) {
    end = PreviousUtf8(pattern, end + 1);
  }
  return absl::StrCat("\"", pattern.substr(0, end),
                      end < pattern.size() ? "...\"" : "\"");
}

absl::StatusOr<std::string> TranslateOniguruma(absl::string_view pattern) {
  return Translator(pattern).Run();
}

}  // namespace deepslice
