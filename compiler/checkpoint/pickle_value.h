// What a pickle holds, as data: a tree of values that nothing is ever called
// for. Names of classes and functions stay names.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_PICKLE_VALUE_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_PICKLE_VALUE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace deepslice::pickle {

enum class Kind : uint8_t {
  kNone,
  kBool,
  kInt,
  kBigInt,  // beyond 64 bits: bytes() is its two's complement, little-endian
  kFloat,
  kText,   // UTF-8
  kBytes,  // bytes, bytearray, or a Python 2 string that is not UTF-8
  kList,
  kTuple,
  kDict,
  kSet,      // set or frozenset; its items are not compared
  kGlobal,   // the name of a class or function
  kObject,   // of a class that is not known here: its parts, see below
  kStorage,  // elements of tensors: [class, key, location, count, view]
  kTensor,   // a tensor as the pickle describes it, see torch_file.h
};
absl::string_view KindName(Kind kind);  // "a list"

// How a kTensor was made; each has items of its own.
enum class TensorForm : uint8_t {
  kStrided,    // [storage, offset, sizes, strides, dtype or None]
  kQuantized,  // [sizes]
  kSparse,     // [sizes]
  kMeta,       // [sizes]
  kNested,     // [()]
  kSubclass,   // [sizes]: a wrapper whose elements are made by its class
  kNegated,    // [sizes]: a view that negates or conjugates its storage
};

// Lives in a Heap, as do all values that it refers to; values may refer to
// each other in circles, so walkers bound their depth and their steps.
class Value {
 public:
  Kind kind() const { return kind_; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_text() const { return kind_ == Kind::kText; }
  bool is_int() const { return kind_ == Kind::kInt; }
  bool is_dict() const { return kind_ == Kind::kDict; }
  bool is_tensor() const { return kind_ == Kind::kTensor; }

  bool as_bool() const { return int_ != 0; }
  int64_t as_int() const { return int_; }
  double as_float() const { return float_; }
  // Of kText, kBytes and kBigInt; into the pickle or its heap.
  absl::string_view bytes() const { return {text_, size_}; }

  // Of kList, kTuple and kSet; of kDict key, value, key, value, ... in file
  // order, where a key may be there twice (the later one counts); of
  // kGlobal module and name, both text; of kObject [class, arguments, state,
  // dict, list], where state is None until it is set and the last two are None
  // but for subclasses of these; of kStorage and kTensor as above.
  absl::Span<const Value* const> items() const {
    return {const_cast<const Value* const*>(items_), size_};
  }
  TensorForm form() const { return static_cast<TensorForm>(extra_); }

  // The value under a text key of a kDict, or of the dict that a kObject is;
  // nullptr when there is none. Linear in the dict's size.
  const Value* Find(absl::string_view key) const;
  // The kDict that this is, or that the object of a subclass has; nullptr for
  // everything else.
  const Value* AsDict() const;
  // An attribute of a kObject, as its state gives it; nullptr when absent.
  const Value* Attribute(absl::string_view name) const;
  // "module.name" of a kGlobal; of a kObject its class; "" otherwise.
  std::string Name() const;
  bool IsGlobal(absl::string_view module, absl::string_view name) const;
  // The value in a few words: 5, "abc", a list of 3, an object of a.B.
  std::string Describe() const;

 private:
  friend class Heap;
  Kind kind_ = Kind::kNone;
  uint8_t extra_ = 0;  // TensorForm
  uint8_t depth_ = 0;  // levels below, as far as known when it was made
  uint32_t size_ = 0;
  union {
    int64_t int_ = 0;
    double float_;
    const char* text_;
    const Value** items_;  // room for the next power of two
  };
};

// Owns values; they go all at once, whatever refers to what.
class Heap {
 public:
  Heap() = default;
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  Value* None() { return &none_; }
  Value* Bool(bool v);
  Value* Int(int64_t v);
  Value* Float(double v);
  // kText, kBytes, kBigInt. `bytes` must live as long (Copy makes it).
  Value* Text(Kind kind, absl::string_view bytes);
  absl::string_view Copy(absl::string_view bytes);
  // Any kind with items, which are copied.
  Value* Items(Kind kind, absl::Span<const Value* const> items);
  Value* Tensor(TensorForm form, absl::Span<const Value* const> items);
  void Append(Value* to, const Value* item);
  // Part `i` of a kObject.
  void SetPart(Value* object, int i, const Value* part);

  static int depth(const Value* v) { return v->depth_; }

 private:
  void* Allocate(size_t bytes);  // aligned to 8
  Value* New(Kind kind);

  std::vector<std::unique_ptr<char[]>> chunks_;
  char* free_ = nullptr;
  size_t left_ = 0;
  Value none_;
};

// Parts of a kObject.
enum Part { kClass, kArguments, kState, kDictPart, kListPart, kNumParts };

}  // namespace deepslice::pickle

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_PICKLE_VALUE_H_
