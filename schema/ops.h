// Enums and lookup tables made from ops.def.
#ifndef DEEPSLICE_SCHEMA_OPS_H_
#define DEEPSLICE_SCHEMA_OPS_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace deepslice {

// ---- values of ENUM attributes; tags are written into plans ----------------

// gelu is the erf form; gelu_tanh is gelu_new; quick_gelu is x*sigmoid(1.702x);
// relu2 is relu squared.
enum class Act : uint8_t {
  kSilu,
  kGelu,
  kGeluTanh,
  kRelu,
  kQuickGelu,
  kTanh,
  kRelu2
};
enum class RopeStyle : uint8_t { kHalf, kInterleaved };
enum class Alibi : uint8_t { kPlain, kScaledBf16 };
enum class NormKind : uint8_t { kRms, kLayer };
enum class Mask : uint8_t { kFull, kCausal };
// The axis of the mesh whose ranks take part.
enum class Group : uint8_t { kWorld, kTp, kDp, kPp, kEp };

// Names of an enum's values in order, by the enum's name in ops.def.
absl::Span<const absl::string_view> EnumValues(absl::string_view enum_name);

// ---- op kinds --------------------------------------------------------------

enum class OpKind : uint16_t {
#define OP(Name, spelling, tag, operands, attrs, shape, effect) k##Name = tag,
#include "schema/ops.def"
};

enum class Effect : uint8_t { kPure, kState, kCollective };

enum class AttrType : uint8_t { kI64, kF64, kEnum };

struct OperandDef {
  absl::string_view name;
  bool optional;
};
struct AttrDef {
  absl::string_view name;
  AttrType type;
  absl::string_view enum_name;  // kEnum only
  bool optional = false;        // 0 where the text doesn't say
};
struct OpDef {
  OpKind kind;
  absl::string_view name;      // "RmsNorm"
  absl::string_view spelling;  // "rms_norm"
  absl::Span<const OperandDef> operands;
  absl::Span<const AttrDef> attrs;
  Effect effect;
};

// All ops in table order.
absl::Span<const OpDef> AllOps();
// The definition of a kind; `kind` must be one of the table.
const OpDef& GetOp(OpKind kind);
// nullptr when there is none: for text and for tags out of a file.
const OpDef* FindOpBySpelling(absl::string_view spelling);
const OpDef* FindOpByTag(int64_t tag);

// One attribute value: i for I64 and ENUM, f for F64. In table order.
struct Attr {
  int64_t i = 0;
  double f = 0;
};

inline constexpr int kMaxOperands = 8;

// ---- names for positions: attr::Rope::heads, operand::Linear::residual ------

#define DS_PARENS ()
#define DS_EXPAND(...) DS_EXPAND2(DS_EXPAND2(DS_EXPAND2(__VA_ARGS__)))
#define DS_EXPAND2(...) DS_EXPAND1(DS_EXPAND1(DS_EXPAND1(__VA_ARGS__)))
#define DS_EXPAND1(...) __VA_ARGS__
// Applies `m` to each of the arguments (at most 27), with nothing between.
#define DS_FOR_EACH(m, ...) \
  __VA_OPT__(DS_EXPAND(DS_FOR_EACH_STEP(m, __VA_ARGS__)))
#define DS_FOR_EACH_STEP(m, a, ...) \
  m(a) __VA_OPT__(DS_FOR_EACH_AGAIN DS_PARENS(m, __VA_ARGS__))
#define DS_FOR_EACH_AGAIN() DS_FOR_EACH_STEP

#define DS_ATTR_ID_I64(name) name,
#define DS_ATTR_ID_F64(name) name,
#define DS_ATTR_ID_ENUM(type, name) name,
#define DS_ATTR_ID_OPT_I64(name) name,
#define DS_ATTR_ID_OPT_F64(name) name,
#define DS_ATTR_ID_OPT_ENUM(type, name) name,
#define DS_ATTR_ID(a) DS_ATTR_ID_##a
#define DS_ATTR_IDS(...) DS_FOR_EACH(DS_ATTR_ID, __VA_ARGS__)

namespace attr {
#define OP(Name, spelling, tag, operands, attrs, shape, effect) \
  struct Name {                                                 \
    enum : int { DS_ATTR_IDS attrs kCount };                    \
  };
#include "schema/ops.def"
}  // namespace attr

#define OPT(name) name
#define DS_OPERAND_ID(o) o,
#define DS_OPERAND_IDS(...) DS_FOR_EACH(DS_OPERAND_ID, __VA_ARGS__)

namespace operand {
#define OP(Name, spelling, tag, operands, attrs, shape, effect) \
  struct Name {                                                 \
    enum : int { DS_OPERAND_IDS operands kCount };              \
  };
#include "schema/ops.def"
}  // namespace operand
#undef OPT

}  // namespace deepslice

#endif  // DEEPSLICE_SCHEMA_OPS_H_
