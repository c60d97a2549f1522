#include "tools/command_line.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "schema/base/exit_code.h"
#include "schema/base/file.h"
#include "schema/base/mapped_fault.h"
#include "schema/base/nearest.h"

namespace deepslice {
namespace {

const char* program_name = "deepslice";
std::atomic<bool> reader_gone = false;  // of stdout

int EndOfException() {
  const absl::Status why = StatusOfException(std::current_exception());
  PrintError(program_name, why);
  return ExitCodeOf(why);
}

// A negative number is none.
bool IsFlag(absl::string_view word) {
  return word.size() > 1 && word[0] == '-' && !absl::ascii_isdigit(word[1]);
}

}  // namespace

int RunProgram(const char* name, int (*main_body)(int, char**), int argc,
               char** argv) {
  program_name = name;
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // stdout for reading alone: what is printed there fails, as it would have.
    const int mode = fd == STDERR_FILENO ? O_WRONLY : O_RDONLY;
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", mode) < 0) {
      return kExitFailed;  // and nowhere to say so
    }
  }
  signal(SIGPIPE, SIG_IGN);
  ReportMappedFaults(name);
  std::set_terminate([] { _exit(EndOfException()); });
  try {
    const int code = main_body(argc, argv);
    return reader_gone && code != kExitDone ? kExitBrokenPipe : code;
  } catch (...) {
    return EndOfException();
  }
}

absl::Status StatusOfException(const std::exception_ptr& exception) {
  try {
    if (exception != nullptr) std::rethrow_exception(exception);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory");
  } catch (const std::system_error& e) {  // of std::thread
    return absl::ResourceExhaustedError(
        absl::StrCat("the system gives no more threads: ", e.what()));
  } catch (const std::exception& e) {
    return absl::InternalError(e.what());
  } catch (...) {
  }
  return absl::InternalError("ended by an unknown exception");
}

absl::Status Print(absl::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
      std::fflush(stdout) == 0) {
    return absl::OkStatus();
  }
  if (errno == EPIPE) reader_gone = true;
  return absl::InternalError(absl::StrCat("stdout: ", std::strerror(errno)));
}

bool UseTerminalCodes(int fd) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return isatty(fd) != 0 && (no_color == nullptr || *no_color == '\0') &&
         (term == nullptr || std::strcmp(term, "dumb") != 0);
}

absl::StatusOr<std::string> ReadInput(const std::string& path,
                                      int64_t max_bytes) {
  if (path != "-") return ReadFile(path, max_bytes);
  std::string text;
  char buffer[1 << 16];
  while (const size_t n = std::fread(buffer, 1, sizeof(buffer), stdin)) {
    text.append(buffer, n);
    if (static_cast<int64_t>(text.size()) > max_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("<stdin>: found more than ", max_bytes,
                       " bytes; that is the most that is read"));
    }
  }
  if (std::ferror(stdin)) return absl::InternalError("<stdin>: cannot read");
  return text;
}

absl::Status WriteOutput(const std::string& path, absl::string_view text) {
  return path == "-" ? Print(text) : WriteFile(path, text);
}

void PrintError(absl::string_view name, const absl::Status& status) {
  if (reader_gone) return;
  absl::FPrintF(stderr, "%s: %s\n", name, OneLine(status.message()));
}

std::string OneLine(absl::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (absl::ascii_iscntrl(c)) {
      absl::StrAppendFormat(&out, "\\x%02x", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out;
}

std::vector<std::string> NormalizedArguments(int argc,
                                             const char* const* argv) {
  std::vector<std::string> arguments(argv + std::min(1, argc), argv + argc);
  for (std::string& a : arguments) {
    if (a == "--") break;
    if (!absl::StartsWith(a, "--")) continue;
    const size_t end = std::min(a.find('='), a.size());
    std::replace(a.begin(), a.begin() + end, '_', '-');
  }
  return arguments;
}

std::optional<std::string> TakeFlag(absl::string_view flag,
                                    std::vector<std::string>* arguments) {
  std::optional<std::string> value;
  const std::string with_value = absl::StrCat(flag, "=");
  for (size_t i = 0; i < arguments->size() && (*arguments)[i] != "--";) {
    const std::string& a = (*arguments)[i];
    size_t taken = 1;
    if (a == flag) {
      value = "";
      if (i + 1 < arguments->size() && !IsFlag((*arguments)[i + 1])) {
        value = (*arguments)[i + 1];
        taken = 2;
      }
    } else if (absl::StartsWith(a, with_value)) {
      value = a.substr(with_value.size());
    } else {
      ++i;
      continue;
    }
    arguments->erase(arguments->begin() + i, arguments->begin() + i + taken);
  }
  return value;
}

std::string UnknownFlag(absl::string_view flag,
                        const std::vector<std::string>& names) {
  const absl::string_view name = flag.substr(0, flag.find('='));
  std::string best;
  for (const std::string& n : names) {  // the beginning of a longer one?
    if (name.size() > 4 && absl::StartsWith(n, name)) best = n;
  }
  if (best.empty()) {
    // Two dashes that all have make no names alike.
    std::vector<std::string> bare;
    for (const std::string& n : names) {
      if (absl::StartsWith(n, "--")) bare.push_back(n.substr(2));
    }
    best = NearestName(absl::StripPrefix(name, "--"), bare);
    if (!best.empty()) best = "--" + best;
  }
  std::string text = absl::StrCat("unknown flag ", name);
  if (!best.empty()) absl::StrAppend(&text, "; did you mean ", best, "?");
  return text;
}

}  // namespace deepslice
