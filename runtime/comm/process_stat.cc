#include "runtime/comm/process_stat.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace deepslice {
namespace {

// Fields behind the name, of which the first is the third of the line.
constexpr size_t kState = 0, kParent = 1, kStart = 19;

// The beginning of /proc/PID/`name`; empty when there is none.
std::string ReadOf(pid_t pid, absl::string_view name) {
  const std::string path = absl::StrCat("/proc/", pid, "/", name);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  char text[4096];
  const ssize_t n = read(fd, text, sizeof(text));
  close(fd);
  return n > 0 ? std::string(text, n) : "";
}

}  // namespace

std::optional<ProcessStat> ParseProcessStat(absl::string_view line) {
  // The name may hold blanks and brackets of its own.
  const size_t open = line.find('('), close = line.rfind(')');
  if (open == absl::string_view::npos || close == absl::string_view::npos ||
      close < open) {
    return std::nullopt;
  }
  const std::vector<absl::string_view> fields =
      absl::StrSplit(line.substr(close + 1), ' ', absl::SkipEmpty());
  ProcessStat out;
  if (fields.size() <= kStart || fields[kState].size() != 1 ||
      !absl::SimpleAtoi(fields[kParent], &out.parent) ||
      !absl::SimpleAtoi(fields[kStart], &out.start)) {
    return std::nullopt;
  }
  out.name = std::string(line.substr(open + 1, close - open - 1));
  out.state = fields[kState][0];
  return out;
}

std::optional<ProcessStat> ReadProcessStat(pid_t pid) {
  const std::string line = ReadOf(pid, "stat");
  if (line.empty()) return std::nullopt;
  return ParseProcessStat(line);
}

std::vector<std::string> ReadCommandLine(pid_t pid) {
  return absl::StrSplit(ReadOf(pid, "cmdline"), '\0', absl::SkipEmpty());
}

bool RunsSameProgram(pid_t a, pid_t b) {
  struct stat one, other;
  return stat(absl::StrCat("/proc/", a, "/exe").c_str(), &one) == 0 &&
         stat(absl::StrCat("/proc/", b, "/exe").c_str(), &other) == 0 &&
         one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

}  // namespace deepslice
