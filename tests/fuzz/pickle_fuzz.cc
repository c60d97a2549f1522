// Pickles: a tree of values whose every part can be looked at.
#include <vector>

#include "compiler/checkpoint/pickle.h"
#include "tests/fuzz/fuzz_target.h"

namespace deepslice {
namespace {

using pickle::Kind;
using pickle::Value;

constexpr int kMostSteps = 10'000;

// Looks at a value and what it holds, which may hold itself.
void LookAt(const Value& root) {
  std::vector<const Value*> left = {&root};
  for (int step = 0; step < kMostSteps && !left.empty(); ++step) {
    const Value& v = *left.back();
    left.pop_back();
    FUZZ_CHECK(v.Describe().find('\n') == std::string::npos);
    v.Find("state_dict");
    v.Attribute("num_layers");
    switch (v.kind()) {
      case Kind::kText:
      case Kind::kBytes:
      case Kind::kBigInt:
        FUZZ_CHECK(v.bytes().empty() || v.bytes().front() == v.bytes()[0]);
        break;
      case Kind::kDict:
        FUZZ_CHECK(v.items().size() % 2 == 0);
        [[fallthrough]];
      case Kind::kList:
      case Kind::kTuple:
      case Kind::kSet:
      case Kind::kGlobal:
      case Kind::kObject:
      case Kind::kStorage:
      case Kind::kTensor:
        left.insert(left.end(), v.items().begin(), v.items().end());
        break;
      default:
        break;
    }
  }
}

FUZZ_TARGET(pickle) {
  pickle::Heap heap;
  pickle::Budget budget;
  const auto read = ReadPickle(input, 0, heap, budget);
  if (!read.ok()) return CheckRefusal(read.status());
  FUZZ_CHECK(!budget.hostile && read->end <= input.size());
  LookAt(*read->root);
  for (const Value* s : read->storages) {
    FUZZ_CHECK(s->kind() == Kind::kStorage && s->items()[1]->is_text());
  }
  const absl::Status hidden = CheckBlobs(read->blobs, heap, budget);
  FUZZ_CHECK(hidden.ok() == !budget.hostile);
}

}  // namespace
}  // namespace deepslice
