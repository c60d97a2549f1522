#include "compiler/checkpoint/torch_types.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/checkpoint/untrusted_text.h"

namespace deepslice {
namespace {

constexpr absl::optional<DType> kUnread = absl::nullopt;

struct Row {
  absl::string_view storage;  // without "Storage"; "": has no class of its own
  TorchType type;
  absl::string_view alias;  // a second name of the dtype
};
constexpr Row kRows[] = {
    {"Double", {"float64", DType::kF64, 8}, "double"},
    {"Float", {"float32", DType::kF32, 4}, "float"},
    {"Half", {"float16", DType::kF16, 2}, "half"},
    {"BFloat16", {"bfloat16", DType::kBF16, 2}, ""},
    {"Long", {"int64", DType::kI64, 8}, "long"},
    {"Int", {"int32", DType::kI32, 4}, "int"},
    {"Short", {"int16", DType::kI16, 2}, "short"},
    {"Char", {"int8", DType::kI8, 1}, ""},
    {"Byte", {"uint8", DType::kU8, 1}, ""},
    {"Bool", {"bool", DType::kBool, 1}, ""},
    {"", {"uint16", DType::kU16, 2}, ""},
    {"", {"uint32", DType::kU32, 4}, ""},
    {"", {"uint64", DType::kU64, 8}, ""},
    {"ComplexFloat", {"complex64", kUnread, 8}, "cfloat"},
    {"ComplexDouble", {"complex128", kUnread, 16}, "cdouble"},
    {"", {"complex32", kUnread, 4}, "chalf"},
    {"QInt8", {"qint8", kUnread, 1}, ""},
    {"QUInt8", {"quint8", kUnread, 1}, ""},
    {"QInt32", {"qint32", kUnread, 4}, ""},
    {"QUInt4x2", {"quint4x2", kUnread, 1}, ""},
    {"QUInt2x4", {"quint2x4", kUnread, 1}, ""},
    {"", {"float8_e4m3fn", kUnread, 1}, ""},
    {"", {"float8_e5m2", kUnread, 1}, ""},
    {"", {"float8_e4m3fnuz", kUnread, 1}, ""},
    {"", {"float8_e5m2fnuz", kUnread, 1}, ""},
    {"", {"float8_e8m0fnu", kUnread, 1}, ""},
    {"", {"float4_e2m1fn_x2", kUnread, 1}, ""},
};

absl::Status Unknown(absl::string_view what, const pickle::Value& found) {
  return absl::UnimplementedError(
      absl::StrCat(what, ": found ", Quoted(found.Name()),
                   ", which is not known here; convert the checkpoint to "
                   "bfloat16"));
}

}  // namespace

absl::StatusOr<TorchType> TypeOfStorage(const pickle::Value& storage_class) {
  const absl::string_view module = storage_class.items()[0]->bytes();
  absl::string_view name = storage_class.items()[1]->bytes();
  if (module == "torch.storage" &&
      (name == "UntypedStorage" || name == "_UntypedStorage")) {
    return TorchType{"uint8", DType::kU8, 1, /*untyped=*/true};
  }
  if (absl::EndsWith(name, "Storage") &&
      (module == "torch" || module == "torch.cuda")) {
    name.remove_suffix(7);
    for (const Row& row : kRows) {
      if (!name.empty() && row.storage == name) return row.type;
    }
  }
  return Unknown("class of a storage", storage_class);
}

absl::StatusOr<TorchType> TypeOfName(const pickle::Value& dtype) {
  if (dtype.items()[0]->bytes() == "torch") {
    const absl::string_view name = dtype.items()[1]->bytes();
    for (const Row& row : kRows) {
      if (row.type.name == name || (!name.empty() && row.alias == name)) {
        return row.type;
      }
    }
  }
  return Unknown("dtype", dtype);
}

}  // namespace deepslice
