// Parts of CheckPlan (plan.h): each file checks one kind of table.
#ifndef DEEPSLICE_RUNTIME_PLAN_CHECK_H_
#define DEEPSLICE_RUNTIME_PLAN_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "schema/base/dtype.h"
#include "schema/base/limits.h"
#include "schema/encoding.h"
#include "schema/plan_generated.h"

namespace deepslice {

// Ceilings that keep every product of a plan's sizes inside 64 bits.
inline constexpr int64_t kMaxExtent = limits::kPlanExtent;
inline constexpr int64_t kMaxBytes = limits::kPlanBufferBytes;
inline constexpr int64_t kMaxHeads = limits::kHeads;
inline constexpr int64_t kMaxHeadDim = limits::kPlanHeadDim;

inline absl::string_view Text(const flatbuffers::String* s) {
  return absl::string_view(s->data(), s->size());
}
// A name out of the plan, fit for a message.
inline std::string Quoted(const flatbuffers::String* s) {
  return absl::CHexEscape(Text(s).substr(0, 200));
}

template <typename... What>
absl::Status Senseless(const What&... what) {
  return absl::DataLossError(absl::StrCat(what...));
}

// Whether 8-byte elements lie as they must; the FlatBuffers verifier looks at
// the vector's length only. Absent vectors are fine, and empty ones, whose
// elements (at any address) nobody reads.
template <typename T>
bool IsAligned(const flatbuffers::Vector<T>* v) {
  return v == nullptr || v->size() == 0 ||
         reinterpret_cast<uintptr_t>(v->Data()) % 8 == 0;
}

// One program, with what its steps refer to.
struct ProgramView {
  const fb::Plan& plan;
  const fb::Target& target;
  const fb::Program& program;
  bool cpu;  // target "cpu": steps are cpu_op, collective and copy
};

// Which buffers a step reads and writes.
struct StepAccess {
  std::vector<int32_t> reads, writes;
  // Reads whose slot a result of the same type may take, when this step is the
  // last that needs them.
  std::vector<int32_t> replaceable;
};

// Dims, slots, buffers, inputs; then steps and what is alive when. In this
// order: each relies on the one before.
absl::Status CheckProgramTables(const ProgramView& view);
absl::Status CheckSteps(const ProgramView& view);
// Every index that the step names is in range, or DataLoss.
absl::StatusOr<StepAccess> AccessOf(const ProgramView& view,
                                    const fb::Step& step);
absl::Status CheckLives(const ProgramView& view,
                        const std::vector<StepAccess>& steps);

// Operands, attributes and result of one CPU op, and of one collective. The
// indexes of buffers and groups are in range already.
absl::Status CheckCpuOp(const ProgramView& view, const fb::CpuOpStep& step);
absl::Status CheckCollective(const ProgramView& view,
                             const fb::CollectiveStep& step);

// GPU targets: kernels and sync words, which come before the programs; the
// programs together; one program, whose tables are checked; a launch and a
// matrix product, whose indexes are in range.
absl::Status CheckKernels(const fb::Target& target);
absl::Status CheckGpuPrograms(const fb::Target& target);
absl::Status CheckGpuProgram(const ProgramView& view);
absl::Status CheckLaunch(const ProgramView& view, const fb::LaunchStep& step);
absl::Status CheckGemm(const ProgramView& view, const fb::GemmStep& step);

// "f32[T, 20]" of a buffer.
std::string BufferText(const ProgramView& view, int buffer);
bool SameExtents(const fb::Buffer& a, const fb::Buffer& b);
// Bytes of the buffer per unit of *dim, or in all when *dim is -1. DataLoss
// when more than one extent is named.
absl::Status BufferBytes(const ProgramView& view, const fb::Buffer& buffer,
                         int* dim, int64_t* bytes);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_PLAN_CHECK_H_
