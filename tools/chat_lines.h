// What a person types in a conversation: lines of stdin, and Ctrl-C.
#ifndef DEEPSLICE_TOOLS_CHAT_LINES_H_
#define DEEPSLICE_TOOLS_CHAT_LINES_H_

#include <string>

#include "absl/strings/string_view.h"

namespace deepslice {

// Messages from stdin, waited for together with SIGINT; after
// HandleInterrupts. On a terminal it asks for them with "> ", and with ". " for
// what follows a line that ends in a backslash.
class ChatLines {
 public:
  enum class Result { kMessage, kEnd, kInterrupted };

  ChatLines();
  // A message, the ends of its lines but the last in it: a line that ends in a
  // backslash goes on in the next one. kEnd at the end of stdin; kInterrupted
  // by SIGINT, and what was typed before is gone.
  Result Read(std::string* message);
  bool is_terminal() const { return terminal_; }

 private:
  Result ReadLine(std::string* line);
  void Ask(absl::string_view prompt) const;

  const bool terminal_;
  std::string pending_;
  bool at_end_ = false;
};

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_CHAT_LINES_H_
