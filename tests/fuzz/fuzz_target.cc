#include "tests/fuzz/fuzz_target.h"

#include <algorithm>
#include <cstdio>
#include <string>

namespace deepslice {
namespace {

std::vector<FuzzTarget>& Targets() {
  static std::vector<FuzzTarget>* const targets = new std::vector<FuzzTarget>;
  return *targets;
}

// Longer than any text of ours with the names that it may quote.
constexpr size_t kLongestMessage = 4096;

}  // namespace

const std::vector<FuzzTarget>& FuzzTargets() { return Targets(); }

bool AddFuzzTarget(FuzzTarget target) {
  Targets().push_back(target);
  return true;
}

std::vector<absl::string_view> SplitParts(absl::string_view input, int count) {
  std::vector<absl::string_view> parts(count);
  for (int i = 0; i < count; ++i) {
    const size_t end = i + 1 == count ? input.npos : input.find(kPartLine);
    parts[i] = input.substr(0, end);
    if (end == input.npos) break;
    input.remove_prefix(end + kPartLine.size());
  }
  return parts;
}

void CheckRefusal(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kNotFound:
      if (!status.message().empty() &&
          status.message().size() <= kLongestMessage) {
        return;
      }
      break;
    default:
      break;
  }
  std::fprintf(stderr, "a refusal that is none: %s\n",
               status.ToString().substr(0, 2000).c_str());
  FUZZ_CHECK(false && "a stranger's input may not cause this error");
}

}  // namespace deepslice
