#include "schema/base/float_text.h"

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_format.h"

namespace deepslice {

std::string FloatText(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + 64, d, std::chars_format::scientific).ptr;
  const std::string text(buffer, end);
  const size_t e = text.find('e');
  const int exponent = std::atoi(text.c_str() + e + 1);
  if (exponent < -4 || exponent >= 16) {
    return absl::StrFormat("%se%c%02d", text.substr(0, e),
                           exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  // 64 characters hold what is below 1e16.
  const auto fixed =
      std::to_chars(buffer, buffer + 64, d, std::chars_format::fixed).ptr;
  std::string out(buffer, fixed);
  if (out.find('.') == std::string::npos) out += ".0";
  return out;
}

}  // namespace deepslice
