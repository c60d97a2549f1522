#include "ir/parser.h"

#include "gtest/gtest.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

// Every phrase of the text form, as PrintGraph writes it.
constexpr absl::string_view kCanonical = R"(graph @step {
  param  %ids        : i32[T]
  param  %positions  : i32[T]
  param  %slots      : i32[T]
  param  %blocks     : i32[S, B]
  param  %rows       : i32[R]
  weight @embed      : f32[131, 60] role(embed)
      = "wte.weight"[0:131, 0:60]
  weight @0.norm     : f32[60] role(norm)
      = "h.0.ln_1.weight"[0:60]
  weight @0.attn_qkv : f32[100, 60] role(attn_qkv) encoding(i8_row)
      = concat(transpose "h.0.attn.c_attn.weight"[0:60, 0:60],
          transpose "h.0.attn.c_attn.weight"[60:80, 0:60],
          "odd \"name\\ \x0a"[80:100, 0:60])
  weight @0.gate_up  : f32[344, 60] role(mlp_gate_up) encoding(bf16)
      = interleave("gate"[0:172, 0:60], "up"[0:172, 0:60])
  weight @0.down     : f32[60, 172] role(mlp_out)
  weight @freqs      : f32[5] role(rope_freqs)
      = rope_freqs(base=10000, rotary_dim=10)
  state  @kv.0       : full(kv_heads=2, head_dim=10, encoding=f16)
  %x = embed(%ids, @embed) {begin=0} : f32[T, 60]
  %h = rms_norm(%x, @0.norm) {eps=1e-05} : f32[T, 60]
  %qkv = linear(%h, @0.attn_qkv) : f32[T, 100]
  %a = qkv_attention(%qkv, %positions, %slots, %blocks, freqs=@freqs)
      {heads=6, kv_heads=2, group=3, head_offset=0, head_dim=10,
       scale=0.31622776601683794, window=0, rotary_dim=10, style=half,
       rope_scale=1} state(@kv.0) : f32[T, 60]
  %g = linear(%a, @0.gate_up) : f32[T, 344]
  %m = gated_activation(%g) {kind=gelu_tanh} : f32[T, 172]
  %y = linear(%m, @0.down, residual=%x) : f32[T, 60]
  %z = all_reduce(%y) {group=tp} : f32[T, 60]
  %out = gather_rows(%z, %rows) : f32[R, 60]
  return %out, %x
}
)";

TEST(ParseGraph, CanonicalTextPrintsBackUnchanged) {
  DS_ASSERT_OK_AND_ASSIGN(Graph graph, ParseGraph(kCanonical));
  EXPECT_EQ(PrintGraph(graph), kCanonical);
  DS_ASSERT_OK(VerifyGraph(graph));
}

TEST(ParseGraph, ReadsTheRecipeOfAWeight) {
  DS_ASSERT_OK_AND_ASSIGN(Graph graph, ParseGraph(kCanonical));
  const Weight* qkv = graph.FindWeight("0.attn_qkv");
  ASSERT_NE(qkv, nullptr);
  EXPECT_EQ(qkv->encoding, Encoding::kI8Row);
  EXPECT_FALSE(qkv->source.interleaved);
  ASSERT_EQ(qkv->source.pieces.size(), 3u);
  const SourcePiece& k = qkv->source.pieces[1];
  EXPECT_TRUE(k.transposed);
  EXPECT_EQ(k.tensor, "h.0.attn.c_attn.weight");
  EXPECT_EQ(k.rows, (Range{60, 80}));
  EXPECT_EQ(k.cols, (Range{0, 60}));
  EXPECT_EQ(qkv->source.pieces[2].tensor, "odd \"name\\ \n");
  EXPECT_TRUE(graph.FindWeight("0.gate_up")->source.interleaved);
  const WeightSource& freqs = graph.FindWeight("freqs")->source;
  EXPECT_EQ(freqs.formula, "rope_freqs");
  ASSERT_EQ(freqs.arguments.size(), 2u);
  EXPECT_EQ(freqs.arguments[0].first, "base");
  EXPECT_EQ(freqs.arguments[0].second, 10000);
  EXPECT_EQ(graph.FindState("kv.0")->encoding, Encoding::kF16);
}

TEST(ParseGraph, IsFreeInSpaceCommentsOrderAndInferredTypes) {
  DS_ASSERT_OK_AND_ASSIGN(
      Graph graph, ParseGraph("graph@g{# comment\nparam%x:f32[T,20]\n"
                              "weight@f:f32[5]role(rope_freqs)param%p:i32[T]\n"
                              "%y=rope(%x,%p,@f){style=interleaved,scale=0.50,"
                              "rotary_dim=10,head_dim=10,heads=2}return%y}#"));
  EXPECT_EQ(PrintGraph(graph), R"(graph @g {
  param  %x : f32[T, 20]
  param  %p : i32[T]
  weight @f : f32[5] role(rope_freqs)
  %y = rope(%x, %p, @f)
      {heads=2, head_dim=10, rotary_dim=10, style=interleaved, scale=0.5}
      : f32[T, 20]
  return %y
}
)");
}

TEST(ParseGraph, ARankThatOwnsNoHeadIsLegal) {
  DS_ASSERT_OK_AND_ASSIGN(Graph graph, ParseGraph(R"(graph @g {
  param %x : f32[T, 60]
  param %p : i32[T]
  param %s : i32[T]
  param %b : i32[S, B]
  weight @qkv : f32[0, 60] role(attn_qkv) = concat("q"[9:9, 0:60],
      "k"[2:2, 0:60], "v"[2:2, 0:60])
  weight @o : f32[60, 0] role(attn_out) = "o"[0:60, 90:90]
  state @kv : full(kv_heads=0, head_dim=10, encoding=f32)
  %q = linear(%x, @qkv) : f32[T, 0]
  %a = qkv_attention(%q, %p, %s, %b) {heads=0, kv_heads=0, group=3,
    head_offset=2, head_dim=10, scale=1, window=0, rotary_dim=0, style=half,
    rope_scale=1} state(@kv)
  %y = linear(%a, @o) : f32[T, 60]
  return %y
})"));
  DS_ASSERT_OK(VerifyGraph(graph));
  DS_ASSERT_OK_AND_ASSIGN(Graph again, ParseGraph(PrintGraph(graph)));
  EXPECT_EQ(GraphDigest(again), GraphDigest(graph));
}

struct BadText {
  absl::string_view text;
  absl::string_view error;
};

class ParseGraphRefuses : public testing::TestWithParam<BadText> {};

TEST_P(ParseGraphRefuses, WithPlaceExpectedAndGot) {
  DS_EXPECT_ERROR(ParseGraph(GetParam().text, "bad.ir"), kInvalidArgument,
                  GetParam().error);
}

constexpr BadText kBad[] = {
    {"", "bad.ir:1:1: expected 'graph', got end of text\n\n^"},
    {"graph g", "bad.ir:1:7: expected @name, got 'g'"},
    {"graph @g {\n  param %x : f32[T, 6}\n}",
     "bad.ir:2:22: expected ',' or ']', got '}'\n"
     "  param %x : f32[T, 6}\n                     ^"},
    {"graph @g { param %x : f33[T] }",
     "expected a type like f32[T], got 'f33'"},
    {"graph @g { param %x : f32[-1] }",
     "expected a dim: a symbol or a number from 0 to 70368744177664, got '-1'"},
    {"graph @g { param %x : f32[1,1,1,1,1,1,1,1,1] }",
     "expected at most 8 dims, got '1'"},
    {"graph @g { param %x : f32[99999999999999999999] }",
     "got '99999999999999999999'"},
    {"graph @g {\nparam %x : f32[T]\nparam %x : f32[T] }",
     "bad.ir:3:7: expected a new name (line 2 has it), got '%x'"},
    {"graph @g { weight @w : f32[6] role(nrom) }",
     "expected a role (norm?), got 'nrom'"},
    {"graph @g { weight @w : f32[6] role(norm) encoding(i9) }",
     "expected one of f32, f16, bf16, i8_row, i8_group, i4_group, got 'i9'"},
    {"graph @g { weight @w : f32[6] role(norm) = \"abc\n }",
     "expected \"tensor\", transpose, concat, interleave or a formula, got "
     "\"abc (no closing quote"},
    {"graph @g { weight @w : f32[6] role(norm) = \"a\\q\"[0:6] }",
     "no closing quote, or an escape other than"},
    {"graph @g { weight @w : f32[6] role(norm) = \"a\"[6:0] }",
     "expected an index from 6 to 70368744177664, got '0'"},
    {"graph @g { weight @w : f32[6] role(norm) = f(a=1e999) }",
     "expected a number, got '1e999'"},
    {"graph @g { state @s : ful(kv_heads=2) }",
     "expected one of full, window, cross, latent, recurrent, got 'ful'"},
    {"graph @g { param %x : f32[T, 6] %y = liner(%x) }",
     "expected an op (linear?), got 'liner'"},
    {"graph @g { %y = mul(%x, %x) }",
     "expected a value defined above, got '%x'"},
    {"graph @g { param %x : f32[T, 6] %y = add_bias(%x, @b) }",
     "expected a weight declared above, got '@b'"},
    {"graph @g { param %x : f32[T, 6] %y = mul(%x) }",
     "mul: operand y is absent; it is required"},
    {"graph @g { param %x : f32[T, 6] %y = mul(%x, %x, %x) }",
     "expected no more operands, got '%x'"},
    {"graph @g { param %x : f32[T, 6] %y = add(%x, %x, residual=%x) }",
     "expected bias=, got 'residual'"},
    {"graph @g { param %x : f32[T, 6] %y = activation(%x) }",
     "expected '{', got '}'"},
    {"graph @g { param %x : f32[T, 6] %y = activation(%x) {kind=tan} }",
     "expected one of silu, gelu, gelu_tanh, relu, quick_gelu, tanh, relu2, "
     "got 'tan'"},
    {"graph @g { param %x : f32[T, 6] %y = all_gather(%x) {group=tp} }",
     "expected ',' and then total=, got '}'"},
    {"graph @g { param %x : f32[T, 6] %y = all_reduce(%x) {group=tp, group=tp}",
     "expected '}', got 'group'"},
    {"graph @g {\n  param %x : f32[T, 6]\n  %y = mul(%x, %x) : f32[T, 7]\n}",
     "bad.ir:3:22: expected f32[T, 6], got f32[T, 7]"},
    {"graph @g {\n  param %x : f32[T, 6]\n  weight @w : f32[4, 5] role(head)\n"
     "  %y = linear(%x, @w)\n}",
     "bad.ir:4:8: linear: w: found @w : f32[4, 5]; allowed: a weight of f32 "
     "[*, 6]"},
    {"graph @g { param %x : f32[T, 6] return %y }",
     "expected a value defined above, got '%y'"},
    {"graph @g { param %x : f32[T, 6] return %x return %x }",
     "expected '}' after return, got 'return'"},
    {"graph @g { } graph", "expected end of text after the graph, got 'graph'"},
    {"graph @g { \x01 }", "or '}', got byte 0x01"},
    {"graph @g { % }", "or '}', got byte 0x25"},
};
INSTANTIATE_TEST_SUITE_P(Texts, ParseGraphRefuses, testing::ValuesIn(kBad));

TEST(ParseGraph, ShowsLongLinesAroundThePlace) {
  const std::string text = "graph @g { " + std::string(100'000, ' ') + "oops" +
                           std::string(100'000, '~');
  const absl::Status status = ParseGraph(text, "f").status();
  EXPECT_LT(status.message().size(), 500u);
  DS_EXPECT_ERROR(status, kInvalidArgument, "f:1:100012: expected param");
}

TEST(ParseGraph, RefusesNamesBeyondTheLimit) {
  const std::string text = "graph @" + std::string(5000, 'g') + " {}";
  DS_EXPECT_ERROR(ParseGraph(text), kInvalidArgument,
                  "expected a name of at most 4096 bytes, got 5000");
}

}  // namespace
}  // namespace deepslice
