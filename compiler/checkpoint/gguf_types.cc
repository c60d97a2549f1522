#include "compiler/checkpoint/gguf_types.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "compiler/checkpoint/dequantize.h"

namespace deepslice {
namespace {

enum class Use { kRead, kNotRead, kRemoved };
struct TypeRow {
  uint32_t number;
  absl::string_view name;
  Use use;
  DType dtype = DType::kF32;
  Storage storage = Storage::kPlain;
};
constexpr TypeRow kTypes[] = {
    {0, "F32", Use::kRead, DType::kF32},
    {1, "F16", Use::kRead, DType::kF16},
    {2, "Q4_0", Use::kRead, DType::kF32, Storage::kQ4_0},
    {3, "Q4_1", Use::kRead, DType::kF32, Storage::kQ4_1},
    {4, "Q4_2", Use::kRemoved},
    {5, "Q4_3", Use::kRemoved},
    {6, "Q5_0", Use::kRead, DType::kF32, Storage::kQ5_0},
    {7, "Q5_1", Use::kRead, DType::kF32, Storage::kQ5_1},
    {8, "Q8_0", Use::kRead, DType::kF32, Storage::kQ8_0},
    {9, "Q8_1", Use::kNotRead},
    {10, "Q2_K", Use::kRead, DType::kF32, Storage::kQ2_K},
    {11, "Q3_K", Use::kRead, DType::kF32, Storage::kQ3_K},
    {12, "Q4_K", Use::kRead, DType::kF32, Storage::kQ4_K},
    {13, "Q5_K", Use::kRead, DType::kF32, Storage::kQ5_K},
    {14, "Q6_K", Use::kRead, DType::kF32, Storage::kQ6_K},
    {15, "Q8_K", Use::kRead, DType::kF32, Storage::kQ8_K},
    {16, "IQ2_XXS", Use::kNotRead},
    {17, "IQ2_XS", Use::kNotRead},
    {18, "IQ3_XXS", Use::kNotRead},
    {19, "IQ1_S", Use::kNotRead},
    {20, "IQ4_NL", Use::kRead, DType::kF32, Storage::kIQ4_NL},
    {21, "IQ3_S", Use::kNotRead},
    {22, "IQ2_S", Use::kNotRead},
    {23, "IQ4_XS", Use::kRead, DType::kF32, Storage::kIQ4_XS},
    {24, "I8", Use::kRead, DType::kI8},
    {25, "I16", Use::kRead, DType::kI16},
    {26, "I32", Use::kRead, DType::kI32},
    {27, "I64", Use::kRead, DType::kI64},
    {28, "F64", Use::kRead, DType::kF64},
    {29, "IQ1_M", Use::kNotRead},
    {30, "BF16", Use::kRead, DType::kBF16},
    {31, "Q4_0_4_4", Use::kRemoved},
    {32, "Q4_0_4_8", Use::kRemoved},
    {33, "Q4_0_8_8", Use::kRemoved},
    {34, "TQ1_0", Use::kRead, DType::kF32, Storage::kTQ1_0},
    {35, "TQ2_0", Use::kRead, DType::kF32, Storage::kTQ2_0},
    {36, "IQ4_NL_4_4", Use::kRemoved},
    {37, "IQ4_NL_4_8", Use::kRemoved},
    {38, "IQ4_NL_8_8", Use::kRemoved},
    {39, "MXFP4", Use::kRead, DType::kF32, Storage::kMXFP4},
    {40, "NVFP4", Use::kRead, DType::kF32, Storage::kNVFP4},
    {41, "Q1_0", Use::kNotRead},
};
constexpr absl::string_view kReadTypes =
    "F32, F16, BF16, F64, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, Q8_K, "
    "IQ4_NL, IQ4_XS, TQ1_0, TQ2_0, MXFP4, NVFP4";

}  // namespace

absl::StatusOr<GgufType> FindGgufType(uint32_t number) {
  for (const TypeRow& row : kTypes) {
    if (row.number != number) continue;
    if (row.use == Use::kRemoved) {
      return absl::InvalidArgumentError(
          absl::StrCat("type ", number, " (", row.name,
                       ") was removed from the format; "
                       "convert the model again"));
    }
    if (row.use == Use::kNotRead) {
      return absl::UnimplementedError(absl::StrCat(
          "type ", number, " (", row.name, ") is not supported; supported: ",
          kReadTypes, "; use a file of another quantisation"));
    }
    if (row.storage == Storage::kPlain) {
      return GgufType{row.dtype, row.storage, 1, DTypeSize(row.dtype)};
    }
    return GgufType{row.dtype, row.storage, BlockElements(row.storage),
                    BlockBytes(row.storage)};
  }
  return absl::InvalidArgumentError(
      absl::StrCat("type ", number, " has no meaning; allowed: ", kReadTypes));
}

}  // namespace deepslice
