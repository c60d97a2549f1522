#include "tools/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "tools/command_line.h"

namespace deepslice {
namespace {

constexpr absl::Duration kRedraw = absl::Milliseconds(200);
constexpr absl::Duration kLine = absl::Seconds(10);

}  // namespace

std::string BytesText(double bytes) {
  constexpr const char* kUnits[] = {"bytes", "kB", "MB", "GB", "TB", "PB"};
  size_t unit = 0;
  // 999.5 would print as 1000.
  while (bytes >= 999.5 && unit + 1 < std::size(kUnits)) {
    bytes /= 1000;
    ++unit;
  }
  const int digits = unit == 0 || bytes >= 99.95 ? 0 : bytes >= 9.995 ? 1 : 2;
  return absl::StrFormat("%.*f %s", digits, bytes, kUnits[unit]);
}

Progress::Out Progress::Stderr() {
  Out out;
  out.terminal = UseTerminalCodes(STDERR_FILENO);
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    out.columns = size.ws_col;
  }
  out.write = [](const std::string& text) {
    std::fputs(text.c_str(), stderr);
    std::fflush(stderr);
  };
  out.now = absl::Now;
  return out;
}

Progress::Progress(bool on, Out out) : on_(on), out_(std::move(out)) {}

Progress::~Progress() { Clear(); }

void Progress::Clear() {
  absl::MutexLock lock(&mutex_);
  if (drawn_) out_.write("\r\033[K");
  drawn_ = false;
}

void Progress::Report(absl::string_view what, uint64_t done, uint64_t total,
                      absl::string_view unit) {
  if (!on_) return;
  absl::MutexLock lock(&mutex_);
  const absl::Time now = out_.now();
  if (what_ != what) {
    what_ = std::string(what);
    start_ = last_ = now;
    first_ = done;
    return;
  }
  if (now - last_ < (out_.terminal ? kRedraw : kLine)) return;
  last_ = now;
  const double seconds = absl::ToDoubleSeconds(now - start_);
  const double rate = (done - std::min(first_, done)) / std::max(seconds, 1e-3);
  const auto amount = [&](double n) {
    return unit.empty() ? BytesText(n) : absl::StrFormat("%.0f", n);
  };
  std::string text =
      absl::StrCat(what, " ", amount(done), " of ", amount(total),
                   unit.empty() ? "" : absl::StrCat(" ", unit));
  if (rate > 0) {
    absl::StrAppend(
        &text, ", ",
        unit.empty() ? BytesText(rate) : absl::StrFormat("%.1f", rate), "/s, ",
        absl::StrFormat("%.0f", (total - std::min(done, total)) / rate),
        " s left");
  }
  if (out_.terminal) {
    // A line that wraps could not be taken away.
    text.resize(std::min<size_t>(text.size(), std::max(out_.columns - 1, 1)));
    out_.write(absl::StrCat("\r\033[K", text));
    drawn_ = true;
  } else {
    out_.write(absl::StrCat(text, "\n"));
  }
}

}  // namespace deepslice
