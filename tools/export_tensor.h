// One tensor of the checkpoint that a plan was made from, put together again of
// the weights that hold its numbers.
#ifndef DEEPSLICE_TOOLS_EXPORT_TENSOR_H_
#define DEEPSLICE_TOOLS_EXPORT_TENSOR_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "compiler/plan_origin.h"
#include "compiler/synthetic_recipe.h"
#include "ir/graph.h"
#include "schema/base/dtype.h"
#include "tools/known_plan.h"

namespace deepslice {

// Where a part of a tensor is held: a piece of a weight of the graph before
// slicing, and which rows and columns of the tensor it is.
struct HeldPart {
  const Weight* weight;
  const SourcePiece* piece;
  SourcePiece place;
  double plus;  // what the weight has more than the tensor
};
using PartsOf = std::map<std::string, std::vector<HeldPart>, std::less<>>;

// By the tensors that the weights were read from.
PartsOf PartsByTensor(const Graph& unsliced);

class ExportTensor {
 public:
  // `known` and `tensor` must outlive it. DataLoss where a piece lies outside
  // the tensor or in no rank.
  static absl::StatusOr<ExportTensor> Create(const KnownPlan& known,
                                             const OriginTensor& tensor,
                                             const PartsOf& parts);

  const OriginTensor& tensor() const { return *tensor_; }
  // Of the elements that Write gives: the plan's, or the checkpoint's own where
  // that holds the plan's numbers exactly; f32 for a quantised one.
  DType dtype() const { return dtype_; }
  uint64_t bytes() const;
  bool quantised() const { return quantised_; }
  // Elements that the plan does not hold, which are zeros.
  int64_t missing() const { return missing_; }

  // Gives all bytes, row-major, a few MiB at a time.
  absl::Status Write(
      absl::FunctionRef<absl::Status(const void*, uint64_t)> sink) const;

 private:
  // A rectangle of the tensor as recipes see it: rows x, columns y.
  struct Place {
    Range x, y;
    Encoding encoding;
    float plus = 0;
    const char* data = nullptr;  // of the first element; null: made up
    int64_t row_bytes = 0;
    const float* scales = nullptr;
    int64_t scale_step = 0;
    // Made up: mean + scale * unit, see synthetic.h.
    uint64_t key = 0;
    int64_t source_row = 0;  // of the first row
    float mean = 0, scale = 1;
  };

  absl::Status Add(const KnownPlan& known, const HeldPart& part);
  void AddPlace(const HeldPart& part, Range rows, const Place& place);
  void ChooseType(const std::string& plan_dtype);
  // Elements `y` of row `x` of a place, as floats.
  void ReadFloats(const Place& place, int64_t x, Range y, float* out) const;
  // Rows [begin, end) of the published tensor.
  void Fill(int64_t begin, int64_t end, uint8_t* out) const;
  void FillRow(const Place& place, int64_t x, Range y, uint8_t* out,
               int64_t step, std::vector<float>* floats) const;

  const OriginTensor* tensor_ = nullptr;
  absl::string_view exact_;      // all its bytes, as the source had them
  int64_t rows_ = 0, cols_ = 0;  // as published, all dims but the first joined
  bool flipped_ = false;         // rows of recipes are published columns
  bool flat_ = false;            // recipes count elements
  std::vector<Place> places_;    // by x.begin
  std::vector<int64_t> ends_;    // the largest x.end up to each place
  DType dtype_ = DType::kF32;
  bool quantised_ = false;
  bool offset_ = false;  // numbers have an offset that the source's had not
  int64_t missing_ = 0;
};

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_EXPORT_TENSOR_H_
