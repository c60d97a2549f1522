#include "runtime/backend/cuda/target_choice.h"

#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace deepslice {
namespace {

absl::string_view Name(const fb::Target& t) {
  return absl::string_view(t.name()->data(), t.name()->size());
}

struct Architecture {
  int number = 0;  // 10 * major + minor; 0: the name is none of a GPU
  bool ptx = false;
  bool own = false;  // for this very architecture, no other
};

Architecture Parse(absl::string_view name) {
  Architecture a;
  a.ptx = absl::ConsumePrefix(&name, "compute_");
  if (!a.ptx && !absl::ConsumePrefix(&name, "sm_")) return {};
  a.own = absl::ConsumeSuffix(&name, "a");
  if (name.empty() || !absl::c_all_of(name, absl::ascii_isdigit) ||
      !absl::SimpleAtoi(name, &a.number)) {
    return {};
  }
  return a;
}

}  // namespace

int TargetFit(absl::string_view name, int major, int minor) {
  const Architecture a = Parse(name);
  const int device = 10 * major + minor;
  if (a.number == 0) return 0;
  if (a.own) return a.number == device ? (a.ptx ? 3000 : 4000) : 0;
  if (a.number > device) return 0;
  if (a.ptx) return 1000 + a.number;
  return a.number / 10 == major ? 2000 + a.number : 0;
}

bool KernelsMayOverlap(absl::string_view name) {
  return Parse(name).number >= 90;
}

absl::StatusOr<const fb::Target*> ChooseTarget(const Plan& plan,
                                               const DeviceInfo& device) {
  const fb::Target* best = nullptr;
  int best_fit = 0;
  std::vector<std::string> names;
  for (const fb::Target* t : *plan.fb().targets()) {
    names.push_back(absl::CHexEscape(Name(*t)));
    const int fit = TargetFit(Name(*t), device.major, device.minor);
    if (fit <= best_fit) continue;
    best = t;
    best_fit = fit;
  }
  if (best != nullptr) return best;
  return absl::FailedPreconditionError(absl::StrCat(
      "the plan was compiled for ", absl::StrJoin(names, ", "), ", device ",
      device.ordinal, " is sm_", device.major, device.minor, " (", device.name,
      "); recompile it with --target sm_", device.major, device.minor,
      device.major >= 9 ? "a" : ""));
}

}  // namespace deepslice
