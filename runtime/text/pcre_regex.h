// Regular expressions of tokenizer files, matched by PCRE2 within bounds.
#ifndef DEEPSLICE_RUNTIME_TEXT_PCRE_REGEX_H_
#define DEEPSLICE_RUNTIME_TEXT_PCRE_REGEX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/text/text_allowance.h"

namespace deepslice {

// Tokenizer files are written for Oniguruma in its Ruby syntax. Gives the PCRE2
// pattern that matches the same, with \s and \w spelt out as classes.
// Unimplemented, naming the construct and its byte, where the two engines
// differ and no spelling is known to be equal.
absl::StatusOr<std::string> TranslateOniguruma(absl::string_view pattern);

// The pattern in quotes, cut where it is long: for errors.
std::string ShownPattern(absl::string_view pattern);

// A compiled pattern. Immutable and thread-safe.
class Regex {
 public:
  // `pattern` in Oniguruma's syntax. InvalidArgument when it does not compile.
  static absl::StatusOr<std::unique_ptr<Regex>> Compile(
      absl::string_view pattern);
  ~Regex();
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;

  // One thread's working memory. The regex outlives it.
  class Matcher {
   public:
    // For texts of `total_bytes` in all.
    Matcher(const Regex& regex, size_t total_bytes);
    // Draws on what others draw on too, and which outlives it.
    Matcher(const Regex& regex, TextAllowance* allowance);
    ~Matcher();
    Matcher(const Matcher&) = delete;
    Matcher& operator=(const Matcher&) = delete;

    // Whether the pattern matches valid UTF-8 `text` at exactly `pos`; then
    // *end is where the match ends. A pattern that backtracks without bound is
    // ResourceExhausted: steps in all are linear in the texts.
    absl::StatusOr<bool> MatchAt(absl::string_view text, size_t pos,
                                 size_t* end);
    // The first match that starts at `pos` or after it.
    absl::StatusOr<bool> Find(absl::string_view text, size_t pos, size_t* begin,
                              size_t* end);

   private:
    absl::StatusOr<bool> MatchSlowly(absl::string_view text, size_t pos,
                                     size_t* end);
    struct State;
    std::unique_ptr<State> state_;
  };

 private:
  struct Code;
  explicit Regex(std::unique_ptr<Code> code);
  static void FindFirstBytes(absl::string_view pcre, Code* code);
  std::unique_ptr<Code> code_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_PCRE_REGEX_H_
