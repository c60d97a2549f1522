#include "ir/graph.h"

#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

TensorType F32(std::vector<Dim> dims) {
  return TensorType{DType::kF32, std::move(dims)};
}

// %x -> linear @up -> %h -> linear @down -> %y
struct Mlp {
  Mlp() {
    graph.name = "mlp";
    x = graph.AddParam("x", F32({"T", 60}));
    up = graph.AddWeight("up", F32({172, 60}), Role::kMlpUp);
    down = graph.AddWeight("down", F32({60, 172}), Role::kMlpOut);
    h = graph.AddNode(OpKind::kLinear, {x, up}, {}, "h")->result;
    y = graph.AddNode(OpKind::kLinear, {h, down}, {}, "y")->result;
    graph.returns() = {y};
  }
  Graph graph;
  Value *x, *h, *y;
  Weight *up, *down;
};

TEST(Graph, AddNodeInfersTheTypeAndPadsOperands) {
  Mlp m;
  EXPECT_EQ(m.h->type, F32({"T", 172}));
  EXPECT_EQ(m.h->producer->operands.size(), 4u);
  EXPECT_FALSE(m.h->producer->operands[operand::Linear::bias].present());
  EXPECT_EQ(m.h->producer->result, m.h);
  DS_ASSERT_OK(VerifyGraph(m.graph));
}

TEST(Graph, AddNodeBeforeAnotherKeepsOrder) {
  Mlp m;
  Node* act = m.graph.AddNode(OpKind::kActivation, {m.h}, {Attr{.i = 0}}, "a",
                              nullptr, m.y->producer);
  ASSERT_EQ(m.graph.nodes().size(), 3u);
  EXPECT_EQ(m.graph.nodes()[1].get(), act);
}

TEST(GraphDeathTest, AddNodeRefusesWhatTheShapeRuleRefuses) {
  Mlp m;
  EXPECT_DEATH(m.graph.AddNode(OpKind::kLinear, {m.x, m.down}, {}, "bad"),
               "new node %bad: linear: w: found @down");
}

TEST(Graph, ReplaceUsesSparesTheNodeThatMakesTheNewValue) {
  Mlp m;
  Node* sum = m.graph.AddNode(OpKind::kAllReduce, {m.h}, {Attr{.i = 1}}, "s",
                              nullptr, m.y->producer);
  m.graph.ReplaceUses(m.h, sum->result);
  EXPECT_EQ(sum->in(0), m.h);
  EXPECT_EQ(m.y->producer->in(0), sum->result);
  m.graph.ReplaceUses(m.y, m.x);
  EXPECT_TRUE(m.graph.IsReturned(m.x));
  EXPECT_FALSE(m.graph.IsReturned(m.y));
}

TEST(Graph, EraseNodeAndUnusedWeights) {
  Mlp m;
  m.graph.AddState("kv", StateKind::kFull, 2, 10);
  m.graph.returns() = {m.h};
  m.graph.EraseNode(m.y->producer);
  m.graph.EraseUnused();
  EXPECT_EQ(m.graph.FindValue("y"), nullptr);
  EXPECT_EQ(m.graph.FindWeight("down"), nullptr);
  EXPECT_EQ(m.graph.FindState("kv"), nullptr);
  EXPECT_EQ(m.graph.FindWeight("up"), m.up);
  DS_ASSERT_OK(VerifyGraph(m.graph));
}

TEST(GraphDeathTest, EraseNodeRefusesAResultInUse) {
  Mlp m;
  EXPECT_DEATH(m.graph.EraseNode(m.h->producer), "does not hold");
  EXPECT_DEATH(m.graph.EraseNode(m.y->producer), "does not hold");
}

TEST(Graph, FindsValuesAndTheirUsersOnceEach) {
  Mlp m;
  Node* square = m.graph.AddNode(OpKind::kMul, {m.y, m.y}, {}, "square");
  EXPECT_EQ(m.graph.FindValue("h"), m.h);
  EXPECT_EQ(m.graph.FindValue("x"), m.x);
  EXPECT_EQ(m.graph.FindValue("up"), nullptr);
  EXPECT_EQ(m.graph.Users(m.y), std::vector<Node*>{square});
  EXPECT_EQ(m.graph.Users(m.up), std::vector<Node*>{m.h->producer});
}

TEST(Graph, InferShapesFollowsAChangedWeight) {
  Mlp m;
  m.up->type = F32({43, 60});
  m.down->type = F32({60, 43});
  DS_ASSERT_OK(m.graph.InferShapes());
  EXPECT_EQ(m.h->type, F32({"T", 43}));
  m.down->type = F32({60, 44});
  DS_EXPECT_ERROR(m.graph.InferShapes(), kInvalidArgument,
                  "%y: linear: w: found @down : f32[60, 44]");
}

TEST(Graph, CloneIsEqualAndIndependent) {
  Mlp m;
  Graph copy = m.graph.Clone();
  EXPECT_EQ(GraphDigest(copy), GraphDigest(m.graph));
  DS_ASSERT_OK(VerifyGraph(copy));
  copy.FindWeight("up")->encoding = Encoding::kI8Row;
  copy.ReplaceUses(copy.FindValue("y"), copy.FindValue("h"));
  EXPECT_NE(GraphDigest(copy), GraphDigest(m.graph));
  EXPECT_EQ(m.up->encoding, Encoding::kF32);
  EXPECT_EQ(m.graph.returns()[0], m.y);
}

TEST(Graph, MovingKeepsPointers) {
  Mlp m;
  Graph moved = std::move(m.graph);
  EXPECT_EQ(moved.FindValue("h"), m.h);
  DS_ASSERT_OK(VerifyGraph(moved));
}

}  // namespace
}  // namespace deepslice
