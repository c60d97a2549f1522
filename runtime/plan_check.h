// Parts of CheckPlan (plan.h): each file checks one kind of table.
#ifndef DEEPSLICE_RUNTIME_PLAN_CHECK_H_
#define DEEPSLICE_RUNTIME_PLAN_CHECK_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "schema/base/dtype.h"
#include "schema/encoding.h"
#include "schema/plan_generated.h"

namespace deepslice {

// Ceilings that keep every product of a plan's sizes inside 64 bits.
inline constexpr int64_t kMaxExtent = int64_t{1} << 26;
inline constexpr int64_t kMaxBytes = int64_t{1} << 56;
inline constexpr int64_t kMaxHeads = 65536;
inline constexpr int64_t kMaxHeadDim = 16384;

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

// Dims, slots, buffers, inputs; then steps and what is alive when. In this
// order: each relies on the one before.
absl::Status CheckProgramTables(const ProgramView& view);
absl::Status CheckSteps(const ProgramView& view);

// Operands, attributes and result of one CPU op, and of one collective. The
// indexes of buffers and groups are in range already.
absl::Status CheckCpuOp(const ProgramView& view, const fb::CpuOpStep& step);
absl::Status CheckCollective(const ProgramView& view,
                             const fb::CollectiveStep& step);

// "f32[T, 20]" of a buffer.
std::string BufferText(const ProgramView& view, int buffer);
bool SameExtents(const fb::Buffer& a, const fb::Buffer& b);
// Bytes of the buffer per unit of *dim, or in all when *dim is -1. DataLoss
// when more than one extent is named.
absl::Status BufferBytes(const ProgramView& view, const fb::Buffer& buffer,
                         int* dim, int64_t* bytes);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_PLAN_CHECK_H_
