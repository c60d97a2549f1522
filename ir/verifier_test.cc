#include "ir/verifier.h"

#include <functional>

#include "gtest/gtest.h"
#include "ir/parser.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

constexpr absl::string_view kGood = R"(graph @g {
  param %x : f32[T, 40]
  param %i : i32[T]
  param %b : i32[S, B]
  weight @qkv : f32[80, 40] role(attn_qkv)
      = concat("q"[0:40, 0:40], "k"[0:20, 0:40], "v"[0:20, 0:40])
  weight @bias : f32[80] role(attn_qkv_bias) = interleave("a"[0:40], "b"[0:40])
  weight @f : f32[5] role(rope_freqs) = rope_freqs(base=10000, rotary_dim=10)
  state @kv : window(kv_heads=2, head_dim=10, encoding=f32)
  %h = linear(%x, @qkv, bias=@bias)
  %a = qkv_attention(%h, %i, %i, %b, freqs=@f) {heads=4, kv_heads=2, group=3,
    head_offset=1, head_dim=10, scale=1, window=7, rotary_dim=10, style=half,
    rope_scale=1} state(@kv)
  %y = add(%a, %x)
  return %y
})";

struct Case {
  const char* name;
  std::function<void(Graph&)> damage;
  absl::string_view error;
};

class VerifyGraphFinds : public testing::TestWithParam<Case> {};

TEST_P(VerifyGraphFinds, TheDamage) {
  DS_ASSERT_OK_AND_ASSIGN(Graph graph, ParseGraph(kGood));
  DS_ASSERT_OK(VerifyGraph(graph));
  GetParam().damage(graph);
  DS_EXPECT_ERROR(VerifyGraph(graph), kInternal, GetParam().error);
  DS_EXPECT_ERROR(VerifyGraph(graph), kInternal, "graph @g: ");
}

Weight& W(Graph& g, absl::string_view name) { return *g.FindWeight(name); }
Node& N(Graph& g, absl::string_view name) {
  return *g.FindValue(name)->producer;
}
using Qkv = attr::QkvAttention;

const Case kCases[] = {
    {"value_name_twice", [](Graph& g) { g.FindValue("y")->name = "x"; },
     "%x: two values have this name"},
    {"weight_name_twice", [](Graph& g) { W(g, "bias").name = "qkv"; },
     "@qkv: two weights or states have this name"},
    {"state_has_a_weights_name",
     [](Graph& g) { g.FindState("kv")->name = "f"; },
     "@f: two weights or states"},
    {"name_does_not_print", [](Graph& g) { g.FindValue("y")->name = "a b"; },
     "found value name \"a b\"; allowed: letters, digits"},
    {"use_before_definition",
     [](Graph& g) { N(g, "h").operands[0].value = g.FindValue("a"); },
     "%h: an operand is not defined before its use"},
    {"value_of_another_graph",
     [](Graph& g) {
       static Value stranger{"z", TensorType{DType::kF32, {"T", 40}}};
       N(g, "y").operands[0].value = &stranger;
     },
     "%y: an operand is not defined before its use"},
    {"weight_of_another_graph",
     [](Graph& g) {
       static Weight stranger{"z", TensorType{DType::kF32, {80, 40}}};
       N(g, "h").operands[1].weight = &stranger;
     },
     "%h: an operand is not a weight of this graph"},
    {"required_operand_absent",
     [](Graph& g) { N(g, "y").operands[1] = Operand(); },
     "%y: add: operand y is absent"},
    {"wrong_type", [](Graph& g) { g.FindValue("h")->type.dims[1] = 81; },
     "%h: found f32[T, 81]; allowed: f32[T, 80], as linear makes"},
    {"attribute_outside_of_its_enum",
     [](Graph& g) { N(g, "a").attrs[Qkv::style].i = 2; },
     "%a: qkv_attention: style: found 2; allowed: 0 to 1"},
    {"last_head_reads_a_missing_kv_head",
     [](Graph& g) { N(g, "a").attrs[Qkv::head_offset].i = 3; },
     "%a: qkv_attention: head_offset=3, heads=4, group=3: the last head reads "
     "KV head 2; allowed: below kv_heads=2"},
    {"state_of_another_size", [](Graph& g) { g.FindState("kv")->kv_heads = 3; },
     "state @kv: found kv_heads=3, head_dim=10; allowed: 2 and 10"},
    {"state_of_another_kind",
     [](Graph& g) { g.FindState("kv")->kind = StateKind::kLatent; },
     "state @kv: allowed: full, or window where window > 0"},
    {"window_state_for_full_attention",
     [](Graph& g) { N(g, "a").attrs[Qkv::window].i = 0; },
     "state @kv: allowed: full, or window where window > 0"},
    {"state_missing", [](Graph& g) { N(g, "a").state = nullptr; },
     "%a: qkv_attention: a state is required"},
    {"state_where_none_belongs",
     [](Graph& g) { N(g, "y").state = g.FindState("kv"); },
     "%y: add: this op takes no state"},
    {"state_appended_to_twice",
     [](Graph& g) {
       Node& a = N(g, "a");
       g.AddNode(a.op, a.operands, a.attrs, "again", a.state);
     },
     "%again: qkv_attention: state @kv is appended to twice"},
    {"pieces_too_short",
     [](Graph& g) { W(g, "qkv").source.pieces[0].rows.end = 39; },
     "@qkv: pieces have 79 rows; allowed: 80, as f32[80, 40] has"},
    {"piece_too_narrow",
     [](Graph& g) { W(g, "qkv").source.pieces[1].cols.begin = 1; },
     "@qkv: piece \"k\": found 39 columns; allowed: 40"},
    {"interleaved_pieces_of_two_sizes",
     [](Graph& g) {
       W(g, "bias").source.pieces[0].rows = {0, 41};
       W(g, "bias").source.pieces[1].rows = {0, 39};
     },
     "@bias: piece \"b\": found 39 rows; allowed: 41"},
    {"vector_out_of_a_matrix",
     [](Graph& g) {
       W(g, "bias").source.pieces[1].cols = {1, 2};
     },
     "@bias: piece \"b\": found 1 columns"},
    {"piece_ends_before_it_begins",
     [](Graph& g) {
       W(g, "qkv").source.pieces[2].rows = {20, 0};
     },
     "@qkv: piece \"v\": found rows 20:0"},
    {"formula_and_pieces", [](Graph& g) { W(g, "qkv").source.formula = "f"; },
     "@qkv: found formula \"f\" with 3 pieces; allowed: an identifier alone"},
    {"arguments_without_formula",
     [](Graph& g) { W(g, "f").source.formula.clear(); },
     "@f: found a source with neither piece nor formula"},
    {"weight_of_a_symbolic_size",
     [](Graph& g) { W(g, "f").type.dims[0] = Dim("T"); },
     "@f: found f32[T]; allowed: f32[out, in] or f32[n], in numbers"},
    {"quantised_vector",
     [](Graph& g) { W(g, "bias").encoding = Encoding::kI8Row; },
     "@bias: found encoding i8_row of f32[80]; allowed: f32, f16 or bf16"},
    {"unused_weight",
     [](Graph& g) {
       g.AddWeight("w", TensorType{DType::kF32, {3}}, Role::kNorm);
     },
     "@w: no node reads this weight"},
    {"unused_state", [](Graph& g) { g.AddState("s", StateKind::kFull, 2, 10); },
     "@s: no node reads this state"},
    {"no_return", [](Graph& g) { g.returns().clear(); }, "nothing is returned"},
};
INSTANTIATE_TEST_SUITE_P(Graphs, VerifyGraphFinds, testing::ValuesIn(kCases),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

}  // namespace
}  // namespace deepslice
