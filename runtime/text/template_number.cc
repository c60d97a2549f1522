#include "runtime/text/template_number.h"

#include <cstdlib>
#include <limits>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "runtime/text/template_text.h"

namespace deepslice {
namespace {

std::string Stripped(absl::string_view text) {
  return StripText(MarkedText(text), true, true).text;
}

// Takes underscores out; false when one does not stand between two digits.
bool DropUnderscores(absl::string_view text, std::string* out) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      *out += text[i];
      continue;
    }
    if (i == 0 || i + 1 >= text.size() || !absl::ascii_isalnum(text[i - 1]) ||
        !absl::ascii_isalnum(text[i + 1])) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::optional<int64_t> ParsePythonInt(absl::string_view text, int64_t base,
                                      bool* too_large) {
  const std::string stripped = Stripped(text);
  absl::string_view rest = stripped;
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  const bool negative = absl::ConsumePrefix(&rest, "-");
  if (!negative) absl::ConsumePrefix(&rest, "+");
  bool prefixed = false;
  for (const auto& [letter, value] :
       {std::pair<char, int64_t>{'x', 16}, {'o', 8}, {'b', 2}}) {
    if (rest.size() > 2 && rest[0] == '0' &&
        absl::ascii_tolower(rest[1]) == letter &&
        (base == 0 || base == value)) {
      rest.remove_prefix(2);
      base = value;
      prefixed = true;
      break;
    }
  }
  if (base == 0) {
    base = 10;
    // "010" is neither octal nor decimal.
    if (rest.size() > 1 && rest[0] == '0' &&
        rest.find_first_not_of("0_") != rest.npos) {
      return std::nullopt;
    }
  }
  if (prefixed) absl::ConsumePrefix(&rest, "_");
  std::string digits;
  if (!DropUnderscores(rest, &digits) || digits.empty()) return std::nullopt;
  __int128 value = 0;
  for (const char c : digits) {
    const int digit = absl::ascii_isdigit(c) ? c - '0'
                      : absl::ascii_isalpha(c)
                          ? absl::ascii_tolower(c) - 'a' + 10
                          : 99;
    if (digit >= base) return std::nullopt;
    if (!*too_large) value = value * base + digit;
    if (value > static_cast<__int128>(1) << 64) *too_large = true;
  }
  if (negative) value = -value;
  if (*too_large || value > std::numeric_limits<int64_t>::max() ||
      value < std::numeric_limits<int64_t>::min()) {
    *too_large = true;
    return std::nullopt;
  }
  return static_cast<int64_t>(value);
}

std::optional<double> ParsePythonFloat(absl::string_view text) {
  std::string plain;
  if (!DropUnderscores(Stripped(text), &plain)) return std::nullopt;
  absl::string_view rest = plain;
  if (absl::StartsWith(rest, "+") || absl::StartsWith(rest, "-")) {
    rest.remove_prefix(1);
  }
  for (absl::string_view word : {"inf", "infinity", "nan"}) {
    if (absl::EqualsIgnoreCase(rest, word)) {
      return std::strtod(plain.c_str(), nullptr);
    }
  }
  // strtod would take hexadecimal digits as well.
  if (rest.empty() || rest.find_first_not_of("0123456789.eE+-") != rest.npos) {
    return std::nullopt;
  }
  char* end = nullptr;
  const double d = std::strtod(plain.c_str(), &end);
  if (end != plain.c_str() + plain.size()) return std::nullopt;
  return d;
}

}  // namespace deepslice
