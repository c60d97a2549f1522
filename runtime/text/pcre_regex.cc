// The PCRE2 side: compile once with JIT, match anchored within limits.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "runtime/text/pcre_regex.h"

#include <pcre2.h>

#include <algorithm>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

constexpr size_t kMaxPatternBytes = limits::kRegexBytes;
constexpr size_t kJitStackBytes = 1 << 20;
constexpr uint32_t kHeapLimitKib = limits::kRegexHeapBytes >> 10;
// Steps of a first attempt; a match that needs more takes them out of the
// allowance.
constexpr uint32_t kFirstSteps = 1000;
// PCRE2 counts no steps while it runs over what a class or a dot matches, so a
// pattern may read a text to its end at every place. A match first sees so much
// of it; what it reads beyond costs a step for so many bytes.
constexpr size_t kWindowBytes = 4096;
constexpr size_t kBytesPerStep = 16;

std::string ErrorText(int code) {
  PCRE2_UCHAR buffer[256];
  if (pcre2_get_error_message(code, buffer, sizeof(buffer)) < 0) {
    return absl::StrCat("error ", code);
  }
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

struct Regex::Code {
  ~Code() { pcre2_code_free(code); }
  pcre2_code* code = nullptr;
  bool jit = false;
  bool matches_empty = true;
  // Bytes that a match can start with; nothing else is known of it.
  bool any_first = true;
  bool first[256] = {};
};

struct Regex::Matcher::State {
  ~State() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
  const Code* code = nullptr;
  pcre2_match_data* data = nullptr;
  pcre2_match_context* context = nullptr;
  pcre2_jit_stack* stack = nullptr;  // made when the small one is not enough
  TextAllowance own;                 // where none is given
  TextAllowance* allowance = &own;

  int Match(absl::string_view text, size_t pos) {
    size_t window = kWindowBytes;
    for (; window < text.size() - pos; window *= kBytesPerStep) {
      size_t end = pos + window;
      while ((static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) --end;
      const int rc = MatchWithin(text.substr(0, end), pos, PCRE2_PARTIAL_HARD);
      if (rc != PCRE2_ERROR_PARTIAL) return rc;
      // It read to the window's end.
      const uint64_t steps =
          std::min(window * kBytesPerStep, text.size() - pos) / kBytesPerStep;
      if (steps > allowance->regex_steps) {
        allowance->regex_steps = 0;
        return PCRE2_ERROR_MATCHLIMIT;
      }
      allowance->regex_steps -= steps;
    }
    return MatchWithin(text, pos, 0);
  }
  int MatchWithin(absl::string_view text, size_t pos, uint32_t options) {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    return code->jit ? pcre2_jit_match(code->code, subject, text.size(), pos,
                                       options, data, context)
                     : pcre2_match(code->code, subject, text.size(), pos,
                                   options | PCRE2_NO_UTF_CHECK, data, context);
  }
};

Regex::Regex(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Regex::~Regex() = default;

namespace {

constexpr uint32_t kOptions = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE |
                              PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_AUTO_CAPTURE;

}  // namespace

// What PCRE2 knows of the first byte, which it works out for patterns that are
// not anchored alone.
void Regex::FindFirstBytes(absl::string_view pcre, Code* code) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* free =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pcre.data()), pcre.size(),
                    kOptions, &error, &offset, nullptr);
  if (free == nullptr) return;
  uint32_t empty = 1, type = 0;
  const uint8_t* bitmap = nullptr;
  pcre2_pattern_info(free, PCRE2_INFO_MATCHEMPTY, &empty);
  code->matches_empty = empty != 0;
  if (!code->matches_empty &&
      pcre2_pattern_info(free, PCRE2_INFO_FIRSTCODETYPE, &type) == 0 &&
      type == 0 &&
      pcre2_pattern_info(free, PCRE2_INFO_FIRSTBITMAP, &bitmap) == 0 &&
      bitmap != nullptr) {
    code->any_first = false;
    for (int b = 0; b < 256; ++b) {
      code->first[b] = (bitmap[b / 8] >> (b % 8) & 1) != 0;
    }
  }
  pcre2_code_free(free);
}

absl::StatusOr<std::unique_ptr<Regex>> Regex::Compile(
    absl::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("pattern has ", pattern.size(), " bytes; at most ",
                     kMaxPatternBytes, " are allowed"));
  }
  DS_ASSIGN_OR_RETURN(const std::string pcre, TranslateOniguruma(pattern));
  auto code = std::make_unique<Code>();
  int error = 0;
  PCRE2_SIZE offset = 0;
  // Anchored here and not at match time: that would leave the JIT. Ruby's ^
  // and $ are the borders of lines.
  code->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pcre.data()), pcre.size(),
                    kOptions | PCRE2_ANCHORED, &error, &offset, nullptr);
  if (!code->code) {
    return absl::InvalidArgumentError(
        absl::StrCat("pattern ", ShownPattern(pattern), ": ", ErrorText(error),
                     "; mend the pattern"));
  }
  // Where JIT can't have writable code, the interpreter matches the same.
  code->jit = pcre2_jit_compile(
                  code->code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD) == 0;
  FindFirstBytes(pcre, code.get());
  return absl::WrapUnique(new Regex(std::move(code)));
}

Regex::Matcher::Matcher(const Regex& regex, size_t total_bytes)
    : Matcher(regex, nullptr) {
  state_->own = TextAllowance(total_bytes);
}
Regex::Matcher::Matcher(const Regex& regex, TextAllowance* allowance)
    : state_(std::make_unique<State>()) {
  state_->code = regex.code_.get();
  state_->data = pcre2_match_data_create(1, nullptr);
  state_->context = pcre2_match_context_create(nullptr);
  if (allowance != nullptr) state_->allowance = allowance;
  pcre2_set_match_limit(state_->context, kFirstSteps);
  pcre2_set_heap_limit(state_->context, kHeapLimitKib);
}
Regex::Matcher::~Matcher() = default;

absl::StatusOr<bool> Regex::Matcher::MatchAt(absl::string_view text, size_t pos,
                                             size_t* end) {
  const int rc = state_->Match(text, pos);
  if (rc >= 0) {
    *end = pcre2_get_ovector_pointer(state_->data)[1];
    return true;
  }
  if (rc == PCRE2_ERROR_NOMATCH) return false;
  return MatchSlowly(text, pos, end);
}

absl::StatusOr<bool> Regex::Matcher::Find(absl::string_view text, size_t pos,
                                          size_t* begin, size_t* end) {
  const Code& code = *state_->code;
  for (size_t p = pos; p < text.size() || code.matches_empty; ++p) {
    if (p >= text.size()) {
      if (p > text.size()) break;
    } else {
      const auto byte = static_cast<uint8_t>(text[p]);
      if ((byte & 0xC0) == 0x80 && p > pos) continue;  // inside a character
      if (!code.any_first && !code.first[byte]) continue;
    }
    DS_ASSIGN_OR_RETURN(const bool found, MatchAt(text, p, end));
    if (found) {
      *begin = p;
      return true;
    }
  }
  return false;
}

absl::StatusOr<bool> Regex::Matcher::MatchSlowly(absl::string_view text,
                                                 size_t pos, size_t* end) {
  State& s = *state_;
  uint64_t& left = s.allowance->regex_steps;
  uint64_t limit = kFirstSteps;
  int rc = PCRE2_ERROR_MATCHLIMIT;
  while (true) {
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT && s.stack == nullptr) {
      s.stack = pcre2_jit_stack_create(32 << 10, kJitStackBytes, nullptr);
      pcre2_jit_stack_assign(s.context, nullptr, s.stack);
    } else if (rc == PCRE2_ERROR_MATCHLIMIT && left > 0) {
      limit = std::min(limit * 16, left);
      limit = std::min<uint64_t>(limit, UINT32_MAX);
      left -= limit;
      pcre2_set_match_limit(s.context, static_cast<uint32_t>(limit));
    } else {
      break;
    }
    rc = s.Match(text, pos);
    if (rc >= 0 || rc == PCRE2_ERROR_NOMATCH) {
      pcre2_set_match_limit(s.context, kFirstSteps);
      if (rc >= 0) *end = pcre2_get_ovector_pointer(s.data)[1];
      return rc >= 0;
    }
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "the tokenizer's pattern takes too long on this text, at byte ", pos,
      ": ", ErrorText(rc), "; use a tokenizer whose pattern does not backtrack",
      " without bound"));
}

}  // namespace deepslice
