#include "kernels/reference.h"

#include "absl/strings/str_cat.h"

namespace deepslice {
namespace {

using RefFunction = absl::Status (*)(const RefCall&, RefTensor*);

RefFunction FindReference(OpKind kind) {
#define DS_REF_CASE_Pure(Name) return Ref##Name;
#define DS_REF_CASE_State(Name) return Ref##Name;
#define DS_REF_CASE_Collective(Name) return nullptr;
  switch (kind) {
#define OP(Name, spelling, tag, operands, attrs, shape, effect) \
  case OpKind::k##Name:                                         \
    DS_REF_CASE_##effect(Name)
#include "schema/ops.def"
  }
  return nullptr;
}

}  // namespace

absl::Status RunReference(OpKind kind, const RefCall& call, RefTensor* out) {
  if (RefFunction function = FindReference(kind)) return function(call, out);
  const OpDef* op = FindOpByTag(static_cast<int64_t>(kind));
  return absl::UnimplementedError(absl::StrCat(
      op == nullptr ? absl::string_view("unknown op") : op->spelling,
      ": has no reference on one rank; evaluate it over all ranks"));
}

}  // namespace deepslice
