// libFuzzer's way into the one target of this program.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto run = deepslice::FuzzTargets()[0].run;
  run(absl::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
