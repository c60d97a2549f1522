#include "tools/cli_values.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "schema/base/nearest.h"

namespace deepslice {
namespace {

constexpr double kMostBytes = 4611686018427387904.0;  // 2^62

struct Unit {
  absl::string_view name;  // lower case
  double bytes;
};
constexpr Unit kUnits[] = {
    {"", 1},
    {"b", 1},
    {"k", 1024.0},
    {"ki", 1024.0},
    {"kib", 1024.0},
    {"kb", 1e3},
    {"m", 1048576.0},
    {"mi", 1048576.0},
    {"mib", 1048576.0},
    {"mb", 1e6},
    {"g", 1073741824.0},
    {"gi", 1073741824.0},
    {"gib", 1073741824.0},
    {"gb", 1e9},
    {"t", 1099511627776.0},
    {"ti", 1099511627776.0},
    {"tib", 1099511627776.0},
    {"tb", 1e12},
};

// The longest beginning of `text` that is digits, a point and an exponent.
size_t NumberLength(absl::string_view text) {
  size_t end = 0;
  while (end < text.size() &&
         (absl::ascii_isdigit(text[end]) || text[end] == '.')) {
    ++end;
  }
  // An exponent needs a digit: 80e9, and no "80 exbibytes".
  if (end > 0 && end + 1 < text.size() && (text[end] | 0x20) == 'e') {
    size_t digit = end + 1;
    if (text[digit] == '+') ++digit;
    if (digit < text.size() && absl::ascii_isdigit(text[digit])) {
      while (digit < text.size() && absl::ascii_isdigit(text[digit])) ++digit;
      end = digit;
    }
  }
  return end;
}

std::string Plain(absl::string_view name) {
  return absl::StrReplaceAll(absl::AsciiStrToLower(name), {{"_", "-"}});
}

}  // namespace

absl::StatusOr<int64_t> ParseByteSize(absl::string_view text) {
  const size_t end = NumberLength(text);
  const std::string unit = absl::AsciiStrToLower(
      absl::StripLeadingAsciiWhitespace(text.substr(end)));
  double value;
  if (end > 0 && absl::SimpleAtod(text.substr(0, end), &value)) {
    for (const Unit& u : kUnits) {
      if (u.name != unit) continue;
      const double bytes = std::round(value * u.bytes);
      if (bytes > kMostBytes) break;
      return static_cast<int64_t>(bytes);
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "found \"", text, "\"; allowed are sizes such as 80GiB, 80G, 80e9"));
}

absl::StatusOr<absl::Duration> ParseDurationText(absl::string_view text) {
  double seconds;
  absl::Duration duration;
  if (absl::SimpleAtod(text, &seconds)) {
    duration = absl::Seconds(seconds);  // not finite: an infinite duration
  } else if (!absl::ParseDuration(text, &duration)) {
    duration = absl::InfiniteDuration();
  }
  if (duration < absl::ZeroDuration() || duration == absl::InfiniteDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "found \"", text, "\"; allowed are times such as 30s, 2m, 500ms"));
  }
  return duration;
}

CLI::Validator ByteSize(int64_t low, int64_t high) {
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        const auto bytes = ParseByteSize(text);
        if (!bytes.ok()) return std::string(bytes.status().message());
        if (*bytes < low || *bytes > high) {
          return absl::StrCat("found \"", text, "\"; allowed are ", low, " to ",
                              high, " bytes");
        }
        text = absl::StrCat(*bytes);
        return "";
      },
      "");
}

CLI::Validator DurationSeconds(absl::Duration low, absl::Duration high) {
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        const auto duration = ParseDurationText(text);
        if (!duration.ok()) return std::string(duration.status().message());
        if (*duration < low || *duration > high) {
          return absl::StrCat("found \"", text, "\"; allowed are ",
                              absl::FormatDuration(low), " to ",
                              absl::FormatDuration(high));
        }
        text = absl::StrFormat("%.17g", absl::ToDoubleSeconds(*duration));
        return "";
      },
      "");
}

CLI::Validator OneOf(std::vector<std::string> names) {
  return CLI::Validator(
      [names](std::string& text) -> std::string {
        std::vector<std::string> plain;
        for (const std::string& n : names) {
          plain.push_back(Plain(n));
          if (plain.back() == Plain(text)) {
            text = n;
            return "";
          }
        }
        const std::string nearest = NearestName(Plain(text), plain);
        return absl::StrCat(
            "found \"", text, "\"; allowed are ", absl::StrJoin(names, ", "),
            nearest.empty() ? ""
                            : absl::StrCat("; did you mean ", nearest, "?"));
      },
      "");
}

}  // namespace deepslice
