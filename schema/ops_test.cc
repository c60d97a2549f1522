#include "schema/ops.h"

#include <set>

#include "gtest/gtest.h"

namespace deepslice {
namespace {

TEST(Ops, TagsAndSpellingsAreUniqueAndFound) {
  std::set<int> tags;
  std::set<std::string> spellings;
  for (const OpDef& op : AllOps()) {
    EXPECT_TRUE(tags.insert(static_cast<int>(op.kind)).second) << op.name;
    EXPECT_TRUE(spellings.insert(std::string(op.spelling)).second) << op.name;
    EXPECT_EQ(FindOpBySpelling(op.spelling), &op);
    EXPECT_EQ(FindOpByTag(static_cast<int>(op.kind)), &op);
  }
  EXPECT_EQ(FindOpByTag(0), nullptr);
  EXPECT_EQ(FindOpBySpelling("liner"), nullptr);
}

TEST(Ops, TableGivesOperandsAndAttributes) {
  const OpDef& linear = GetOp(OpKind::kLinear);
  ASSERT_EQ(linear.operands.size(), 4u);
  EXPECT_EQ(linear.operands[operand::Linear::bias].name, "bias");
  EXPECT_TRUE(linear.operands[operand::Linear::bias].optional);
  EXPECT_FALSE(linear.operands[operand::Linear::w].optional);
  EXPECT_TRUE(linear.attrs.empty());
  const OpDef& rope = GetOp(OpKind::kRope);
  EXPECT_EQ(rope.attrs[attr::Rope::style].enum_name, "RopeStyle");
  EXPECT_EQ(rope.attrs[attr::Rope::scale].type, AttrType::kF64);
  EXPECT_EQ(EnumValues("Act")[static_cast<int>(Act::kGeluTanh)], "gelu_tanh");
}

TEST(Ops, OptionalOperandsComeLast) {
  for (const OpDef& op : AllOps()) {
    bool seen = false;
    for (const OperandDef& o : op.operands) {
      EXPECT_TRUE(o.optional || !seen) << op.name << " " << o.name;
      seen = seen || o.optional;
    }
  }
}

}  // namespace
}  // namespace deepslice
