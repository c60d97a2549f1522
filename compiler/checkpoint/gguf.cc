#include "compiler/checkpoint/gguf.h"

#include <algorithm>
#include <cstring>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/checkpoint/file_kind.h"
#include "compiler/checkpoint/gguf_types.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/checked_math.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

constexpr absl::string_view kAlignmentKey = "general.alignment";
constexpr uint64_t kDefaultAlignment = 32;

// Value types of the metadata, as the file numbers them.
enum ValueType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
  kNumValueTypes
};
// The least bytes that one value takes; a string is at least its length.
constexpr uint64_t kValueBytes[kNumValueTypes] = {1, 1, 2,  2, 4, 4, 4,
                                                  1, 8, 12, 8, 8, 8};

// The least bytes of a key with its value, and of a tensor's row.
constexpr uint64_t kPairBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;

// A file of before GGUF, by its first four bytes.
struct OldMagic {
  absl::string_view bytes, name;
};
constexpr OldMagic kOldMagics[] = {
    {"lmgg", "GGML"}, {"fmgg", "GGMF"}, {"tjgg", "GGJT"}, {"algg", "GGLA"}};

class Reader {
 public:
  explicit Reader(absl::string_view file) : file_(file) {}

  absl::StatusOr<GgufFile> Read() {
    GgufFile out;
    DS_RETURN_IF_ERROR(ReadVersion(&out.version));
    DS_ASSIGN_OR_RETURN(
        const uint64_t tensors,
        Count("tensor count", kTensorBytes, limits::kTensorsPerCheckpoint));
    DS_ASSIGN_OR_RETURN(const uint64_t pairs,
                        Count("key count", kPairBytes, limits::kGgufKeyValues));
    DS_RETURN_IF_ERROR(ReadMetadata(pairs, &out.metadata));
    DS_ASSIGN_OR_RETURN(const uint64_t alignment, Alignment(out.metadata));
    DS_RETURN_IF_ERROR(ReadTensors(tensors, &out.tensors));
    DS_RETURN_IF_ERROR(PlaceTensors(alignment, &out.tensors));
    return out;
  }

 private:
  absl::Status Bad(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat("byte ", at_, ": ", what));
  }
  uint64_t left() const { return file_.size() - at_; }

  template <typename T>
  absl::StatusOr<T> Number() {
    if (left() < sizeof(T)) {
      return absl::DataLossError(absl::StrCat(
          "byte ", at_, ": the file ends inside its header; copy it again"));
    }
    T v;
    std::memcpy(&v, file_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return v;
  }
  template <typename T>
  absl::StatusOr<json::Value> IntValue() {
    DS_ASSIGN_OR_RETURN(const T v, Number<T>());
    return json::Value(static_cast<int64_t>(v));
  }
  template <typename T>
  absl::StatusOr<json::Value> FloatValue() {
    DS_ASSIGN_OR_RETURN(const T v, Number<T>());
    return json::Value(static_cast<double>(v));
  }

  absl::StatusOr<absl::string_view> String(int64_t limit) {
    DS_ASSIGN_OR_RETURN(const uint64_t size, Number<uint64_t>());
    if (size > static_cast<uint64_t>(limit)) {
      return Bad(absl::StrCat("a string of ", size, " bytes; at most ", limit,
                              " are allowed"));
    }
    if (size > left()) {
      return absl::DataLossError(absl::StrCat(
          "byte ", at_, ": a string of ", size, " bytes; only ", left(),
          " follow: the file is cut or damaged, copy it again"));
    }
    const absl::string_view s = file_.substr(at_, size);
    at_ += size;
    return s;
  }

  // A name: not empty, UTF-8.
  absl::StatusOr<std::string> Name(absl::string_view what, int64_t limit) {
    auto name = String(limit);
    if (!name.ok()) return Annotate(name.status(), what);
    if (name->empty()) return Bad(absl::StrCat(what, ": is empty"));
    if (FindBadUtf8(*name) != absl::string_view::npos) {
      return Bad(absl::StrCat(what, ": ", Quoted(*name), " is not UTF-8"));
    }
    return std::string(*name);
  }

  absl::Status ReadVersion(uint32_t* version) {
    at_ = kGgufMagic.size();
    DS_ASSIGN_OR_RETURN(*version, Number<uint32_t>());
    if (*version == 2 || *version == 3) return absl::OkStatus();
    if (*version != 0 && (*version & 0xffff) == 0) {
      return absl::UnimplementedError(
          "version: the file is big-endian; only little-endian files are "
          "read: convert it with gguf-convert-endian");
    }
    return absl::UnimplementedError(
        absl::StrCat("version: found ", *version,
                     "; versions 2 and 3 are read; convert the model again"));
  }

  // A count of things that take at least `least` bytes each.
  absl::StatusOr<uint64_t> Count(absl::string_view what, uint64_t least,
                                 int64_t limit) {
    DS_ASSIGN_OR_RETURN(const uint64_t n, Number<uint64_t>());
    if (n > left() / least) {
      return absl::DataLossError(absl::StrCat(
          what, ": found ", n, "; only ", left(),
          " bytes follow: the file is cut or damaged, copy it again"));
    }
    if (n > static_cast<uint64_t>(limit)) {
      return absl::ResourceExhaustedError(
          absl::StrCat(what, ": found ", n, "; at most ", limit, " are read"));
    }
    return n;
  }

  absl::StatusOr<json::Value> ReadValue(uint32_t type) {
    switch (type) {
      case kU8:
        return IntValue<uint8_t>();
      case kI8:
        return IntValue<int8_t>();
      case kU16:
        return IntValue<uint16_t>();
      case kI16:
        return IntValue<int16_t>();
      case kU32:
        return IntValue<uint32_t>();
      case kI32:
        return IntValue<int32_t>();
      case kI64:
        return IntValue<int64_t>();
      case kF32:
        return FloatValue<float>();
      case kF64:
        return FloatValue<double>();
      case kU64: {
        DS_ASSIGN_OR_RETURN(const uint64_t v, Number<uint64_t>());
        if (v > static_cast<uint64_t>(INT64_MAX)) {
          return json::Value(static_cast<double>(v));
        }
        return json::Value(static_cast<int64_t>(v));
      }
      case kBool: {
        DS_ASSIGN_OR_RETURN(const uint8_t v, Number<uint8_t>());
        if (v > 1) {
          return Bad(
              absl::StrCat("a boolean of value ", v, "; must be 0 or 1"));
        }
        return json::Value(v == 1);
      }
      case kString: {
        DS_ASSIGN_OR_RETURN(const absl::string_view s,
                            String(limits::kGgufStringBytes));
        return json::Value(s);
      }
      case kArray:
        return ReadArray();
      default:
        return Bad(absl::StrCat("value type ", type, "; must be 0 to ",
                                kNumValueTypes - 1));
    }
  }

  absl::StatusOr<json::Value> ReadArray() {
    DS_ASSIGN_OR_RETURN(const uint32_t type, Number<uint32_t>());
    DS_ASSIGN_OR_RETURN(const uint64_t count, Number<uint64_t>());
    if (type == kArray) {
      return absl::UnimplementedError(
          absl::StrCat("byte ", at_,
                       ": an array of arrays; arrays of single values are "
                       "read"));
    }
    if (type >= kNumValueTypes) {
      return Bad(absl::StrCat("array element type ", type, "; must be 0 to ",
                              kNumValueTypes - 1));
    }
    const int64_t most =
        type == kBool ? limits::kGgufBoolItems : limits::kGgufArrayItems;
    if (count > static_cast<uint64_t>(most)) {
      return absl::ResourceExhaustedError(
          absl::StrCat("byte ", at_, ": an array of ", count, " ",
                       type == kBool ? "booleans" : "items", "; at most ", most,
                       " are read"));
    }
    if (count > left() / kValueBytes[type]) {
      return absl::DataLossError(absl::StrCat(
          "byte ", at_, ": an array of ", count, " items; only ", left(),
          " bytes follow: the file is cut or damaged, copy it again"));
    }
    if (type == kU8 || type == kI8) {
      // Item by item they would take a hundred times their size.
      const absl::string_view bytes = file_.substr(at_, count);
      at_ += count;
      return json::Value(bytes);
    }
    json::Value array = json::Value::Array();
    array.items().reserve(count);
    for (uint64_t i = 0; i < count; ++i) {
      auto item = ReadValue(type);
      if (!item.ok()) return Annotate(item.status(), "item ", i);
      array.items().push_back(*std::move(item));
    }
    return array;
  }

  absl::Status ReadMetadata(uint64_t count, json::Value* metadata) {
    absl::flat_hash_set<std::string> keys;
    for (uint64_t i = 0; i < count; ++i) {
      DS_ASSIGN_OR_RETURN(std::string key,
                          Name(absl::StrCat("key ", i), limits::kGgufKeyBytes));
      if (!keys.insert(key).second) {
        return Bad(absl::StrCat("duplicate key ", Quoted(key)));
      }
      DS_ASSIGN_OR_RETURN(const uint32_t type, Number<uint32_t>());
      auto value = ReadValue(type);
      if (!value.ok()) return Annotate(value.status(), "key ", Quoted(key));
      metadata->members().emplace_back(std::move(key), *std::move(value));
    }
    return absl::OkStatus();
  }

  static absl::StatusOr<uint64_t> Alignment(const json::Value& metadata) {
    const json::Value* v = metadata.Find(kAlignmentKey);
    if (v == nullptr) return kDefaultAlignment;
    const int64_t n = v->is_int() ? v->as_int() : 0;
    if (n < 8 || n > limits::kGgufAlignment || (n & (n - 1))) {
      return absl::InvalidArgumentError(absl::StrCat(
          kAlignmentKey, ": found ",
          v->is_int() ? absl::StrCat(n)
                      : std::string(json::KindName(v->kind())),
          "; must be a power of two from 8 to ", limits::kGgufAlignment));
    }
    return static_cast<uint64_t>(n);
  }

  absl::Status ReadTensors(uint64_t count, std::vector<TensorInfo>* out) {
    absl::flat_hash_set<std::string> names;
    for (uint64_t i = 0; i < count; ++i) {
      DS_ASSIGN_OR_RETURN(std::string name, Name(absl::StrCat("tensor ", i),
                                                 limits::kTensorNameBytes));
      if (!names.insert(name).second) {
        return Bad(absl::StrCat("duplicate tensor name ", Quoted(name)));
      }
      TensorInfo t;
      t.name = t.stored_name = std::move(name);
      DS_RETURN_IF_ERROR(Annotate(ReadTensor(&t), "tensor ", Quoted(t.name)));
      out->push_back(std::move(t));
    }
    return absl::OkStatus();
  }

  // Fills shape, type, size, and the offset from the start of the data.
  absl::Status ReadTensor(TensorInfo* t) {
    DS_ASSIGN_OR_RETURN(const uint32_t dims, Number<uint32_t>());
    if (dims < 1 || dims > limits::kGgufDims) {
      return Bad(absl::StrCat(dims, " dims; must be 1 to ", limits::kGgufDims));
    }
    t->shape.resize(dims);
    int64_t elements = 1;
    bool fits = true;
    for (uint32_t i = 0; i < dims; ++i) {
      DS_ASSIGN_OR_RETURN(const int64_t dim, Number<int64_t>());
      if (dim < 1) {
        return Bad(absl::StrFormat("dim %d is %u; must be from 1 to 2^63 - 1",
                                   i, static_cast<uint64_t>(dim)));
      }
      // The file names the innermost dim first.
      t->shape[dims - 1 - i] = dim;
      fits = fits && CheckedMul(elements, dim, &elements);
    }
    DS_ASSIGN_OR_RETURN(const uint32_t number, Number<uint32_t>());
    DS_ASSIGN_OR_RETURN(const GgufType type, FindGgufType(number));
    t->dtype = type.dtype;
    t->storage = type.storage;
    const int64_t row = t->shape.back();
    if (row % type.block_elements != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a row of ", row, " elements; must be a multiple of the block of ",
          type.block_elements));
    }
    int64_t bytes = 0;
    fits = fits &&
           CheckedMul(elements / type.block_elements, type.block_bytes, &bytes);
    if (!fits || bytes > limits::kTensorBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "shape [", absl::StrJoin(t->shape, ", "), "] is ",
          fits ? absl::StrCat(bytes, " bytes") : "beyond 64 bits",
          "; a tensor has at most ", limits::kTensorBytes, " bytes"));
    }
    t->bytes = bytes;
    DS_ASSIGN_OR_RETURN(t->offset, Number<uint64_t>());
    return absl::OkStatus();
  }

  // Checks the offsets and makes them count from the file's start.
  absl::Status PlaceTensors(uint64_t alignment,
                            std::vector<TensorInfo>* tensors) const {
    if (tensors->empty()) return absl::OkStatus();
    const uint64_t start = (at_ + alignment - 1) / alignment * alignment;
    const uint64_t room = start <= file_.size() ? file_.size() - start : 0;
    for (TensorInfo& t : *tensors) {
      if (t.offset % alignment != 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("tensor ", Quoted(t.name), ": offset ", t.offset,
                         "; must be a multiple of the alignment ", alignment));
      }
      if (t.offset > room || t.bytes > room - t.offset) {
        return absl::DataLossError(absl::StrCat(
            "tensor ", Quoted(t.name), ": ", t.bytes, " bytes at offset ",
            t.offset, " end beyond the file, which has ", room,
            " bytes of data; the file is cut, copy it again"));
      }
      t.offset += start;
    }
    std::vector<const TensorInfo*> sorted;
    for (const TensorInfo& t : *tensors) sorted.push_back(&t);
    std::sort(sorted.begin(), sorted.end(),
              [](const TensorInfo* a, const TensorInfo* b) {
                return a->offset != b->offset ? a->offset < b->offset
                                              : a->name < b->name;
              });
    for (size_t i = 1; i < sorted.size(); ++i) {
      if (sorted[i]->offset < sorted[i - 1]->offset + sorted[i - 1]->bytes) {
        return absl::InvalidArgumentError(
            absl::StrCat("tensors ", Quoted(sorted[i - 1]->name), " and ",
                         Quoted(sorted[i]->name), " overlap in the data"));
      }
    }
    return absl::OkStatus();
  }

  absl::string_view file_;
  uint64_t at_ = 0;
};

}  // namespace

absl::StatusOr<GgufFile> ReadGguf(absl::string_view file,
                                  const std::string& path) {
  DS_RETURN_IF_ERROR(RefuseOtherKind(file, path, "GGUF"));
  for (const OldMagic& old : kOldMagics) {
    if (absl::StartsWith(file, old.bytes)) {
      return absl::UnimplementedError(
          absl::StrCat(path, ": start of file: this is a ", old.name,
                       " file of before GGUF; convert the model again"));
    }
  }
  if (!absl::StartsWith(file, kGgufMagic)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": start of file: found ", Quoted(file.substr(0, 4)),
                     "; a GGUF file starts with \"GGUF\""));
  }
  auto out = Reader(file).Read();
  if (!out.ok()) return Annotate(out.status(), path);
  return out;
}

}  // namespace deepslice
