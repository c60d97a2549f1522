// Rotary positions from config.json, in the spellings of transformers 4
// (rope_theta, rope_scaling) and 5 (rope_parameters).
#ifndef DEEPSLICE_COMPILER_CONFIG_ROPE_H_
#define DEEPSLICE_COMPILER_CONFIG_ROPE_H_

#include "absl/status/statusor.h"
#include "compiler/model.h"
#include "schema/base/json.h"

namespace deepslice {

// Kinds default, linear, llama3 and yarn; dynamic and longrope (and its old
// name su) are Unimplemented by name. Two spellings of one thing that disagree
// are refused. `default_theta` is the family's, for a config that gives none.
absl::StatusOr<RopeAttributes> DescribeRope(const json::Value& config,
                                            double default_theta,
                                            int64_t head_dim,
                                            int64_t max_positions);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CONFIG_ROPE_H_
