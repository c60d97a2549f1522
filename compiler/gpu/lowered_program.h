// A step program for a GPU as plain data: what the plan holds of it, before it
// is a FlatBuffer.
#ifndef DEEPSLICE_COMPILER_GPU_LOWERED_PROGRAM_H_
#define DEEPSLICE_COMPILER_GPU_LOWERED_PROGRAM_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/slot_pool.h"
#include "kernels/cuda/kernel_spec.h"
#include "schema/base/dtype.h"

namespace deepslice {

// dim < 0: the number `size`; else that named dim of the program.
struct LoweredExtent {
  int64_t size = 0;
  int dim = -1;
  bool operator==(const LoweredExtent& o) const {
    return dim == o.dim && (dim >= 0 || size == o.size);
  }
};

struct LoweredBuffer {
  std::string name;  // of the IR's value, where it is one
  DType dtype = DType::kF32;
  std::vector<LoweredExtent> extents;
  int slot = -1;  // -1: a program input
  // Alive over [first_step, last_step]; -1: no step uses it.
  int first_step = -1, last_step = -1;
};

// Numbered as fb::OperandKind.
struct LoweredOperand {
  enum class Kind : uint8_t { kNone, kBuffer, kWeight, kState, kSync, kScales };
  Kind kind = Kind::kNone;
  int index = -1;

  static LoweredOperand None() { return {}; }
  static LoweredOperand Buffer(int i) { return {Kind::kBuffer, i}; }
  static LoweredOperand Weight(int i) { return {Kind::kWeight, i}; }
  static LoweredOperand State(int i) { return {Kind::kState, i}; }
  static LoweredOperand Sync(int i) { return {Kind::kSync, i}; }
};

struct LoweredGrid {
  int64_t times = 1, per_block = 1;
  int dim = -1;
};

// The fields of its kind only. Steps run in order on one stream.
struct LoweredStep {
  // Numbered as fb::StepKind.
  enum class Kind : uint8_t { kLaunch = 0, kGemm = 1, kCollective = 2 };
  // Numbered as fb::CollectiveKind.
  enum class Collective : uint8_t { kAllReduce, kAllGather, kBroadcast };

  Kind kind = Kind::kLaunch;
  std::string name;  // the result's in the IR
  int layer = -1;
  std::vector<int> outputs;  // buffers; one but for launches

  int kernel = -1;  // kLaunch: index into GpuPrograms::kernels
  std::vector<LoweredOperand> operands;
  std::array<LoweredGrid, 3> grid;
  std::array<uint32_t, 3> block = {1, 1, 1};
  uint32_t shared_bytes = 0;
  bool programmatic = false;
  int64_t sync_words = 0;  // that its sync operand begins

  int a = -1, weight = -1, residual = -1;  // kGemm; buffer, weight, buffer

  Collective collective = Collective::kAllReduce;  // kCollective
  int sequence = 0;
  DType dtype = DType::kF32;
  int input = -1;
  int64_t columns = 0;

  std::vector<int> Reads() const;  // buffers
};

struct LoweredProgram {
  std::string name;      // "step", "decode_4", "encode"
  bool encodes = false;  // a program of kind encode
  int bucket = 0;    // see Program of plan.fbs
  int64_t tile_tokens = 0;
  std::vector<ScheduledDim> dims;
  std::vector<ScheduledSlot> slots;
  std::vector<LoweredBuffer> buffers;
  std::vector<LoweredStep> steps;
  std::vector<int> inputs, outputs;  // buffers
  int64_t sync_words = 0;
};

// All programs of one rank for one target.
struct GpuPrograms {
  // "step" first, then by bucket; or "encode" alone.
  std::vector<LoweredProgram> programs;
  // By first use, then those that the runtime launches by itself. No two of the
  // same source and entry.
  std::vector<KernelSpec> kernels;
  std::vector<int> service;  // indexes of the latter
  int64_t sync_words = 0;    // the most of any program

  // The largest program's, at the ceilings.
  int64_t ArenaBytes() const;
};

// One line per collective: "all_reduce bf16[T, 64] of 64 columns %embed".
std::vector<std::string> CollectiveLines(const LoweredProgram& program);

// The program as text for people: its buffers, then a line a step.
std::string PrintLoweredProgram(const LoweredProgram& program,
                                const std::vector<KernelSpec>& kernels,
                                const std::vector<std::string>& weight_names,
                                const std::vector<std::string>& state_names);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_GPU_LOWERED_PROGRAM_H_
