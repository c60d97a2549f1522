// What a checkpoint holds, in the product's own words: sizes, attributes of the
// block, and where every weight of the graph comes from.
#ifndef DEEPSLICE_COMPILER_MODEL_H_
#define DEEPSLICE_COMPILER_MODEL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/checkpoint/checkpoint.h"
#include "ir/graph.h"
#include "schema/base/dtype.h"
#include "schema/base/json.h"
#include "schema/ops.h"
#include "schema/plan_generated.h"
#include "schema/roles.h"

namespace deepslice {

enum class PositionKind { kRope, kLearned, kAlibi, kNone };
// How a layer's two branches meet: x + attn(x), then the same with the MLP, or
// x + attn(x) + mlp(x).
enum class ResidualKind { kSequential, kParallel };
// Where norms stand: before a branch; after its addition; before it and after
// it, before its addition; only there.
enum class NormPlacement { kPre, kPost, kSandwich, kBranch };
// Norm of queries and keys before the rotation: of each head with one weight
// for all heads, or with one for each, or of all heads together.
enum class QkNorm { kNone, kHeadRms, kHeadLayer, kHeadLayerShared, kRms };

// What stands on the last layer: the next token, nothing, the token of every
// place, classes of a text or of each of its tokens, where an answer begins and
// ends, or the projections of CLIP's two towers.
enum class TaskHead {
  kCausalLm,
  kNone,
  kMaskedLm,
  kSequenceClasses,
  kTokenClasses,
  kQuestionAnswering,
  kFeatures
};

// Rotary positions: the formula of passes/formula.h that makes the table of
// frequencies, and how the table is applied.
struct RopeAttributes {
  std::string formula;
  std::vector<std::pair<std::string, double>> arguments;
  RopeStyle style = RopeStyle::kHalf;
  int64_t rotary_dim = 0;  // even, at most head_dim
  double scale = 1;        // of cos and sin: yarn's attention factor
  double score_scale = 1;  // of attention scores, in families that do so:
                           // yarn's mscale_all_dim
  // longrope: a sequence of more than long_from positions takes the formula
  // with long_arguments instead, at all of them. 0: one table for all lengths.
  // Dynamic NTK: with ntk_factor > 0, beyond long_from the base grows.
  int64_t long_from = 0;
  double ntk_factor = 0;
  std::vector<std::pair<std::string, double>> long_arguments;
};

// DeepSeek-V2's latent attention: keys and values of all heads are made of one
// latent row a token, and a rotated key that all heads share. Queries have
// nope_dim + rope_dim elements a head, of which the last rope_dim are rotated.
struct LatentSizes {
  int64_t query_rank = 0;  // queries are made of a latent too; 0: they are not
  int64_t rank = 0;
  int64_t nope_dim = 0, rope_dim = 0, value_dim = 0;
  double norm_eps = 0;  // of the latents' norms
};

// What differs from layer to layer.
struct LayerAttributes {
  int64_t window = 0;  // 0: all earlier tokens are seen
  double attention_scale = 1;
};

// A weight of the graph: name without @, logical shape, recipe.
struct ModelWeight {
  std::string name;  // "layers.3.attn_q.bias"
  Role role = Role::kNorm;
  std::vector<int64_t> shape;  // [out, in] or [n]
  WeightSource source;
};

// What became of one tensor of the checkpoint.
struct TensorUse {
  enum class Kind { kUsed, kTied, kUnused };
  std::string tensor;
  Kind kind = Kind::kUsed;
  std::vector<std::string> weights;  // of the graph; kTied: those it equals
  std::string rule;                  // kUnused: the policy's pattern
};

// Every tensor of the checkpoint, once, sorted by name.
struct Coverage {
  std::vector<TensorUse> tensors;
};
// [{"tensor", "use": "weight" | "tied" | "unused", "weights" or "rule"}].
json::Value CoverageJson(const Coverage& coverage);

struct ModelDescription {
  std::string family;        // the policy's name
  std::string architecture;  // as published: "LlamaForCausalLM"

  int64_t hidden_size = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;  // divides heads
  int64_t head_dim = 0;
  int64_t inner_size = 0;  // of the MLP
  int64_t vocab_size = 0;  // rows of the embedding
  int64_t max_positions = 0;

  int64_t embed_dim = 0;  // of the embedding's rows: hidden_size, mostly
  // Then head_dim is latent->rope_dim, and kv_heads is heads.
  std::optional<LatentSizes> latent;

  NormKind norm = NormKind::kRms;
  double norm_eps = 0;
  double norm_offset = 0;   // added to every norm weight
  bool norm_affine = true;  // false: norms have no weights
  NormPlacement norm_placement = NormPlacement::kPre;
  bool final_norm = true;
  bool embed_norm = false;
  ResidualKind residual = ResidualKind::kSequential;
  QkNorm qk_norm = QkNorm::kNone;
  double embed_scale = 1;     // of the embedding's rows
  double residual_scale = 1;  // of each branch before it is added
  double logit_scale = 1;
  double logit_softcap = 0;  // 0: none
  double attention_softcap = 0;
  Alibi alibi = Alibi::kPlain;  // kAlibi only
  Act activation = Act::kSilu;
  bool gated = false;
  PositionKind positions = PositionKind::kRope;
  RopeAttributes rope;  // kRope only
  // Of the layers that have a window; absent: as the others.
  std::optional<RopeAttributes> local_rope;
  bool tied_head = false;
  std::vector<LayerAttributes> layer;  // one per layer

  TaskHead head = TaskHead::kCausalLm;
  bool causal = true;  // false: every token sees its whole sequence
  int64_t types = 0;   // token types; 0: the family has none
  // > 0: no token that is seen may be this one: positions skip it (RoBERTa).
  int64_t pad_id = -1;
  // Biases of attention by relative position (kernels' rel_bias); 0: none.
  int64_t rel_buckets = 0, rel_max_distance = 0;
  // Of a tower of images: pixels of a side, of a patch's side, and channels;
  // max_positions is the patches and a class token. 0: it reads tokens.
  int64_t image_size = 0, patch_size = 0, channels = 0;
  int64_t projection_size = 0;  // of kFeatures
  Act pooler_activation = Act::kTanh;
  Act mlm_activation = Act::kGelu;
  std::vector<std::string> labels;  // of classes, by their index
  fb::Scores scores = fb::Scores::Softmax;

  // The checkpoint's own 16- or 32-bit type: of most of its elements; bf16 when
  // any tensor is stored as quantised blocks.
  DType dtype = DType::kF32;

  std::vector<ModelWeight> weights;
  Coverage coverage;
  // Stacks beside the main one, whose weights are among `weights` under names
  // that begin with `tower` and a point: the encoder of an encoder-decoder
  // ("encoder"), CLIP's tower of images ("vision").
  std::string tower;
  std::vector<ModelDescription> towers;
  // Things a user should know, in order.
  std::vector<std::string> notes;

  // Policy::precise.
  std::vector<std::string> precise;
  // Of a user's or an automatic policy: its text, and what the latter decided.
  std::string policy_text;
  std::vector<std::string> decisions;

  // nullptr when there is none of that name.
  const ModelWeight* FindWeight(absl::string_view name) const;
};

struct DescribeOptions {
  // The text of a policy that is taken whatever the config's architecture, and
  // the name that errors call it by; empty: the one that matches, else an
  // automatic one (auto_policy.h).
  std::string policy_text, policy_name;
  // As of ParseInjection; empty: none.
  std::string injection;
  // A head that is absent is the embedding although the config says otherwise.
  bool assume_tied = false;
  // A head that differs from the embedding is used although the config says
  // they are one.
  bool trust_lm_head = false;
};

// Matches a policy and describes the model. Reads no tensor but a head that has
// to be compared with the embedding. Errors name the config's key or the
// tensors; Unimplemented for what is valid and not supported.
absl::StatusOr<ModelDescription> DescribeModel(
    const Checkpoint& checkpoint, const DescribeOptions& options = {});

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_MODEL_H_
