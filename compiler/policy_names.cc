#include "compiler/policy_names.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"

namespace deepslice {
namespace {

// The first prefix under which any pattern finds a tensor.
std::string ChoosePrefix(const Policy& policy, const Checkpoint& checkpoint) {
  for (const std::string& prefix : policy.prefixes) {
    for (const WeightPattern& p : policy.weights) {
      if (!p.flag.empty()) continue;
      for (const std::string& name : p.names) {
        if (absl::StrContains(name, "{prefix}") &&
            checkpoint.Find(NamePattern(name, prefix).Name()) != nullptr) {
          return prefix;
        }
      }
    }
  }
  return policy.prefixes[0];
}

// How many parts of a path the names of two tensors begin with.
size_t CommonParts(absl::string_view a, absl::string_view b) {
  size_t parts = 0;
  for (size_t n = 0; n < a.size() && n < b.size() && a[n] == b[n]; ++n) {
    parts += a[n] == '.';
  }
  return parts;
}

// Leaves of a pattern's names the first that a tensor has; if none has one,
// those in a stack that is there, so that errors speak of this checkpoint.
void ChooseName(const std::string& prefix, const Checkpoint& checkpoint,
                WeightPattern* p) {
  if (p->names.size() == 1) return;
  std::vector<std::string> near;
  size_t most = 0;
  for (const std::string& name : p->names) {
    const NamePattern pattern(name, prefix);
    const std::string before_layer =
        NamePattern(name.substr(0, name.find("{i}")), prefix).Name();
    size_t parts = 0;
    for (const TensorInfo& t : checkpoint.tensors()) {
      if (pattern.Match(t.name) >= 0) {
        p->name = name;
        p->names = {name};
        return;
      }
      parts = std::max(parts, CommonParts(t.name, before_layer));
    }
    if (parts > most) near.clear();
    most = std::max(most, parts);
    if (parts == most) near.push_back(name);
  }
  p->name = near[0];
  p->names = std::move(near);
}

}  // namespace

Policy WithNamesChosen(Policy policy, const Checkpoint& checkpoint) {
  policy.prefixes = {ChoosePrefix(policy, checkpoint)};
  for (WeightPattern& p : policy.weights) {
    ChooseName(policy.prefixes[0], checkpoint, &p);
  }
  return policy;
}

}  // namespace deepslice
