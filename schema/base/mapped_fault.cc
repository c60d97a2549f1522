#include "schema/base/mapped_fault.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "schema/base/exit_code.h"

namespace deepslice {
namespace {

// Fixed storage: the handler may not allocate, nor read what is being freed.
struct Mapping {
  std::atomic<uintptr_t> begin{0};  // 0: free
  size_t size;
  char path[1001];
};
Mapping mappings[512];
std::mutex mappings_mutex;  // of those who write
const char* program_name = "deepslice";

// Text in place, without the library's locale or memory.
class Line {
 public:
  void Add(const char* text) {
    while (*text != '\0' && size_ < sizeof(text_)) {
      const unsigned char c = *text++;
      text_[size_++] = c < 0x20 || c == 0x7f ? '?' : static_cast<char>(c);
    }
  }
  void Add(uint64_t number) {
    char digits[24];
    char* p = digits + sizeof(digits);
    *--p = '\0';
    do {
      *--p = static_cast<char>('0' + number % 10);
    } while ((number /= 10) != 0);
    Add(p);
  }
  void Print() {
    size_ = std::min(size_, sizeof(text_) - 1);
    text_[size_++] = '\n';
    const ssize_t ignored = write(STDERR_FILENO, text_, size_);
    static_cast<void>(ignored);
  }

 private:
  char text_[1200];
  size_t size_ = 0;
};

void OnFault(int number, siginfo_t* info, void*) {
  if (info->si_code == SI_USER) {  // somebody's kill
    signal(number, SIG_DFL);
    raise(number);
    return;
  }
  // Several threads may read what is gone: one speaks, then all end.
  static std::atomic_flag speaking = ATOMIC_FLAG_INIT;
  while (speaking.test_and_set()) pause();
  const uintptr_t at = reinterpret_cast<uintptr_t>(info->si_addr);
  Line line;
  line.Add(program_name);
  for (const Mapping& m : mappings) {
    const uintptr_t begin = m.begin.load(std::memory_order_acquire);
    if (begin == 0 || at < begin || at - begin >= m.size) continue;
    line.Add(": ");
    line.Add(m.path);
    line.Add(": was cut while it was in use: byte ");
    line.Add(at - begin);
    line.Add(" of ");
    line.Add(m.size);
    line.Add(" is gone; copy the file again");
    line.Print();
    _exit(kExitBadInput);
  }
  line.Add(": memory behind a file is gone (bus error); is /dev/shm full?");
  line.Print();
  _exit(kExitFailed);
}

}  // namespace

void ReportMappedFaults(const char* program) {
  program_name = program;
  struct sigaction action = {};
  action.sa_sigaction = OnFault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

void NoteMapping(const void* begin, size_t size, const std::string& path) {
  const std::lock_guard<std::mutex> lock(mappings_mutex);
  for (Mapping& m : mappings) {
    if (m.begin.load(std::memory_order_relaxed) != 0) continue;
    m.size = size;
    const size_t bytes = std::min(path.size(), sizeof(m.path) - 1);
    std::memcpy(m.path, path.data(), bytes);
    m.path[bytes] = '\0';
    m.begin.store(reinterpret_cast<uintptr_t>(begin),
                  std::memory_order_release);
    return;
  }
}

void ForgetMapping(const void* begin) {
  const std::lock_guard<std::mutex> lock(mappings_mutex);
  for (Mapping& m : mappings) {
    if (m.begin.load(std::memory_order_relaxed) ==
        reinterpret_cast<uintptr_t>(begin)) {
      m.begin.store(0, std::memory_order_release);
      return;
    }
  }
}

}  // namespace deepslice
