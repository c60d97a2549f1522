// Where the values of a graph lie in a GPU program: their buffers, types and
// row strides.
#ifndef DEEPSLICE_COMPILER_GPU_VALUE_PLACES_H_
#define DEEPSLICE_COMPILER_GPU_VALUE_PLACES_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "compiler/gpu/lower_program.h"
#include "compiler/gpu/program_builder.h"

namespace deepslice {

inline int64_t Columns(const Value* v) { return v->type.dims[1].size; }

// A value has the activations' type, but sums of squares, what is returned and
// what becomes that row by row are float. What an all-gather reads has its rows
// padded to the widest part, and as many as the step's most.
class ValuePlaces {
 public:
  // Adds the program's inputs. Nodes made what the graph returns; `kernels`
  // must outlive this.
  ValuePlaces(const ProgramRequest& request, SpecTable* kernels);

 protected:
  DType TypeOf(const Value* v) const;
  bool IsPadded(const Value* v) const { return padded_.contains(v); }
  // Whether its rows are source tokens in a program of a bucket, whose steps
  // have none.
  bool IsLeftOut(const Value* v) const {
    return r_.bucket > 0 && v->type.dims[0] == Dim("E");
  }
  // The value's buffer, made when it is asked for first.
  int BufferOf(const Value* v);
  // A new buffer for as many rows as v has.
  int BufferLike(const Value* v, absl::string_view name, int64_t columns);
  // Elements from one row of a buffer to the next.
  int64_t Stride(int buffer) const {
    return b_.program().buffers[buffer].extents.back().size;
  }

  // None for nullptr.
  LoweredOperand Operand(const Value* v);
  LoweredOperand Operand(const Weight* w) const;
  int IndexOf(const Weight* w) const { return weights_.at(w); }
  int IndexOf(const State* s) const { return states_.at(s); }
  // The program's input of that name, or none.
  LoweredOperand Input(absl::string_view name) const;

  // What counts the value's rows, and how many there are at most.
  static CountDim CountOf(const Value* v);
  int64_t RowsOf(const Value* v) const {
    return b_.DimMaximum(v->type.dims[0].symbol);
  }

  const ProgramRequest& r_;
  const Graph& graph_;
  const bool encodes_;
  ProgramBuilder b_;
  int tiles_ = -1, sampled_ = -1, samplers_ = -1;  // inputs; -1: there is none

 private:
  // Of `v`, which is returned.
  void FindFloats(const Value* v);
  void AddInputs();

  absl::flat_hash_map<const Weight*, int> weights_;
  absl::flat_hash_map<const State*, int> states_;
  absl::flat_hash_map<const Value*, int> buffers_;
  absl::flat_hash_map<const Value*, int64_t> padded_;  // columns
  absl::flat_hash_set<const Value*> floats_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_GPU_VALUE_PLACES_H_
