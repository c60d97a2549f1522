#include "compiler/checkpoint/torch_file.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/checkpoint/torch_types.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/checked_math.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using pickle::Kind;
using pickle::TensorForm;
using pickle::Value;

constexpr size_t kMostOthers = 3;

absl::string_view WhyUnreadable(TensorForm form) {
  switch (form) {
    case TensorForm::kQuantized:
      return "is a quantised tensor of PyTorch; save it dequantised";
    case TensorForm::kSparse:
      return "is a sparse tensor; save it dense";
    case TensorForm::kMeta:
      return "is on the meta device: the file holds its shape, no elements";
    case TensorForm::kNested:
      return "is a nested tensor; save its parts";
    case TensorForm::kSubclass:
      return "is made by a class of its own; save it as a plain tensor";
    default:
      return "is a negated or conjugate view; save it after resolve_neg()";
  }
}

std::vector<int64_t> Numbers(const Value& tuple) {
  std::vector<int64_t> out;
  for (const Value* v : tuple.items()) out.push_back(v->as_int());
  return out;
}

std::string Listed(const std::vector<int64_t>& v) {
  return absl::StrCat("[", absl::StrJoin(v, ", "), "]");
}

// Bytes of all elements. Products of parts of the dims must fit, too.
absl::Status CheckShape(const std::vector<int64_t>& shape, int64_t size,
                        int64_t* bytes) {
  if (shape.size() > limits::kTensorRank) {
    return absl::UnimplementedError(
        absl::StrCat("shape: has ", shape.size(), " dims; at most ",
                     limits::kTensorRank, " are supported"));
  }
  *bytes = size;
  bool fits = true, empty = false;
  for (const int64_t dim : shape) {
    empty = empty || dim == 0;
    fits = fits && CheckedMul(*bytes, std::max<int64_t>(dim, 1), bytes);
  }
  if (!fits || *bytes > limits::kTensorBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "shape: ", Listed(shape), " of ", size, " bytes each ",
        fits ? absl::StrCat("is ", *bytes, " bytes") : "overflows 64 bits",
        "; a tensor has at most ", limits::kTensorBytes));
  }
  if (empty) *bytes = 0;
  return absl::OkStatus();
}

// No two indexes may mean one element, but for dims of stride 0, which repeat.
// Sufficient for views by slices, transposes and expand.
absl::Status CheckOverlap(const std::vector<int64_t>& shape,
                          const std::vector<int64_t>& strides) {
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] > 1 && strides[i] > 0) dims.emplace_back(strides[i], shape[i]);
  }
  std::sort(dims.begin(), dims.end());
  int64_t reach = 0;  // the last element of the dims so far; fits, as checked
  for (const auto& [stride, size] : dims) {
    if (stride <= reach) {
      return absl::UnimplementedError(
          absl::StrCat("strides: ", Listed(strides), " with shape ",
                       Listed(shape), " overlap; save a contiguous() copy"));
    }
    reach += (size - 1) * stride;
  }
  return absl::OkStatus();
}

bool IsRowMajor(const std::vector<int64_t>& shape,
                const std::vector<int64_t>& strides) {
  int64_t expected = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

// Elements and bytes that a tensor's storage offers it.
struct Room {
  uint64_t offset = 0;  // of the file
  int64_t elements = 0;
};

// The part of the storage's bytes that the pickle says it is.
absl::StatusOr<Room> FindRoom(const TorchContainer& container,
                              const Value& storage, const TorchType& type,
                              int64_t size) {
  const absl::string_view key = storage.items()[1]->bytes();
  const auto it = container.storages.find(key);
  if (it == container.storages.end()) {
    return absl::DataLossError(
        absl::StrCat("storage ", Quoted(key),
                     ": is not in the file; the file is damaged, copy it "
                     "again"));
  }
  int64_t bytes = 0;
  const int64_t count = storage.items()[3]->as_int();
  if (!CheckedMul(count, type.size, &bytes) ||
      static_cast<uint64_t>(bytes) != it->second.size) {
    return absl::InvalidArgumentError(
        absl::StrCat("storage ", Quoted(key), ": has ", it->second.size,
                     " bytes in the file; ", count, " elements of ", type.size,
                     " bytes are promised"));
  }
  const Value* view = storage.items()[4];
  int64_t begin = 0, length = count;
  if (!view->is_none()) {
    begin = view->items()[1]->as_int();
    length = view->items()[2]->as_int();
    if (begin > count || length > count - begin) {
      return absl::InvalidArgumentError(
          absl::StrCat("storage ", Quoted(key), ": a view of ", length,
                       " elements from ", begin, " on; it has ", count));
    }
  }
  return Room{it->second.offset + static_cast<uint64_t>(begin * type.size),
              length * type.size / size};
}

absl::Status Place(const TorchContainer& container, const Value& tensor,
                   TensorInfo* t) {
  const auto parts = tensor.items();
  const Value& storage = *parts[0];
  const int64_t first = parts[1]->as_int();
  const absl::StatusOr<TorchType> of_storage =
      TypeOfStorage(*storage.items()[0]);
  const absl::StatusOr<TorchType> of_tensor =
      parts[4]->is_none() ? of_storage : TypeOfName(*parts[4]);
  for (const auto* known : {&of_storage, &of_tensor}) {
    if (known->ok()) continue;
    int64_t bytes = 0;
    DS_RETURN_IF_ERROR(CheckShape(t->shape, 1, &bytes));
    t->unreadable = std::string(known->status().message());
    return absl::OkStatus();
  }
  const TorchType stored = *of_storage, type = *of_tensor;
  if (type.untyped) {
    return absl::InvalidArgumentError(
        "has an untyped storage and no dtype; must have one");
  }
  int64_t bytes = 0;
  DS_RETURN_IF_ERROR(CheckShape(t->shape, type.size, &bytes));
  if (storage.items()[2]->bytes() == "meta") {
    t->unreadable = std::string(WhyUnreadable(TensorForm::kMeta));
    return absl::OkStatus();
  }
  if (!type.element.has_value()) {
    t->unreadable = absl::StrCat("has type ", type.name,
                                 ", which is not supported; convert the "
                                 "checkpoint to bfloat16");
    return absl::OkStatus();
  }
  t->dtype = *type.element;
  DS_ASSIGN_OR_RETURN(const Room room,
                      FindRoom(container, storage, stored, type.size));
  t->offset = room.offset;
  if (bytes == 0) return absl::OkStatus();
  t->strides = Numbers(*parts[3]);
  int64_t last = first;
  bool fits = true;
  for (size_t i = 0; i < t->shape.size(); ++i) {
    int64_t step = 0;
    fits = fits && CheckedMul(t->shape[i] - 1, t->strides[i], &step) &&
           CheckedAdd(last, step, &last);
  }
  if (!fits || last >= room.elements) {
    return absl::InvalidArgumentError(absl::StrCat(
        "shape ", Listed(t->shape), " with strides ", Listed(t->strides),
        " from element ", first, " on ",
        fits ? absl::StrCat("reaches element ", last) : "overflows 64 bits",
        "; its storage ", Quoted(storage.items()[1]->bytes()), " has ",
        room.elements));
  }
  DS_RETURN_IF_ERROR(CheckOverlap(t->shape, t->strides));
  t->offset += static_cast<uint64_t>(first * type.size);
  t->bytes = static_cast<uint64_t>((last - first + 1) * type.size);
  if (IsRowMajor(t->shape, t->strides)) t->strides.clear();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<TorchFile>> TorchFile::Open(
    absl::string_view bytes, const std::string& path) {
  std::unique_ptr<TorchFile> file(new TorchFile(path));
  DS_ASSIGN_OR_RETURN(file->container_,
                      ReadTorchContainer(bytes, path, file->heap_));
  return file;
}

absl::StatusOr<TensorInfo> TorchFile::Tensor(const Value& tensor) const {
  if (!tensor.is_tensor()) {
    return absl::InvalidArgumentError(
        absl::StrCat("found ", tensor.Describe(), "; must be a tensor"));
  }
  TensorInfo t;
  t.dtype = DType::kU8;  // of what is unreadable
  const bool strided = tensor.form() == TensorForm::kStrided;
  t.shape = Numbers(*tensor.items()[strided ? 2 : 0]);
  if (strided) {
    DS_RETURN_IF_ERROR(Place(container_, tensor, &t));
    return t;
  }
  int64_t bytes = 0;
  DS_RETURN_IF_ERROR(CheckShape(t.shape, 1, &bytes));
  t.unreadable = std::string(WhyUnreadable(tensor.form()));
  return t;
}

namespace {

// Walks containers, which may hold themselves: depth and steps are bounded.
class Lister {
 public:
  explicit Lister(const TorchFile& file) : file_(file) {}

  absl::Status Walk(const Value& v, const std::string& path, int depth) {
    if (--steps_ < 0) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "holds more than ", limits::kPickleOps,
          " values, or values that hold themselves; so many are read"));
    }
    if (depth > limits::kPickleDepth) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "value ", Quoted(path), ": stands more than ", limits::kPickleDepth,
          " deep, or in itself; so deep is read"));
    }
    switch (v.kind()) {
      case Kind::kTensor:
        return Add(v, path);
      case Kind::kDict:
        return WalkDict(v, path, depth);
      case Kind::kList:
      case Kind::kTuple:
        for (size_t i = 0; i < v.items().size(); ++i) {
          DS_RETURN_IF_ERROR(
              Walk(*v.items()[i], Join(path, absl::StrCat(i)), depth + 1));
        }
        return absl::OkStatus();
      case Kind::kObject:
        if (v.items()[pickle::kDictPart]->is_dict()) {
          return WalkDict(*v.items()[pickle::kDictPart], path, depth);
        }
        Other(v, path);
        return absl::OkStatus();
      case Kind::kGlobal:
      case Kind::kStorage:
        Other(v, path);
        return absl::OkStatus();
      default:
        return absl::OkStatus();
    }
  }

  TorchTensors Take() { return std::move(out_); }

 private:
  static std::string Join(const std::string& path, absl::string_view key) {
    return path.empty() ? std::string(key) : absl::StrCat(path, ".", key);
  }

  absl::Status WalkDict(const Value& dict, const std::string& path, int depth) {
    const auto items = dict.items();
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      const Value& key = *items[i];
      if (!key.is_text() && !key.is_int()) continue;
      DS_RETURN_IF_ERROR(
          Walk(*items[i + 1],
               Join(path, key.is_text() ? std::string(key.bytes())
                                        : absl::StrCat(key.as_int())),
               depth + 1));
    }
    return absl::OkStatus();
  }

  absl::Status Add(const Value& v, const std::string& path) {
    const auto where = [&](const absl::Status& s) {
      return Annotate(s, "tensor ", Quoted(path));
    };
    if (static_cast<int64_t>(path.size()) > limits::kTensorNameBytes) {
      return where(absl::ResourceExhaustedError(
          absl::StrCat("a name of ", path.size(), " bytes; at most ",
                       limits::kTensorNameBytes, " are allowed")));
    }
    if (static_cast<int64_t>(out_.tensors.size()) ==
        limits::kTensorsPerCheckpoint) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "more than ", limits::kTensorsPerCheckpoint, " tensors"));
    }
    if (!names_.insert(path).second) {
      return where(
          absl::InvalidArgumentError("is there twice; names must be unique"));
    }
    absl::StatusOr<TensorInfo> t = file_.Tensor(v);
    if (!t.ok()) return where(t.status());
    t->name = path;
    out_.tensors.push_back(*std::move(t));
    return absl::OkStatus();
  }

  void Other(const Value& v, const std::string& path) {
    ++out_.num_others;
    if (out_.others.size() < kMostOthers) {
      out_.others.push_back(
          absl::StrCat(Quoted(path), " (", v.Describe(), ")"));
    }
  }

  const TorchFile& file_;
  int64_t steps_ = limits::kPickleOps;
  absl::flat_hash_set<std::string> names_;
  TorchTensors out_;
};

}  // namespace

absl::StatusOr<TorchTensors> TorchFile::ListTensors(const Value& value) const {
  Lister lister(*this);
  DS_RETURN_IF_ERROR(Annotate(lister.Walk(value, "", 0), path_));
  return lister.Take();
}

}  // namespace deepslice
