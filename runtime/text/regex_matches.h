// Walks all matches of a pattern in a text, as Oniguruma's iterators do.
#ifndef DEEPSLICE_RUNTIME_TEXT_REGEX_MATCHES_H_
#define DEEPSLICE_RUNTIME_TEXT_REGEX_MATCHES_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/text/pcre_regex.h"
#include "runtime/text/utf8.h"
#include "schema/base/status_macros.h"

namespace deepslice {

// Calls `visit(begin, end)` for each match, from the left, until it is false.
// An empty match right after a match is none: it would not get on.
template <typename Visit>
absl::Status ForEachMatch(Regex::Matcher& matcher, absl::string_view text,
                          Visit visit) {
  bool any = false;
  size_t last_end = 0;
  for (size_t pos = 0; pos <= text.size();) {
    size_t begin = 0, end = 0;
    DS_ASSIGN_OR_RETURN(const bool found,
                        matcher.Find(text, pos, &begin, &end));
    if (!found) break;
    if (begin == end && any && last_end == end) {
      if (pos >= text.size()) break;
      pos += DecodeUtf8(text, pos).size;
      continue;
    }
    any = true;
    last_end = pos = end;
    if (!visit(begin, end)) break;
  }
  return absl::OkStatus();
}

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_REGEX_MATCHES_H_
