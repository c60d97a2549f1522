// The truth: every op as plain loops over doubles, one RefX per op in ops.def.
// Never a back end; tests and `dsplan verify` compare against it.
#ifndef DEEPSLICE_KERNELS_REFERENCE_H_
#define DEEPSLICE_KERNELS_REFERENCE_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "schema/ops.h"

namespace deepslice {

// A dense row-major tensor. Integer tensors (ids, positions) hold whole numbers.
struct RefTensor {
  std::vector<int64_t> shape;
  std::vector<double> data;

  int64_t rows() const { return shape.empty() ? 1 : shape[0]; }
  int64_t cols() const { return shape.size() < 2 ? 1 : shape[1]; }
  const double* row(int64_t r) const { return data.data() + r * cols(); }
};

// Keys and values of one attention layer: slot -> position -> row of
// kv_heads * head_dim values. Rows are overwritten when a position comes again.
struct RefState {
  std::map<int64_t, std::map<int64_t, std::vector<double>>> keys, values;
};

struct RefCall {
  const RefTensor* operands[kMaxOperands] = {};  // nullptr: absent
  const Attr* attrs = nullptr;                   // in table order
  RefState* state = nullptr;                     // State ops only

  const RefTensor& in(int i) const { return *operands[i]; }
  const RefTensor* maybe(int i) const { return operands[i]; }
};

// Fills *out (shape and data). InvalidArgument when operand shapes disagree.
// Collectives have no function: an evaluator over all ranks does them.
#define DS_REF_Pure(Name) absl::Status Ref##Name(const RefCall&, RefTensor* out);
#define DS_REF_State(Name) absl::Status Ref##Name(const RefCall&, RefTensor* out);
#define DS_REF_Collective(Name)
#define OP(Name, spelling, tag, operands, attrs, shape, effect) \
  DS_REF_##effect(Name)
#include "schema/ops.def"

// Calls the function of `kind`; Unimplemented for a collective.
absl::Status RunReference(OpKind kind, const RefCall& call, RefTensor* out);

}  // namespace deepslice

#endif  // DEEPSLICE_KERNELS_REFERENCE_H_
