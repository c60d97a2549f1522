#include "tools/chat_lines.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>

#include "absl/strings/match.h"
#include "tools/dsrun_work.h"

namespace deepslice {

ChatLines::ChatLines() : terminal_(isatty(STDIN_FILENO) != 0) {}

void ChatLines::Ask(absl::string_view prompt) const {
  if (!terminal_) return;
  std::fwrite(prompt.data(), 1, prompt.size(), stderr);
  std::fflush(stderr);
}

ChatLines::Result ChatLines::Read(std::string* message) {
  message->clear();
  Ask("> ");
  while (true) {
    std::string line;
    const Result result = ReadLine(&line);
    if (result != Result::kMessage) {
      // What stands before the end of a pipe is a message although its last
      // line asks for another one.
      if (result == Result::kEnd && !message->empty()) return Result::kMessage;
      return result;
    }
    if (!absl::EndsWith(line, "\\")) {
      *message += line;
      return Result::kMessage;
    }
    line.back() = '\n';
    *message += line;
    Ask(". ");
  }
}

ChatLines::Result ChatLines::ReadLine(std::string* line) {
  while (true) {
    const size_t end = pending_.find('\n');
    if (end != std::string::npos || (at_end_ && !pending_.empty())) {
      *line = pending_.substr(0, end);
      pending_.erase(0, end == std::string::npos ? end : end + 1);
      if (!line->empty() && line->back() == '\r') line->pop_back();
      return Result::kMessage;
    }
    if (at_end_) return Result::kEnd;
    pollfd polled[] = {{STDIN_FILENO, POLLIN, 0}, {InterruptFd(), POLLIN, 0}};
    if (poll(polled, 2, -1) < 0 && errno != EINTR) return Result::kEnd;
    if (TakeInterrupt()) {
      pending_.clear();
      return Result::kInterrupted;
    }
    if (polled[0].revents == 0) continue;
    char bytes[4096];
    const ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));
    if (n > 0) {
      pending_.append(bytes, n);
    } else if (n == 0 || errno != EINTR) {
      at_end_ = true;
    }
  }
}

}  // namespace deepslice
