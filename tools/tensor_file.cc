#include "tools/tensor_file.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <atomic>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "schema/base/check.h"
#include "schema/base/checked_math.h"
#include "schema/base/json.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

struct TypeName {
  const char* name;
  DType dtype;
};
constexpr TypeName kTypes[] = {
    {"F32", DType::kF32},  {"F16", DType::kF16}, {"BF16", DType::kBF16},
    {"F64", DType::kF64},  {"I8", DType::kI8},   {"U8", DType::kU8},
    {"I16", DType::kI16},  {"U16", DType::kU16}, {"I32", DType::kI32},
    {"U32", DType::kU32},  {"I64", DType::kI64}, {"U64", DType::kU64},
    {"BOOL", DType::kBool}};

absl::string_view TypeText(DType dtype) {
  for (const TypeName& t : kTypes) {
    if (t.dtype == dtype) return t.name;
  }
  return "?";
}

template <typename... Text>
absl::Status Bad(const Text&... text) {
  return absl::InvalidArgumentError(absl::StrCat(text...));
}

absl::Status ReadTensor(const json::Value& value, absl::string_view data,
                        FileTensor* out) {
  const json::Value* dtype = value.Find("dtype");
  const json::Value* shape = value.Find("shape");
  const json::Value* offsets = value.Find("data_offsets");
  if (dtype == nullptr || !dtype->is_string() || shape == nullptr ||
      !shape->is_array() || offsets == nullptr || !offsets->is_array() ||
      offsets->items().size() != 2) {
    return Bad("needs \"dtype\", \"shape\" and two \"data_offsets\"");
  }
  const auto type = std::find_if(
      std::begin(kTypes), std::end(kTypes),
      [&](const TypeName& t) { return dtype->as_string() == t.name; });
  if (type == std::end(kTypes)) {
    return Bad("dtype \"", dtype->as_string(), "\" is none");
  }
  out->dtype = type->dtype;
  if (shape->items().size() > limits::kTensorRank) {
    return Bad("has ", shape->items().size(), " dims; at most ",
               limits::kTensorRank, " are allowed");
  }
  int64_t bytes = DTypeSize(out->dtype);
  for (const json::Value& d : shape->items()) {
    if (!d.is_int() || d.as_int() < 0 ||
        !CheckedMul(bytes, d.as_int(), &bytes)) {
      return Bad("its shape is no list of sizes");
    }
    out->shape.push_back(d.as_int());
  }
  const json::Value& from = offsets->items()[0];
  const json::Value& to = offsets->items()[1];
  if (!from.is_int() || !to.is_int() || from.as_int() < 0 ||
      to.as_int() < from.as_int() ||
      to.as_int() > static_cast<int64_t>(data.size())) {
    return Bad("its data_offsets are not within the ", data.size(),
               " bytes of data");
  }
  if (to.as_int() - from.as_int() != bytes) {
    return Bad("has ", to.as_int() - from.as_int(), " bytes; its shape needs ",
               bytes);
  }
  out->data = data.substr(from.as_int(), bytes);
  return absl::OkStatus();
}

std::atomic<const char*> unfinished_path = nullptr;

}  // namespace

absl::StatusOr<TensorFile> TensorFile::Open(const std::string& path) {
  TensorFile out;
  DS_ASSIGN_OR_RETURN(out.file_, MappedFile::Open(path));
  const absl::string_view bytes = out.file_.bytes();
  uint64_t header = 0;
  if (bytes.size() < 8) {
    return Bad(path, ": ", bytes.size(), " bytes are no safetensors file");
  }
  std::memcpy(&header, bytes.data(), 8);
  if (header > static_cast<uint64_t>(limits::kSafetensorsHeaderBytes) ||
      header > bytes.size() - 8) {
    return Bad(path, ": the header is ", header, " bytes long; the file has ",
               bytes.size() - 8, " behind its length, and at most ",
               limits::kSafetensorsHeaderBytes, " are allowed");
  }
  DS_ASSIGN_OR_RETURN(const json::Value root,
                      [&]() -> absl::StatusOr<json::Value> {
                        auto value = json::Parse(bytes.substr(8, header));
                        if (!value.ok())
                          return Annotate(value.status(), path, ": header");
                        if (!value->is_object())
                          return Bad(path, ": header: no object");
                        return value;
                      }());
  for (const auto& [name, value] : root.members()) {
    if (name == "__metadata__") continue;
    FileTensor tensor;
    tensor.name = name;
    DS_RETURN_IF_ERROR(
        Annotate(ReadTensor(value, bytes.substr(8 + header), &tensor), path,
                 ": tensor \"", name, "\""));
    out.tensors_.push_back(std::move(tensor));
  }
  return out;
}

const FileTensor* TensorFile::Find(absl::string_view name) const {
  for (const FileTensor& t : tensors_) {
    if (t.name == name) return &t;
  }
  return nullptr;
}

absl::StatusOr<std::vector<int32_t>> ReadIntegers(const FileTensor& tensor) {
  const int64_t size = DTypeSize(tensor.dtype);
  std::vector<int32_t> out(tensor.data.size() / size);
  for (size_t i = 0; i < out.size(); ++i) {
    const char* at = tensor.data.data() + i * size;
    int64_t value = 0;
    switch (tensor.dtype) {
      case DType::kI64:
        std::memcpy(&value, at, 8);
        break;
      case DType::kI32:
        int32_t small;
        std::memcpy(&small, at, 4);
        value = small;
        break;
      case DType::kU8:
      case DType::kBool:
        value = static_cast<uint8_t>(*at);
        break;
      default:
        return Bad("tensor \"", tensor.name, "\" is ", TypeText(tensor.dtype),
                   "; I64, I32, U8 or BOOL is needed");
    }
    if (value < std::numeric_limits<int32_t>::min() ||
        value > std::numeric_limits<int32_t>::max()) {
      return Bad("tensor \"", tensor.name, "\": element ", i, " is ", value,
                 "; 32 bits must hold it");
    }
    out[i] = static_cast<int32_t>(value);
  }
  return out;
}

absl::StatusOr<std::vector<float>> ReadFloats(const FileTensor& tensor) {
  if (tensor.dtype != DType::kF32) {
    return Bad("tensor \"", tensor.name, "\" is ", TypeText(tensor.dtype),
               "; F32 is needed");
  }
  std::vector<float> out(tensor.data.size() / sizeof(float));
  if (!out.empty()) {
    std::memcpy(out.data(), tensor.data.data(), out.size() * sizeof(float));
  }
  for (size_t i = 0; i < out.size(); ++i) {
    if (std::isfinite(out[i])) continue;
    return Bad("tensor \"", tensor.name, "\": element ", i, " is ", out[i],
               "; finite numbers are needed");
  }
  return out;
}

absl::StatusOr<std::unique_ptr<TensorWriter>> TensorWriter::Create(
    const std::string& path, const std::vector<NamedShape>& tensors) {
  int64_t total = 0, end = 0;
  json::Value root = json::Value::Object();
  for (const NamedShape& t : tensors) {
    int64_t count = 1;
    json::Value dims = json::Value::Array();
    for (const int64_t d : t.shape) {
      dims.Add(d);
      if (!CheckedMul(count, d, &count)) return Bad(path, ": too large");
    }
    int64_t bytes;
    json::Value offsets = json::Value::Array();
    offsets.Add(end);
    if (!CheckedMul(count, int64_t{4}, &bytes) ||
        !CheckedAdd(end, bytes, &end)) {
      return Bad(path, ": too large");
    }
    offsets.Add(end);
    total += count;
    json::Value entry = json::Value::Object();
    entry.Set("dtype", "F32");
    entry.Set("shape", std::move(dims));
    entry.Set("data_offsets", std::move(offsets));
    root.Set(t.name, std::move(entry));
  }
  std::string header = json::Write(root);
  header.resize(RoundUp(static_cast<int64_t>(header.size()), 8), ' ');

  auto writer = std::unique_ptr<TensorWriter>(new TensorWriter(path, total));
  writer->file_ = std::fopen(writer->part_.c_str(), "wb");
  if (writer->file_ == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": cannot be written: ", std::strerror(errno)));
  }
  unfinished_path = writer->part_.c_str();
  const uint64_t size = header.size();
  DS_RETURN_IF_ERROR(writer->Write(&size, 8));
  DS_RETURN_IF_ERROR(writer->Write(header.data(), header.size()));
  return writer;
}

TensorWriter::~TensorWriter() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  unlink(part_.c_str());
  unfinished_path = nullptr;
}

absl::Status TensorWriter::Write(const void* data, size_t bytes) {
  if (bytes == 0 || std::fwrite(data, bytes, 1, file_) == 1) {
    return absl::OkStatus();
  }
  return absl::InternalError(
      absl::StrCat(path_, ": writing failed: ", std::strerror(errno)));
}

absl::Status TensorWriter::Append(const float* values, int64_t count) {
  DS_CHECK(count <= left_);
  left_ -= count;
  return Write(values, static_cast<size_t>(count) * sizeof(float));
}

absl::Status TensorWriter::AppendZeros(int64_t count) {
  static constexpr float kZeros[1024] = {};
  while (count > 0) {
    const int64_t n = std::min<int64_t>(count, 1024);
    DS_RETURN_IF_ERROR(Append(kZeros, n));
    count -= n;
  }
  return absl::OkStatus();
}

absl::Status TensorWriter::Finish() {
  DS_CHECK(left_ == 0);
  FILE* file = file_;
  file_ = nullptr;
  unfinished_path = nullptr;
  if (std::fclose(file) != 0 ||
      std::rename(part_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    unlink(part_.c_str());
    return absl::InternalError(
        absl::StrCat(path_, ": writing failed: ", std::strerror(error)));
  }
  return absl::OkStatus();
}

const char* TensorWriter::UnfinishedPath() { return unfinished_path; }

}  // namespace deepslice
