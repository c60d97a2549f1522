// Builds a stack of layers and what stands before it, for all families: it
// reads attributes, never a family's name. Internal to ImportGraph.
#ifndef DEEPSLICE_COMPILER_STACK_BUILDER_H_
#define DEEPSLICE_COMPILER_STACK_BUILDER_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "compiler/model.h"
#include "ir/graph.h"

namespace deepslice {

// The graph's parameters that a stack reads; those that its attributes don't
// ask for may be nullptr.
struct StackInputs {
  Value *ids = nullptr, *positions = nullptr, *slots = nullptr,
        *blocks = nullptr, *horizons = nullptr, *types = nullptr;
  // Of a decoder beside an encoder: what that made, and where its tokens are.
  Value *source = nullptr, *source_positions = nullptr, *source_slots = nullptr,
        *sources = nullptr;
};

class StackBuilder {
 public:
  // All must outlive it. Names of weights and values begin with `prefix`, but
  // for that of the embedding, which stacks share.
  StackBuilder(const ModelDescription& model,
               const std::vector<ModelWeight>& weights, std::string prefix,
               Graph* graph);

  // InternalError when a policy has a pattern too few for its attributes.
  absl::Status CheckComplete() const;
  // Whether its attention has no cache: sequences are whole in a step.
  bool is_encoder() const;

  void SetInputs(const StackInputs& inputs) { in_ = inputs; }
  Value* Embedding();
  // Of a tower of images: `pixels` [P, patch], zeros for a class token, whose
  // position is 0.
  Value* PatchEmbedding(Value* pixels);
  Value* Layers(Value* x);
  // x itself, when the family has none.
  Value* FinalNorm(Value* x, const std::string& result);

  // The pieces that heads are made of.
  bool Has(const std::string& name) const {
    return by_name_.contains(prefix_ + name);
  }
  Value* Norm(Value* x, const std::string& weight, const std::string& result);
  Value* Product(Value* x, const std::string& weight,
                 const std::string& result);
  // With its bias, where there is one.
  Value* Linear(Value* x, const std::string& weight, const std::string& result);
  Value* Activate(Value* x, Act act, const std::string& result);
  Value* Scaled(Value* x, double factor, const std::string& result);
  // Rows of x, `size` wide, made as long as 1.
  Value* UnitRows(Value* x, int64_t size, const std::string& result);

 private:
  bool is_parallel() const { return m_.residual == ResidualKind::kParallel; }
  bool norms_before() const {
    return m_.norm_placement == NormPlacement::kPre ||
           m_.norm_placement == NormPlacement::kSandwich;
  }
  bool norms_after() const {
    return m_.norm_placement == NormPlacement::kBranch ||
           m_.norm_placement == NormPlacement::kSandwich;
  }

  // Weights of a layer that its attention reads before the output projection.
  std::vector<absl::string_view> AttentionSlots() const;
  Value* Add(OpKind op, std::vector<Operand> operands, std::vector<Attr> attrs,
             const std::string& result, State* state = nullptr);
  // One weight for all its uses.
  Weight* Get(const std::string& name);
  Weight* Ones(const std::string& name, int64_t n);
  // x itself, when there is no bias.
  Value* Biased(Value* x, const std::string& weight, const std::string& result);
  // The tables that layers share.
  void AddTables();
  Weight* RopeTable(
      absl::string_view name, const RopeAttributes& rope,
      const std::vector<std::pair<std::string, double>>& arguments);
  Value* Rotate(Value* x, int64_t heads, bool is_local,
                const std::string& result);
  // Queries or keys, normed as the family does.
  Value* HeadsNorm(Value* x, int64_t heads, const std::string& weight,
                   const std::string& result);
  Value* LatentNorm(Value* x, const std::string& weight,
                    const std::string& result);
  // Latent attention, with the projection of keys moved to the queries and that
  // of values to what is attended: only the latent and the rotated key are
  // kept.
  Value* LatentAttended(const std::string& layer, const LayerAttributes& a,
                        Value* normed);
  // What attention makes of its normed input, before the output projection.
  Value* Attended(const std::string& layer, const LayerAttributes& a,
                  Value* normed);
  // The same over the keys of the encoder.
  Value* CrossAttended(const std::string& layer, const LayerAttributes& a,
                       Value* normed);
  // What the MLP makes of its normed input, before the output projection.
  Value* Activated(const std::string& layer, Value* normed);
  Value* Layer(int64_t i, Value* x);
  // `branch` is "attn", "cross" or "mlp".
  Value* BranchInput(const std::string& layer, const std::string& branch,
                     Value* x);
  Value* AddBranch(const std::string& layer, const std::string& branch,
                   Value* x, Value* out, const std::string& result);
  // x plus both branches. Their products are added before anything else is, so
  // that one sum over the ranks serves both.
  Value* Parallel(const std::string& layer, const LayerAttributes& a, Value* x);

  const ModelDescription& m_;
  const std::string prefix_;
  Graph& g_;
  StackInputs in_;
  absl::flat_hash_map<std::string, const ModelWeight*> by_name_;
  Weight *rope_freqs_ = nullptr, *long_freqs_ = nullptr,
         *local_freqs_ = nullptr, *slopes_ = nullptr;
};

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_STACK_BUILDER_H_
