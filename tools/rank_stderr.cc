#include "tools/rank_stderr.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

namespace deepslice {
namespace {

struct PrefixedLines {
  std::string prefix;
  std::string line;  // begun and not yet ended
};

// Writes all of `text` at once where the system does.
bool WriteAll(const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = write(STDERR_FILENO, &text[at], text.size() - at);
    if (n > 0) {
      at += n;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

ssize_t WriteLines(void* cookie, const char* data, size_t size) {
  auto& state = *static_cast<PrefixedLines*>(cookie);
  for (const char* at = data; at < data + size;) {
    const void* end = std::memchr(at, '\n', data + size - at);
    if (end == nullptr) {
      state.line.append(at, data + size);
      break;
    }
    const char* next = static_cast<const char*>(end) + 1;
    state.line.append(at, next);
    const bool done = WriteAll(state.prefix + state.line);
    state.line.clear();
    if (!done) return 0;
    at = next;
  }
  return static_cast<ssize_t>(size);
}

// At the process's end: a line that was never ended.
int CloseLines(void* cookie) {
  auto* state = static_cast<PrefixedLines*>(cookie);
  if (!state->line.empty()) WriteAll(state->prefix + state->line + "\n");
  delete state;
  return 0;
}

}  // namespace

void PrefixStderr(absl::string_view prefix) {
  auto* state = new PrefixedLines{std::string(prefix), ""};
  cookie_io_functions_t functions = {};
  functions.write = WriteLines;
  functions.close = CloseLines;
  FILE* stream = fopencookie(state, "w", functions);
  if (stream == nullptr) {
    delete state;
    return;
  }
  setvbuf(stream, nullptr, _IOLBF, BUFSIZ);
  stderr = stream;  // glibc's is a variable
}

}  // namespace deepslice
