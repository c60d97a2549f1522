#include "schema/ops.h"

#include "schema/base/check.h"

namespace deepslice {
namespace {

constexpr absl::string_view kActNames[] = {
    "silu", "gelu", "gelu_tanh", "relu", "quick_gelu", "tanh", "relu2"};
constexpr absl::string_view kRopeStyleNames[] = {"half", "interleaved"};
constexpr absl::string_view kAlibiNames[] = {"plain", "scaled_bf16"};
constexpr absl::string_view kNormKindNames[] = {"rms", "layer"};
constexpr absl::string_view kMaskNames[] = {"full", "causal"};
constexpr absl::string_view kGroupNames[] = {"world", "tp", "dp", "pp", "ep"};

// One operand array and one attribute array per op.
#define DS_ATTR_ROW_I64(name) AttrDef{#name, AttrType::kI64, ""},
#define DS_ATTR_ROW_F64(name) AttrDef{#name, AttrType::kF64, ""},
#define DS_ATTR_ROW_ENUM(type, name) AttrDef{#name, AttrType::kEnum, #type},
#define DS_ATTR_ROW_OPT_I64(name) AttrDef{#name, AttrType::kI64, "", true},
#define DS_ATTR_ROW_OPT_F64(name) AttrDef{#name, AttrType::kF64, "", true},
#define DS_ATTR_ROW_OPT_ENUM(type, name) \
  AttrDef{#name, AttrType::kEnum, #type, true},
#define DS_ATTR_ROW(a) DS_ATTR_ROW_##a
#define DS_ATTR_ROWS(...) DS_FOR_EACH(DS_ATTR_ROW, __VA_ARGS__)

// OPT(name) becomes "?name"; the question mark is dropped below.
#define DS_STR2(x) #x
#define DS_STR(x) DS_STR2(x)
#define OPT(name) ? name
#define DS_OPERAND_ROW(o) MakeOperand(DS_STR(o)),
#define DS_OPERAND_ROWS(...) DS_FOR_EACH(DS_OPERAND_ROW, __VA_ARGS__)

constexpr OperandDef MakeOperand(absl::string_view text) {
  const bool optional = text[0] == '?';
  while (text[0] == '?' || text[0] == ' ') text.remove_prefix(1);
  return OperandDef{text, optional};
}

#define OP(Name, spelling, tag, operands, attrs, shape, effect)          \
  constexpr OperandDef k##Name##Operands[] = {DS_OPERAND_ROWS operands}; \
  constexpr AttrDef k##Name##Attrs[] = {DS_ATTR_ROWS attrs AttrDef{}};   \
  static_assert(operand::Name::kCount <= kMaxOperands);
#include "schema/ops.def"

const OpDef kOps[] = {
#define OP(Name, spelling, tag, operands, attrs, shape, effect)  \
  OpDef{OpKind::k##Name,                                         \
        #Name,                                                   \
        spelling,                                                \
        absl::MakeConstSpan(k##Name##Operands),                  \
        absl::MakeConstSpan(k##Name##Attrs, attr::Name::kCount), \
        Effect::k##effect},
#include "schema/ops.def"
};

}  // namespace

absl::Span<const absl::string_view> EnumValues(absl::string_view enum_name) {
  if (enum_name == "Act") return kActNames;
  if (enum_name == "RopeStyle") return kRopeStyleNames;
  if (enum_name == "Alibi") return kAlibiNames;
  if (enum_name == "NormKind") return kNormKindNames;
  if (enum_name == "Mask") return kMaskNames;
  DS_CHECK(enum_name == "Group");
  return kGroupNames;
}

absl::Span<const OpDef> AllOps() { return kOps; }

const OpDef* FindOpByTag(int64_t tag) {
  for (const OpDef& op : kOps) {
    if (static_cast<int64_t>(op.kind) == tag) return &op;
  }
  return nullptr;
}

const OpDef& GetOp(OpKind kind) {
  const OpDef* op = FindOpByTag(static_cast<int64_t>(kind));
  DS_CHECK(op != nullptr);
  return *op;
}

const OpDef* FindOpBySpelling(absl::string_view spelling) {
  for (const OpDef& op : kOps) {
    if (op.spelling == spelling) return &op;
  }
  return nullptr;
}

}  // namespace deepslice
