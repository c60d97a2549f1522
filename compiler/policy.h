// A model family as data: which configs it matches, what its attributes are in
// closed forms over the config's keys, and which tensor makes which weight.
// MODELS.md shows how the files read.
#ifndef DEEPSLICE_COMPILER_POLICY_H_
#define DEEPSLICE_COMPILER_POLICY_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "compiler/weight_slot.h"
#include "schema/base/json.h"

namespace deepslice {

// How several weights lie along the rows of one tensor. Heads have head_dim
// rows each.
enum class RowLayout {
  kThirds,    // one after the other, whatever their sizes
  kPerHead,   // a head of each in turn: [heads, 3, head_dim]
  kPerGroup,  // a group's query heads, its key, its value: [kv_heads, group +
              // 2, head_dim]
  kPerRow,    // a row of each in turn: [heads, head_dim, 3]
};
// Their names in a policy, by value.
absl::Span<const absl::string_view> RowLayoutNames();

// One line of "weights": a tensor's name and the weights that it makes.
struct WeightPattern {
  std::string name;  // "{prefix}layers.{i}.self_attn.q_proj.weight"
  // All that it may be called, `name` first; one, but for {a|b} in the file.
  std::vector<std::string> names;
  std::vector<const WeightSlot*> slots;  // several: by `layout`
  RowLayout layout = RowLayout::kThirds;
  bool layout_by_config = false;  // by the attribute qkv_layout instead
  bool transposed = false;  // stored as [in, out]
  std::string flag;         // "when": "" or a name under "flags"
  std::string not_flag;     // "unless": the same
  // "of": the heads that read it; empty: all. For others it is unused.
  std::vector<std::string> of;
  bool optional = false;    // may be absent, and then is not in the graph
  // "or": the tensor that is read where there is none of `name`; "": none.
  std::string other_name;

  bool per_layer() const { return slots[0]->per_layer; }
  bool is_head() const { return slots[0]->name == "head"; }
};

// A key whose only supported values are these, absent and null aside.
struct RequiredValue {
  std::string key;
  std::vector<json::Value> values;
};

struct Policy {
  std::string name;
  std::vector<std::string> architectures;
  std::vector<std::string> model_types;
  std::vector<std::string> prefixes;  // in order of preference
  // Architecture to the name of its head; empty: all are causal_lm.
  std::vector<std::pair<std::string, std::string>> heads;
  // Ends of names that older files have in place of others.
  std::vector<std::pair<std::string, std::string>> renames;
  json::Value attributes;             // name: expression
  json::Value flags;                  // name: expression of a boolean
  std::vector<RequiredValue> require;
  // Parts of the config that are models of their own elsewhere.
  std::vector<std::string> sections;
  // A tensor of one number whose exponential is logit_scale; "": there is none.
  std::string scale_tensor;
  // A head that differs from the embedding counts, whatever the config says
  // of tying them.
  bool own_head_counts = false;
  std::vector<WeightPattern> weights;
  // Weights of the graph that 16-bit plans keep in 32 bits ("attn_q").
  std::vector<std::string> precise;
  std::vector<std::string> unused;
  // Stacks beside the main one, by name (ModelDescription::towers): attributes
  // that they don't give are the main one's.
  std::string tower;
  std::vector<Policy> towers;
};

// Reads a policy file. InvalidArgument with `file` and the place of what is
// missing, unknown or of the wrong kind.
absl::StatusOr<Policy> ParsePolicy(absl::string_view text,
                                   absl::string_view file);

// The same of a user's file, or of text that is no file, by its own name.
absl::StatusOr<Policy> ParsePolicyFile(absl::string_view text,
                                       absl::string_view name);
// The names of TaskHead by value: "causal_lm", ...
absl::Span<const absl::string_view> TaskHeadNames();

// The families that are built in, sorted by name.
const std::vector<Policy>& AllPolicies();

// The policy of a config.json, by architectures, else by model_type.
// InvalidArgument when the two disagree or both are absent; Unimplemented with
// the nearest name and the list of supported ones when unknown.
absl::StatusOr<const Policy*> MatchPolicy(const json::Value& config);

// The parts of the config (text_config, ...) that the policy of its
// architecture or model_type reads; empty when there is none of it.
std::vector<std::string> SectionsOf(const json::Value& config);

// The names that `text` stands for: "{a|b}.{c|d}" is a.c, a.d, b.c, b.d.
// InvalidArgument for a brace without its pair, for more than 64 names, and for
// marks other than {prefix}, {i} and {h}.
absl::StatusOr<std::vector<std::string>> ExpandChoices(absl::string_view text);

// A pattern of tensor names with its prefix put in: one name, or one for each
// layer, or where it has {h} one for each head of each layer.
class NamePattern {
 public:
  NamePattern(absl::string_view pattern, absl::string_view prefix);
  bool per_head() const { return per_head_; }
  // `layer` and `head` matter only where the pattern has {i} and {h}.
  std::string Name(int64_t layer = 0, int64_t head = 0) const;
  // The layer of a tensor of that name; 0 for a pattern without {i}; -1 when
  // the name doesn't match.
  int64_t Match(absl::string_view tensor) const;

 private:
  // Around {i}, and around {h}, which comes after it.
  std::string head_, middle_, tail_;
  bool per_layer_ = false, per_head_ = false;
};

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_POLICY_H_
