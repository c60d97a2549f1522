#include "compiler/dtype_option.h"

#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace deepslice {
namespace {

std::optional<Encoding> ParseAlias(absl::string_view name) {
  static constexpr struct {
    absl::string_view alias;
    Encoding encoding;
  } kAliases[] = {
      {"fp32", Encoding::kF32},    {"float32", Encoding::kF32},
      {"float", Encoding::kF32},   {"f32", Encoding::kF32},
      {"fp16", Encoding::kF16},    {"float16", Encoding::kF16},
      {"half", Encoding::kF16},    {"f16", Encoding::kF16},
      {"bf16", Encoding::kBF16},   {"bfloat16", Encoding::kBF16},
      {"bfloat", Encoding::kBF16}, {"int8", Encoding::kI8Row},
      {"i8", Encoding::kI8Row},
  };
  for (const auto& a : kAliases) {
    if (a.alias == name) return a.encoding;
  }
  return std::nullopt;
}

Encoding OwnEncoding(DType t) {
  switch (t) {
    case DType::kF16:
      return Encoding::kF16;
    case DType::kBF16:
      return Encoding::kBF16;
    default:
      return Encoding::kF32;
  }
}

}  // namespace

absl::StatusOr<StorageChoice> ChooseStorage(absl::string_view dtype,
                                            DType checkpoint_dtype) {
  std::string name = absl::AsciiStrToLower(dtype);
  absl::string_view rest = name;
  absl::ConsumePrefix(&rest, "torch.");
  const Encoding own = OwnEncoding(checkpoint_dtype);
  StorageChoice choice;
  if (rest.empty() || rest == "auto") {
    choice.weights = choice.base = choice.cache = own;
    return choice;
  }
  const std::optional<Encoding> e = ParseAlias(rest);
  if (!e.has_value()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "--dtype %s: allowed are auto, fp32 (float32, float), fp16 (float16, "
        "half), bf16 (bfloat16, bfloat), int8, each also as torch.NAME",
        dtype));
  }
  choice.weights = *e;
  if (IsQuantized(*e)) {
    choice.base = own;
    // f16 holds keys and values to 11 bits in half of f32's bytes; bf16's 8
    // would cost more than the int8 weights do.
    choice.cache = Encoding::kF16;
  } else {
    choice.base = choice.cache = *e;
  }
  return choice;
}

absl::string_view StorageName(const StorageChoice& choice) {
  switch (choice.weights) {
    case Encoding::kF32:
      return "fp32";
    case Encoding::kF16:
      return "fp16";
    case Encoding::kBF16:
      return "bf16";
    default:
      return "int8";
  }
}

}  // namespace deepslice
