// Rotary positions from config.json, in the spellings of transformers 4
// (rope_theta, rope_scaling) and 5 (rope_parameters).
#ifndef DEEPSLICE_COMPILER_CONFIG_ROPE_H_
#define DEEPSLICE_COMPILER_CONFIG_ROPE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/model.h"
#include "schema/base/json.h"

namespace deepslice {

// What a family takes when its config gives no value.
struct RopeDefaults {
  double theta = 10000;
  double rotary_factor = 1;               // part of the head that turns
  std::string factor_place = "head_dim";  // the config's key for that part
  int64_t rotary_dim = 0;          // that part in elements; 0: by the factor
  int64_t original_positions = 0;  // before scaling; 0: max_positions
  // Layers with a window have a set of their own, with this base; 0: one set
  // for all layers.
  double local_theta = 0;
};

struct RopeSets {
  RopeAttributes all;                   // of layers without a window
  std::optional<RopeAttributes> local;  // of those with one; absent: the same
};

// Kinds default, linear, dynamic, llama3, yarn and longrope (old name su);
// others are Unimplemented by name. Two spellings of one thing that disagree
// are refused, and sets for each kind of layer in a family that has one set.
absl::StatusOr<RopeSets> DescribeRope(const json::Value& config,
                                      const RopeDefaults& defaults,
                                      int64_t head_dim, int64_t max_positions);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CONFIG_ROPE_H_
