// What a fuzz target is, and what all of them ask of the code that they try.
#ifndef DEEPSLICE_TESTS_FUZZ_FUZZ_TARGET_H_
#define DEEPSLICE_TESTS_FUZZ_FUZZ_TARGET_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "schema/base/check.h"

namespace deepslice {

// Bytes of a stranger. `run` returns whatever they are; what must not be ends
// the process: a sanitizer's finding, FUZZ_CHECK, too much time or memory.
struct FuzzTarget {
  const char* name;  // of its corpus, its dictionary and its program
  void (*run)(absl::string_view input);
};

// Those that are linked: one in a fuzz program, all in the replay.
const std::vector<FuzzTarget>& FuzzTargets();
bool AddFuzzTarget(FuzzTarget target);

// Input in parts, for targets that take several: the text up to each line that
// is kPartLine, with neither line break around it. Exactly `count`; those that
// are absent are empty, and the last holds all the rest.
inline constexpr absl::string_view kPartLine = "\n----\n";
std::vector<absl::string_view> SplitParts(absl::string_view input, int count);

// An error that a stranger's input may cause: one of the codes that say so, and
// a text that fits on a screen.
void CheckRefusal(const absl::Status& status);

}  // namespace deepslice

// Defines the target `name`; a body follows that sees `input`.
#define FUZZ_TARGET(name)                               \
  static void Fuzz_##name(absl::string_view input);     \
  static const bool added_##name [[maybe_unused]] =     \
      ::deepslice::AddFuzzTarget({#name, Fuzz_##name}); \
  static void Fuzz_##name([[maybe_unused]] absl::string_view input)

// Ends the process when `cond` does not hold, whatever the build.
#define FUZZ_CHECK(cond) DS_CHECK(cond)

#endif  // DEEPSLICE_TESTS_FUZZ_FUZZ_TARGET_H_
