#include "tools/plan_source.h"

#include "absl/strings/string_view.h"

namespace deepslice {

json::Value PlanSource(const Plan& plan) {
  const auto* bytes = plan.fb().source();
  if (bytes == nullptr) return json::Value();
  auto parsed = json::Parse(absl::string_view(
      reinterpret_cast<const char*>(bytes->data()), bytes->size()));
  return parsed.ok() ? *std::move(parsed) : json::Value();
}

}  // namespace deepslice
