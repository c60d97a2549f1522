#include "ir/shape_rules.h"

#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

// 6 heads over 2 KV heads of 10; 131 words.
constexpr absl::string_view kDeclarations = R"(graph @g {
  param %x : f32[T, 60]
  param %r : f32[T, 172]
  param %odd : f32[T, 43]
  param %short : f32[R, 60]
  param %kv : f32[T, 20]
  param %qkv : f32[T, 100]
  param %cube : f32[T, 6, 10]
  param %i : i32[T]
  param %rows : i32[R]
  param %blocks : i32[S, B]
  weight @table : f32[131, 60] role(embed)
  weight @up : f32[172, 60] role(mlp_up)
  weight @b60 : f32[60] role(norm)
  weight @b172 : f32[172] role(mlp_up_bias)
  weight @f5 : f32[5] role(rope_freqs)
  weight @f2 : f32[2] role(rope_freqs)
  state @s : full(kv_heads=2, head_dim=10, encoding=f32)
)";

constexpr absl::string_view kHeads =
    "{heads=6, kv_heads=2, group=3, head_offset=0, head_dim=10, scale=1, "
    "window=0";
constexpr absl::string_view kRotary =
    ", rotary_dim=10, style=half, rope_scale=1} state(@s)";

absl::StatusOr<TensorType> TypeOf(absl::string_view node) {
  DS_ASSIGN_OR_RETURN(
      Graph graph,
      ParseGraph(absl::StrCat(kDeclarations, "%y = ", node, " return %y }")));
  return graph.FindValue("y")->type;
}

struct Case {
  std::string node;
  absl::string_view expected;  // a type, or a part of the error
};

class ShapeRules : public testing::TestWithParam<Case> {};

TEST_P(ShapeRules, GiveTheTypeOrTheReason) {
  const auto type = TypeOf(GetParam().node);
  if (absl::StartsWith(GetParam().expected, "f32[")) {
    DS_ASSERT_OK(type);
    EXPECT_EQ(TypeText(*type), GetParam().expected);
  } else {
    DS_EXPECT_ERROR(type, kInvalidArgument, GetParam().expected);
  }
}

const Case kCases[] = {
    {"embed(%i, @table) {begin=0}", "f32[T, 60]"},
    {"embed(%rows, @table) {begin=65}", "f32[R, 60]"},
    {"embed(%x, @table) {begin=0}",
     "embed: ids: found %x : f32[T, 60]; allowed: a value of integers [*]"},
    {"embed(%i, @b60) {begin=0}",
     "embed: table: found @b60 : f32[60]; allowed: a weight of f32 [*, *]"},
    {"embed(%i, @table) {begin=-1}", "embed: begin: found -1; allowed: 0 to"},
    {"linear(%x, @up)", "f32[T, 172]"},
    {"linear(%x, @up, bias=@b172, residual=%r)", "f32[T, 172]"},
    {"linear(%r, @up)",
     "linear: w: found @up : f32[172, 60]; allowed: a "
     "weight of f32 [*, 172]"},
    {"linear(%x, %r)", "linear: w: found %r : f32[T, 172]; allowed: a weight"},
    {"linear(%cube, @up)", "linear: x: found %cube"},
    {"linear(%x, @up, bias=@b60)",
     "linear: bias: found @b60 : f32[60]; "
     "allowed: a weight of f32 [172]"},
    {"linear(%x, @up, residual=%x)",
     "linear: residual: found %x : f32[T, 60]; "
     "allowed: a value of floats [T, 172]"},
    {"add_bias(%x, @b60)", "f32[T, 60]"},
    {"add_bias(%x, @b172)", "add_bias: bias: found @b172"},
    {"add(%x, %x)", "f32[T, 60]"},
    {"add(%x, %x, bias=@b60)", "f32[T, 60]"},
    {"add(%x, %short)",
     "add: y: found %short : f32[R, 60]; allowed: a value "
     "of floats [T, 60]"},
    {"add(%x, %x, bias=@b172)", "add: bias: found @b172"},
    {"mul(%x, %r)", "mul: y: found %r"},
    {"rms_norm(%x, @b60) {eps=1e-6}", "f32[T, 60]"},
    {"rms_norm(%x, @b172) {eps=1e-6}", "rms_norm: scale: found @b172"},
    {"layer_norm(%x, @b60, bias=@b60) {eps=1e-6}", "f32[T, 60]"},
    {"layer_norm(%x, @b60, bias=@b172) {eps=1e-6}", "layer_norm: bias: found"},
    {"rope(%x, %i, @f5) {heads=6, head_dim=10, rotary_dim=10, style=half, "
     "scale=1}",
     "f32[T, 60]"},
    {"rope(%x, %i, @f2) {heads=6, head_dim=10, rotary_dim=4, style=half, "
     "scale=1}",
     "f32[T, 60]"},
    {"rope(%x, %i, @f2) {heads=6, head_dim=10, rotary_dim=5, style=half, "
     "scale=1}",
     "rope: rotary_dim: found 5; allowed: an even number from 0 to head_dim "
     "(10)"},
    {"rope(%x, %i, @f5) {heads=6, head_dim=10, rotary_dim=4, style=half, "
     "scale=1}",
     "rope: freqs: found @f5 : f32[5]; allowed: a weight of f32 [2]"},
    {"rope(%kv, %i, @f5) {heads=6, head_dim=10, rotary_dim=10, style=half, "
     "scale=1}",
     "rope: x: found %kv : f32[T, 20]; allowed: a value of floats [*, 60]"},
    {"rope(%x, %rows, @f5) {heads=6, head_dim=10, rotary_dim=10, style=half, "
     "scale=1}",
     "rope: positions: found %rows"},
    {absl::StrCat("attention(%x, %kv, %kv, %i, %i, %blocks)", kHeads,
                  "} state(@s)"),
     "f32[T, 60]"},
    {absl::StrCat("attention(%kv, %kv, %kv, %i, %i, %blocks)", kHeads,
                  "} state(@s)"),
     "attention: q: found %kv"},
    {absl::StrCat("attention(%x, %kv, %x, %i, %i, %blocks)", kHeads,
                  "} state(@s)"),
     "attention: v: found %x : f32[T, 60]; allowed: a value of floats [T, 20]"},
    {absl::StrCat("attention(%x, %kv, %kv, %i, %rows, %blocks)", kHeads,
                  "} state(@s)"),
     "attention: slots: found %rows"},
    {absl::StrCat("attention(%x, %kv, %kv, %i, %i, %i)", kHeads, "} state(@s)"),
     "attention: blocks: found %i"},
    {"attention(%x, %kv, %kv, %i, %i, %blocks) {heads=6, kv_heads=2, group=0, "
     "head_offset=0, head_dim=10, scale=1, window=0} state(@s)",
     "attention: group: found 0; allowed: 1 to"},
    {absl::StrCat("qkv_attention(%qkv, %i, %i, %blocks, freqs=@f5)", kHeads,
                  kRotary),
     "f32[T, 60]"},
    {absl::StrCat("qkv_attention(%x, %i, %i, %blocks, freqs=@f5)", kHeads,
                  kRotary),
     "qkv_attention: qkv: found %x : f32[T, 60]; allowed: a value of floats "
     "[*, 100]"},
    {absl::StrCat("qkv_attention(%qkv, %i, %i, %blocks)", kHeads, kRotary),
     "qkv_attention: rotary_dim: found 10; allowed: 0 where freqs is absent"},
    {"activation(%x) {kind=relu}", "f32[T, 60]"},
    {"activation(%cube) {kind=relu}", "activation: x: found %cube"},
    {"gated_activation(%r) {kind=silu}", "f32[T, 86]"},
    {"gated_activation(%odd) {kind=silu}",
     "gated_activation: x: found f32[T, 43]; allowed: an even number of "
     "columns"},
    {"gather_rows(%x, %rows)", "f32[R, 60]"},
    {"gather_rows(%x, %short)", "gather_rows: rows: found %short"},
    {"all_reduce(%x) {group=tp}", "f32[T, 60]"},
    {"all_gather(%x) {group=tp, total=131}", "f32[T, 131]"},
    {"all_gather(%x) {group=tp, total=59}",
     "all_gather: total: found 59; allowed: at least the columns of x, "
     "f32[T, 60]"},
};
INSTANTIATE_TEST_SUITE_P(Nodes, ShapeRules, testing::ValuesIn(kCases));

TEST(InferType, RefusesNodesThatDisagreeWithTheTable) {
  Value x{"x", TensorType{DType::kF32, {"T", 60}}};
  Node node;
  node.op = OpKind::kRmsNorm;
  node.operands = {&x};
  DS_EXPECT_ERROR(InferType(node), kInvalidArgument,
                  "found 1 operands and 0 attributes; allowed: 2 and 1");
  node.operands = {&x, Operand()};
  node.attrs = {Attr{.f = NAN}};
  DS_EXPECT_ERROR(InferType(node), kInvalidArgument, "scale is absent");
  Weight scale{"s", TensorType{DType::kF32, {60}}};
  node.operands[1] = &scale;
  DS_EXPECT_ERROR(InferType(node), kInvalidArgument,
                  "rms_norm: eps: found nan; allowed: a finite number");
  node.op = OpKind::kActivation;
  node.operands = {&x};
  node.attrs = {Attr{.i = 7}};
  DS_EXPECT_ERROR(InferType(node), kInvalidArgument,
                  "activation: kind: found 7; allowed: 0 to 6");
}

}  // namespace
}  // namespace deepslice
