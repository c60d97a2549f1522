// Changes plans where it matters: numbers in place, and whole tables by way of
// the project's own writer. Bytes that are put in or taken out anywhere would
// only break every offset.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "runtime/plan.h"
#include "schema/plan_generated.h"
#include "tests/fuzz/plan_seeds.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace deepslice {
namespace {

using Random = std::minstd_rand;

size_t Pick(Random& random, size_t count) { return random() % count; }

// A number that a reader may trip over, often near the one that stands there.
uint64_t Interesting(Random& random, uint64_t now) {
  static constexpr uint64_t kEdges[] = {0,
                                        1,
                                        2,
                                        3,
                                        4,
                                        7,
                                        8,
                                        16,
                                        64,
                                        127,
                                        128,
                                        255,
                                        256,
                                        4095,
                                        4096,
                                        65535,
                                        65536,
                                        0x7fffffff,
                                        0x80000000,
                                        0xffffffff,
                                        ~uint64_t{0},
                                        uint64_t{1} << 26,
                                        uint64_t{1} << 56,
                                        uint64_t{1} << 62,
                                        uint64_t{1} << 63};
  switch (Pick(random, 6)) {
    case 0:
      return now + 1;
    case 1:
      return now - 1;
    case 2:
      return now * 2;
    case 3:
      return now ^ (uint64_t{1} << Pick(random, 64));
    case 4:
      return Pick(random, 32);
    default:
      return kEdges[Pick(random, std::size(kEdges))];
  }
}

// One aligned number becomes another, or that of another place.
void ChangeNumber(Random& random, uint8_t* data, size_t size) {
  const size_t width = size_t{1} << Pick(random, 4);
  if (size < 2 * width) return;
  const size_t at = Pick(random, size / width) * width;
  uint64_t value = 0;
  if (Pick(random, 4) == 0) {
    std::memcpy(&value, data + Pick(random, size / width) * width, width);
  } else {
    std::memcpy(&value, data + at, width);
    value = Interesting(random, value);
  }
  std::memcpy(data + at, &value, width);
}

// Takes an entry out, doubles one, swaps two, or moves one.
template <typename T>
void ChangeList(Random& random, std::vector<T>& list) {
  if (list.empty()) return;
  const size_t a = Pick(random, list.size()), b = Pick(random, list.size());
  switch (Pick(random, 3)) {
    case 0:
      list.erase(list.begin() + a);
      break;
    case 1:
      std::swap(list[a], list[b]);
      break;
    default:
      std::rotate(list.begin() + std::min(a, b), list.begin() + std::max(a, b),
                  list.end());
  }
}

template <typename T>
void Double(Random& random, std::vector<std::unique_ptr<T>>& list) {
  if (list.empty()) return;
  auto copy = std::make_unique<T>(*list[Pick(random, list.size())]);
  list.insert(list.begin() + Pick(random, list.size() + 1), std::move(copy));
}

template <typename T>
void Number(Random& random, T& value) {
  value = static_cast<T>(Interesting(random, static_cast<uint64_t>(value)));
}

void ChangeStep(Random& random, fb::StepT& step) {
  if (step.cpu_op != nullptr) {
    fb::CpuOpStepT& op = *step.cpu_op;
    switch (Pick(random, 6)) {
      case 0:
        Number(random, op.op);
        return;
      case 1:
        ChangeList(random, op.operands);
        return;
      case 2:
        if (op.operands.empty()) return;
        op.operands.push_back(op.operands[Pick(random, op.operands.size())]);
        return;
      case 3:
        Number(random, op.output);
        return;
      case 4:
        if (!op.operands.empty()) {
          fb::OperandRef& ref = op.operands[Pick(random, op.operands.size())];
          ref = fb::OperandRef(ref.kind(),
                               static_cast<int32_t>(Pick(random, 40)) - 1);
        }
        return;
      default:
        if (!op.attrs.empty()) {
          fb::AttrValue& attr = op.attrs[Pick(random, op.attrs.size())];
          attr = fb::AttrValue(
              static_cast<int64_t>(Interesting(random, attr.i())), attr.f());
        }
        return;
    }
  }
  if (step.collective != nullptr) {
    Number(random, Pick(random, 2) == 0 ? step.collective->input
                                        : step.collective->output);
    return;
  }
  if (step.launch != nullptr) ChangeList(random, step.launch->operands);
}

void ChangeProgram(Random& random, fb::ProgramT& program) {
  switch (Pick(random, 8)) {
    case 0:
      return ChangeList(random, program.steps);
    case 1:
      return ChangeList(random, program.buffers);
    case 2:
      return ChangeList(random, program.slots);
    case 3:
      if (program.buffers.empty()) return;
      return Number(
          random, program.buffers[Pick(random, program.buffers.size())]->slot);
    case 4:
      if (program.slots.empty()) return;
      return Number(
          random,
          program.slots[Pick(random, program.slots.size())]->bytes_per_unit);
    case 5:
      if (program.dims.empty()) return;
      return Number(random,
                    program.dims[Pick(random, program.dims.size())]->maximum);
    default:
      if (program.steps.empty()) return;
      return ChangeStep(random,
                        *program.steps[Pick(random, program.steps.size())]);
  }
}

void ChangeWeight(Random& random, fb::PlanT& plan) {
  if (plan.weights.empty()) return;
  fb::WeightT& w = *plan.weights[Pick(random, plan.weights.size())];
  switch (Pick(random, 5)) {
    case 0:
      return Number(random, w.encoding);
    case 1:
      return Number(random, w.offset);
    case 2:
      return Number(random, w.bytes);
    case 3:
      return Number(random, w.scales_offset);
    default:
      if (!w.shape.empty()) {
        Number(random, w.shape[Pick(random, w.shape.size())]);
      }
  }
}

void ChangeState(Random& random, fb::PlanT& plan) {
  if (plan.states.empty()) return;
  fb::StateT& s = *plan.states[Pick(random, plan.states.size())];
  switch (Pick(random, 4)) {
    case 0:
      return Number(random, s.kv_heads);
    case 1:
      return Number(random, s.head_dim);
    case 2:
      return Number(random, s.block_tokens);
    default:
      return Number(random, s.bytes_per_block);
  }
}

void ChangeTables(Random& random, fb::PlanT& plan) {
  switch (Pick(random, 9)) {
    case 0:
      return ChangeWeight(random, plan);
    case 1:
      return ChangeList(random, plan.weights);
    case 2:
      return Double(random, plan.states);
    case 3:
      return ChangeState(random, plan);
    case 4:
      return Number(random, plan.vocab_size);
    case 5:
      if (plan.reference == nullptr) return;
      return ChangeProgram(random, *plan.reference);
    default: {
      if (plan.targets.empty()) return;
      auto& target = plan.targets[Pick(random, plan.targets.size())];
      if (target->programs.empty()) return;
      return ChangeProgram(
          random, *target->programs[Pick(random, target->programs.size())]);
    }
  }
}

// The new size, or 0 when `data` is no sound plan or has grown too long. (What
// stands in others may be unaligned, and another change to them is in vain.)
size_t Rewrite(Random& random, uint8_t* data, size_t size, size_t most) {
  flatbuffers::Verifier verifier(data, size);
  if (!fb::VerifyPlanBuffer(verifier) ||
      !CheckPlan(*fb::GetPlan(data), SeedWeights().size(), "plan").ok()) {
    return 0;
  }
  fb::PlanT plan;
  fb::GetPlan(data)->UnPackTo(&plan);
  ChangeTables(random, plan);
  flatbuffers::FlatBufferBuilder builder;
  fb::FinishPlanBuffer(builder, fb::Plan::Pack(builder, &plan));
  if (builder.GetSize() > most) return 0;
  std::memcpy(data, builder.GetBufferPointer(), builder.GetSize());
  return builder.GetSize();
}

}  // namespace
}  // namespace deepslice

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size,
                                          size_t most, unsigned int seed) {
  deepslice::Random random(seed);
  switch (deepslice::Pick(random, 16)) {
    case 0:
      return LLVMFuzzerMutate(data, size, most);
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
    case 6:
      if (const size_t n = deepslice::Rewrite(random, data, size, most)) {
        return n;
      }
      [[fallthrough]];
    default:
      for (size_t n = 1 + deepslice::Pick(random, 3); n > 0; --n) {
        deepslice::ChangeNumber(random, data, size);
      }
      return size;
  }
}
