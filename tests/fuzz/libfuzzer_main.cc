// libFuzzer's way into the one target of this program.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/fuzz_target.h"

namespace {

// What is compared with what is shown to libFuzzer, which tries such values, in
// one execution of kTracedEvery: the calls for it take a tenth to a third of an
// execution's time, and a few show as much. The linker's --wrap (meson.build)
// has the calls of all objects come here first.
constexpr uint32_t kTracedEvery = 16;
bool traced = true;

}  // namespace

#define FUZZ_UNSEEN \
  __attribute__((no_sanitize("coverage", "address", "undefined")))
#define FUZZ_TRACED(name, first, second)              \
  void __real_##name(first, second);                  \
  FUZZ_UNSEEN void __wrap_##name(first a, second b) { \
    if (traced) __real_##name(a, b);                  \
  }

extern "C" {

FUZZ_TRACED(__sanitizer_cov_trace_cmp1, uint8_t, uint8_t)
FUZZ_TRACED(__sanitizer_cov_trace_cmp2, uint16_t, uint16_t)
FUZZ_TRACED(__sanitizer_cov_trace_cmp4, uint32_t, uint32_t)
FUZZ_TRACED(__sanitizer_cov_trace_cmp8, uint64_t, uint64_t)
FUZZ_TRACED(__sanitizer_cov_trace_const_cmp1, uint8_t, uint8_t)
FUZZ_TRACED(__sanitizer_cov_trace_const_cmp2, uint16_t, uint16_t)
FUZZ_TRACED(__sanitizer_cov_trace_const_cmp4, uint32_t, uint32_t)
FUZZ_TRACED(__sanitizer_cov_trace_const_cmp8, uint64_t, uint64_t)
FUZZ_TRACED(__sanitizer_cov_trace_switch, uint64_t, uint64_t*)

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static uint32_t executions = 0;
  traced = executions++ % kTracedEvery == 0;
  const auto run = deepslice::FuzzTargets()[0].run;
  run(absl::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}

}  // extern "C"
