// JSON texts: what is read, written and read again, by both readers.
#include "absl/strings/match.h"
#include "compiler/checkpoint/json_scanner.h"
#include "runtime/text/utf8.h"
#include "schema/base/json.h"
#include "tests/fuzz/fuzz_target.h"

namespace deepslice {
namespace {

// What was read, once written, reads back as itself.
absl::StatusOr<json::Value> RoundTrip(absl::string_view text,
                                      json::ParseOptions options) {
  absl::StatusOr<json::Value> value = json::Parse(text, options);
  if (!value.ok()) {
    CheckRefusal(value.status());
    return value;
  }
  const std::string written = json::Write(*value);
  for (const int indent : {-1, 2}) {
    const auto again = json::Parse(json::Write(*value, indent), options);
    FUZZ_CHECK(again.ok());
    FUZZ_CHECK(json::Write(*again) == written);
  }
  return value;
}

absl::Status Scan(absl::string_view text) {
  JsonScanner scanner(text);
  const absl::Status status = scanner.Skip();
  return status.ok() ? scanner.End() : status;
}

FUZZ_TARGET(json) {
  const auto strict = RoundTrip(input, {});
  const auto lax = RoundTrip(
      input, {.allow_nan_and_infinity = true, .allow_trailing_commas = true});
  if (strict.ok()) {
    FUZZ_CHECK(lax.ok() && json::Write(*lax) == json::Write(*strict));
  }
  if (!IsValidUtf8(input)) return;
  const absl::Status scanned = Scan(input);
  if (!scanned.ok()) CheckRefusal(scanned);
  if (strict.ok()) {
    FUZZ_CHECK(scanned.ok());
  } else if (scanned.ok()) {
    // The scanner leaves keys and the size of numbers to its caller.
    const absl::string_view why = strict.status().message();
    FUZZ_CHECK(absl::StrContains(why, "appears twice") ||
               absl::StrContains(why, "out of range"));
  }
}

}  // namespace
}  // namespace deepslice
