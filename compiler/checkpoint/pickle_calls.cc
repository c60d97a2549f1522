#include "compiler/checkpoint/pickle_calls.h"

#include "absl/strings/str_cat.h"
#include "compiler/checkpoint/pickle_operands.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/status_macros.h"

namespace deepslice::pickle {
namespace {

using Args = absl::Span<const Value* const>;

absl::Status Wrong(absl::string_view what, absl::string_view wanted,
                   const Value* found) {
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": must be ", wanted, ", found ", found->Describe()));
}

absl::Status CheckCount(Args args, size_t least, size_t most) {
  if (args.size() >= least && args.size() <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("has ", args.size(), " arguments; must have ", least,
                   least == most ? "" : absl::StrCat(" to ", most)));
}

// Sizes or strides: a tuple of numbers from 0 on. torch.Size is one, too.
absl::Status CheckNumbers(absl::string_view what, const Value* v) {
  if (v->kind() != Kind::kTuple) return Wrong(what, "a tuple", v);
  for (const Value* n : v->items()) {
    if (!n->is_int() || n->as_int() < 0) {
      return Wrong(what, "whole numbers from 0 on", n);
    }
  }
  return absl::OkStatus();
}

// OrderedDict, defaultdict, Counter: what they hold from the start.
absl::StatusOr<Value*> MakeDict(Heap& heap, const Value* from) {
  Value* dict = heap.Items(Kind::kDict, {});
  if (from == nullptr) return dict;
  if (from->is_dict()) return heap.Items(Kind::kDict, from->items());
  if (from->kind() != Kind::kList && from->kind() != Kind::kTuple) {
    return Wrong("items", "a list of pairs", from);
  }
  for (const Value* pair : from->items()) {
    if ((pair->kind() != Kind::kList && pair->kind() != Kind::kTuple) ||
        pair->items().size() != 2) {
      return Wrong("items", "pairs", pair);
    }
    for (const Value* v : pair->items()) heap.Append(dict, v);
  }
  return dict;
}

absl::StatusOr<Value*> OrderedDict(Heap& heap, Args args) {
  DS_RETURN_IF_ERROR(CheckCount(args, 0, 1));
  return MakeDict(heap, args.empty() ? nullptr : args[0]);
}

absl::StatusOr<Value*> DefaultDict(Heap& heap, Args args) {
  DS_RETURN_IF_ERROR(CheckCount(args, 0, 2));
  return MakeDict(heap, args.size() < 2 ? nullptr : args[1]);
}

absl::StatusOr<Value*> Set(Heap& heap, Args args) {
  DS_RETURN_IF_ERROR(CheckCount(args, 0, 1));
  if (args.empty()) return heap.Items(Kind::kSet, {});
  const Kind kind = args[0]->kind();
  if (kind != Kind::kList && kind != Kind::kTuple && kind != Kind::kSet) {
    return Wrong("items", "a list", args[0]);
  }
  return heap.Items(Kind::kSet, args[0]->items());
}

// bytes and bytearray; those of protocol 2 are text in Latin-1 with its name.
absl::StatusOr<Value*> MakeBytes(Heap& heap, Args args) {
  DS_RETURN_IF_ERROR(CheckCount(args, 0, 2));
  if (args.empty()) return heap.Text(Kind::kBytes, {});
  if (args[0]->kind() == Kind::kBytes) {
    return heap.Text(Kind::kBytes, args[0]->bytes());
  }
  if (!args[0]->is_text()) return Wrong("bytes", "text", args[0]);
  if (args.size() < 2 || !args[1]->is_text() ||
      (args[1]->bytes() != "latin1" && args[1]->bytes() != "latin-1")) {
    return absl::InvalidArgumentError("bytes: must be encoded as latin1");
  }
  return Latin1OfText(heap, args[0]->bytes());
}

absl::StatusOr<Value*> Size(Heap& heap, Args args) {
  DS_RETURN_IF_ERROR(CheckCount(args, 1, 1));
  DS_RETURN_IF_ERROR(CheckNumbers("torch.Size", args[0]));
  return heap.Items(Kind::kTuple, args[0]->items());
}

// Whether a view of a storage changes the elements' signs. `metadata` may be
// nullptr.
absl::StatusOr<bool> IsNegated(const Value* metadata) {
  if (metadata == nullptr || metadata->is_none()) return false;
  if (!metadata->is_dict()) return Wrong("metadata", "a dict", metadata);
  for (const absl::string_view key : {"conj", "neg"}) {
    const Value* v = metadata->Find(key);
    if (v != nullptr && v->kind() == Kind::kBool && v->as_bool()) return true;
  }
  return false;
}

// (storage, offset, sizes, strides) in front, then what the maker adds: the
// place of a dtype and of a dict of metadata, -1 where there is none.
absl::StatusOr<Value*> Strided(Heap& heap, Args args, size_t most, int dtype,
                               int metadata) {
  DS_RETURN_IF_ERROR(CheckCount(args, 4, most));
  const auto at = [&](int i) -> const Value* {
    return i >= 0 && static_cast<size_t>(i) < args.size() ? args[i] : nullptr;
  };
  if (args[0]->kind() != Kind::kStorage) {
    return Wrong("storage", "a storage", args[0]);
  }
  if (!args[1]->is_int() || args[1]->as_int() < 0) {
    return Wrong("storage offset", "a whole number from 0 on", args[1]);
  }
  DS_RETURN_IF_ERROR(CheckNumbers("shape", args[2]));
  DS_RETURN_IF_ERROR(CheckNumbers("strides", args[3]));
  if (args[2]->items().size() != args[3]->items().size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape has ", args[2]->items().size(), " dims, strides ",
                     args[3]->items().size(), "; must be as many"));
  }
  const Value* type = at(dtype);
  if (dtype >= 0 && (type == nullptr || type->kind() != Kind::kGlobal)) {
    return Wrong("dtype", "the name of one",
                 type == nullptr ? heap.None() : type);
  }
  DS_ASSIGN_OR_RETURN(const bool negated, IsNegated(at(metadata)));
  if (negated) return heap.Tensor(TensorForm::kNegated, {args[2]});
  return heap.Tensor(TensorForm::kStrided,
                     {args[0], args[1], args[2], args[3],
                      type == nullptr ? heap.None() : type});
}

absl::StatusOr<Value*> TensorV1(Heap& heap, Args args) {
  return Strided(heap, args, 4, -1, -1);
}
absl::StatusOr<Value*> TensorV2(Heap& heap, Args args) {
  return Strided(heap, args, 7, -1, 6);
}
absl::StatusOr<Value*> TensorV3(Heap& heap, Args args) {
  return Strided(heap, args, 8, 6, 7);
}

// A tensor that is known by its shape only, at place `i` of the arguments.
absl::StatusOr<Value*> Shaped(Heap& heap, TensorForm form, Args args,
                              size_t i) {
  DS_RETURN_IF_ERROR(CheckCount(args, i + 1, 16));
  DS_RETURN_IF_ERROR(CheckNumbers("shape", args[i]));
  return heap.Tensor(form, {args[i]});
}

absl::StatusOr<Value*> QuantizedTensor(Heap& heap, Args args) {
  return Shaped(heap, TensorForm::kQuantized, args, 2);
}
absl::StatusOr<Value*> MetaTensor(Heap& heap, Args args) {
  return Shaped(heap, TensorForm::kMeta, args, 1);
}
absl::StatusOr<Value*> WrapperTensor(Heap& heap, Args args) {
  return Shaped(heap, TensorForm::kSubclass, args, 2);
}
absl::StatusOr<Value*> NestedTensor(Heap& heap, Args args) {
  DS_RETURN_IF_ERROR(CheckCount(args, 1, 16));
  return heap.Tensor(TensorForm::kNested, {heap.Items(Kind::kTuple, {})});
}

// (layout, (indices, values, size, ...)) or one array more for compressed rows.
absl::StatusOr<Value*> SparseTensor(Heap& heap, Args args) {
  DS_RETURN_IF_ERROR(CheckCount(args, 2, 3));
  if (args[1]->kind() == Kind::kTuple) {
    for (const Value* part : args[1]->items()) {
      if (part->kind() == Kind::kTuple) {
        DS_RETURN_IF_ERROR(CheckNumbers("shape", part));
        return heap.Tensor(TensorForm::kSparse, {part});
      }
    }
  }
  return Wrong("data", "a tuple that holds the shape", args[1]);
}

// Parameter(data, ...): the data.
absl::StatusOr<Value*> Parameter(Heap& heap, Args args) {
  DS_RETURN_IF_ERROR(CheckCount(args, 1, 4));
  if (!args[0]->is_tensor()) return Wrong("data", "a tensor", args[0]);
  return heap.Tensor(args[0]->form(), args[0]->items());
}

struct Maker {
  absl::string_view module, name;
  absl::StatusOr<Value*> (*make)(Heap& heap, Args args);
};
constexpr Maker kMakers[] = {
    {"_codecs", "encode", MakeBytes},
    {"__builtin__", "bytearray", MakeBytes},
    {"__builtin__", "bytes", MakeBytes},
    {"__builtin__", "frozenset", Set},
    {"__builtin__", "set", Set},
    {"builtins", "bytearray", MakeBytes},
    {"builtins", "bytes", MakeBytes},
    {"builtins", "frozenset", Set},
    {"builtins", "set", Set},
    {"collections", "Counter", OrderedDict},
    {"collections", "OrderedDict", OrderedDict},
    {"collections", "defaultdict", DefaultDict},
    {"torch", "Size", Size},
    {"torch._utils", "_rebuild_meta_tensor_no_storage", MetaTensor},
    {"torch._utils", "_rebuild_nested_tensor", NestedTensor},
    {"torch._utils", "_rebuild_parameter", Parameter},
    {"torch._utils", "_rebuild_parameter_with_state", Parameter},
    {"torch._utils", "_rebuild_qtensor", QuantizedTensor},
    {"torch._utils", "_rebuild_sparse_csr_tensor", SparseTensor},
    {"torch._utils", "_rebuild_sparse_tensor", SparseTensor},
    {"torch._utils", "_rebuild_tensor", TensorV1},
    {"torch._utils", "_rebuild_tensor_v2", TensorV2},
    {"torch._utils", "_rebuild_tensor_v3", TensorV3},
    {"torch._utils", "_rebuild_wrapper_subclass", WrapperTensor},
    {"torch.nn.parameter", "Buffer", Parameter},
    {"torch.nn.parameter", "Parameter", Parameter},
};

const Maker* FindMaker(const Value* callee) {
  for (const Maker& maker : kMakers) {
    if (callee->IsGlobal(maker.module, maker.name)) return &maker;
  }
  return nullptr;
}

// A tensor of a subclass as (maker, class, arguments, state): its elements are
// those that the maker gives.
absl::StatusOr<Value*> FromType(Heap& heap, const Value* args) {
  const Args a = args->items();
  if (a.size() != 4 || a[2]->kind() != Kind::kTuple) {
    return Wrong("arguments", "(function, class, arguments, state)", args);
  }
  const Maker* maker = FindMaker(a[0]);
  if (maker == nullptr) return NewObject(heap, a[1], args);
  return maker->make(heap, a[2]->items());
}

}  // namespace

Value* NewObject(Heap& heap, const Value* cls, const Value* args) {
  return heap.Items(Kind::kObject,
                    {cls, args, heap.None(), heap.None(), heap.None()});
}

absl::StatusOr<Value*> Call(Heap& heap, const Value* callee,
                            const Value* args) {
  if (callee->IsGlobal("torch._tensor", "_rebuild_from_type_v2")) {
    absl::StatusOr<Value*> made = FromType(heap, args);
    if (!made.ok()) return Annotate(made.status(), callee->Name());
    return made;
  }
  if (const Maker* maker = FindMaker(callee); maker != nullptr) {
    absl::StatusOr<Value*> made = maker->make(heap, args->items());
    if (!made.ok()) return Annotate(made.status(), callee->Name());
    return made;
  }
  // Objects of protocols 0 and 1: (class, base, base's state).
  if ((callee->IsGlobal("copy_reg", "_reconstructor") ||
       callee->IsGlobal("copyreg", "_reconstructor")) &&
      args->items().size() == 3 && args->items()[0]->kind() == Kind::kGlobal) {
    return NewObject(heap, args->items()[0], args);
  }
  return NewObject(heap, callee, args);
}

absl::StatusOr<Value*> Persistent(Heap& heap, const Value* id) {
  if (id->kind() != Kind::kTuple || id->items().empty() ||
      !id->items()[0]->is_text()) {
    return Wrong("a persistent id", "a tuple that begins with its kind", id);
  }
  const Args a = id->items();
  if (a[0]->bytes() == "module" && a.size() >= 2 &&
      a[1]->kind() == Kind::kGlobal) {
    // The class of a module with its source text, which is not read.
    return heap.Items(Kind::kGlobal, a[1]->items());
  }
  if (a[0]->bytes() != "storage" || (a.size() != 5 && a.size() != 6)) {
    return Wrong("a persistent id",
                 "(\"storage\", class, key, location, count)", id);
  }
  if (a[1]->kind() != Kind::kGlobal) {
    return Wrong("class of a storage", "a name", a[1]);
  }
  if (!a[2]->is_text()) return Wrong("key of a storage", "text", a[2]);
  if (!a[3]->is_text()) return Wrong("location of a storage", "text", a[3]);
  if (!a[4]->is_int() || a[4]->as_int() < 0) {
    return Wrong("count of a storage", "a whole number from 0 on", a[4]);
  }
  const Value* view = a.size() == 6 ? a[5] : heap.None();
  if (!view->is_none()) {
    const Args v = view->items();
    if (view->kind() != Kind::kTuple || v.size() != 3 || !v[0]->is_text() ||
        !v[1]->is_int() || !v[2]->is_int() || v[1]->as_int() < 0 ||
        v[2]->as_int() < 0) {
      return Wrong("view of a storage", "(key, offset, count)", view);
    }
  }
  return heap.Items(Kind::kStorage, {a[1], a[2], a[3], a[4], view});
}

}  // namespace deepslice::pickle
