// Types of values: element type and dims, each dim a number or a symbol.
#ifndef DEEPSLICE_IR_TYPE_H_
#define DEEPSLICE_IR_TYPE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "schema/base/dtype.h"

namespace deepslice {

// A size known at compile time, or the name of one that a step brings:
// T tokens, R rows whose logits are wanted, S sequence slots, B blocks of a
// sequence.
struct Dim {
  Dim(int64_t n) : size(n) {}                   // NOLINT
  Dim(int n) : size(n) {}                       // NOLINT
  Dim(std::string s) : symbol(std::move(s)) {}  // NOLINT
  Dim(const char* s) : symbol(s) {}             // NOLINT
  bool is_symbol() const { return !symbol.empty(); }
  bool operator==(const Dim& o) const {
    return size == o.size && symbol == o.symbol;
  }
  bool operator!=(const Dim& o) const { return !(*this == o); }

  int64_t size = 0;
  std::string symbol;
};

struct TensorType {
  DType dtype = DType::kF32;
  std::vector<Dim> dims;

  int rank() const { return static_cast<int>(dims.size()); }
  bool operator==(const TensorType& o) const {
    return dtype == o.dtype && dims == o.dims;
  }
  bool operator!=(const TensorType& o) const { return !(*this == o); }
};

// "f32[T, 64]".
std::string TypeText(const TensorType& type);

}  // namespace deepslice

#endif  // DEEPSLICE_IR_TYPE_H_
