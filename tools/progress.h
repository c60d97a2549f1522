// One line about work under way: bytes, rate and time left.
#ifndef DEEPSLICE_TOOLS_PROGRESS_H_
#define DEEPSLICE_TOOLS_PROGRESS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace deepslice {

// "6.1 GB", "412 kB": three digits, powers of 1000.
std::string BytesText(double bytes);

// Redrawn in place on a terminal, a line every 10 s elsewhere, nothing at all
// when it is off. Thread-safe.
class Progress {
 public:
  // Where it writes, and what time it is.
  struct Out {
    bool terminal = false;
    int columns = 80;
    std::function<void(const std::string&)> write;
    std::function<absl::Time()> now;
  };
  // stderr as it is; NO_COLOR and TERM=dumb make it no terminal.
  static Out Stderr();

  Progress(bool on, Out out);
  ~Progress();  // takes a drawn line away

  // `what` names the phase: "wrote", "loaded". Another name begins anew: rate
  // and time left count from a phase's first report. Bytes, unless `unit` says
  // what is counted: "kernels".
  void Report(absl::string_view what, uint64_t done, uint64_t total,
              absl::string_view unit = "");
  // Takes a drawn line away, so that another can be printed.
  void Clear();

 private:
  const bool on_;
  const Out out_;
  absl::Mutex mutex_;
  std::string what_;
  bool drawn_ = false;
  absl::Time start_, last_;
  uint64_t first_ = 0;  // done at the phase's first report
};

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_PROGRESS_H_
