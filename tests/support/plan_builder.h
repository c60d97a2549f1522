// Builds plans for tests without the compiler: any tables, or a tiny llama.
#ifndef DEEPSLICE_TESTS_SUPPORT_PLAN_BUILDER_H_
#define DEEPSLICE_TESTS_SUPPORT_PLAN_BUILDER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/plan.h"
#include "schema/base/dtype.h"
#include "schema/encoding.h"
#include "schema/ops.h"
#include "schema/plan_generated.h"

namespace deepslice {

// A plan as FlatBuffers objects, so that a test can change any field, and the
// weights file that goes with it.
struct TestPlan {
  fb::PlanT plan;
  std::string weights;

  // Sizes and hashes of the weights file, after a change to it.
  void Seal();
  std::string Bytes() const;
  // Through Plan::FromBytes, label "test".
  absl::StatusOr<Plan> Load() const;

  fb::ProgramT& program() { return *plan.targets[0]->programs[0]; }
  fb::StepT& step(int i) { return *program().steps[i]; }
};

// Adds tables in order; names are those that the last operand lists use.
class PlanBuilder {
 public:
  // One rank, target cpu, an empty step program with dims T 16, R 16, S 3, B 5
  // and the five inputs.
  PlanBuilder();

  void AddDim(const std::string& name, int64_t maximum);
  // An input with a row for each of `rows_dim`; of one dim where columns is 0.
  void AddInput(const std::string& name, DType dtype,
                const std::string& rows_dim, int64_t columns = 0);
  // Of shape {out, in} or {n}: f32, f16, bf16 or i8_row of `values`.
  void AddWeight(const std::string& name, std::vector<int64_t> shape,
                 const std::vector<float>& values,
                 Encoding encoding = Encoding::kF32);
  void AddState(const std::string& name, int64_t kv_heads, int64_t head_dim,
                int64_t block_tokens, Encoding encoding = Encoding::kF32);
  // A step whose result is f32[rows_dim, cols] in a slot of its own. Operands
  // are names of buffers or weights; "" is an absent one.
  void AddOp(OpKind kind, const std::string& result,
             const std::vector<std::string>& operands,
             const std::vector<Attr>& attrs, const std::string& rows_dim,
             int64_t cols, const std::string& state = "");
  void AddAllReduce(const std::string& result, const std::string& operand);
  void AddAllGather(const std::string& result, const std::string& operand,
                    int64_t total);

  // The program's output is `logits`.
  TestPlan Build(const std::string& logits, int64_t vocab);
  fb::PlanT& plan() { return out_.plan; }

 private:
  int32_t AddBuffer(const std::string& name, const std::string& rows_dim,
                    int64_t cols);
  int32_t DimIndex(const std::string& name) const;
  int32_t FindBuffer(const std::string& name) const;
  fb::ProgramT& program() { return out_.program(); }

  TestPlan out_;
  std::map<std::string, int32_t> buffers_, weights_, states_;
  uint32_t num_collectives_ = 0;
};

// What the tiny llama consists of; sizes are never symmetric.
struct TinyLlama {
  static constexpr int64_t kVocab = 131, kHidden = 20, kHeads = 6, kKvHeads = 2,
                           kHeadDim = 10, kMlp = 28, kBlockTokens = 4;
  Encoding matrices = Encoding::kF32;
  Encoding cache = Encoding::kF32;
  // Rank `rank` of `world`: heads, MLP and vocabulary are cut (world 1 or 2),
  // with the all-reduces and the gather that this needs.
  int rank = 0, world = 1;

  TestPlan Build() const;
};

// Writes `ranks` as a plan folder with its manifest.json.
void WritePlanFolder(const std::string& folder,
                     const std::vector<TestPlan>& ranks);

}  // namespace deepslice

#endif  // DEEPSLICE_TESTS_SUPPORT_PLAN_BUILDER_H_
