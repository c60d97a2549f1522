// Plans that the fuzzing of plans starts from. All have the same weights file.
#ifndef DEEPSLICE_TESTS_FUZZ_PLAN_SEEDS_H_
#define DEEPSLICE_TESTS_FUZZ_PLAN_SEEDS_H_

#include <string>
#include <vector>

#include "tests/support/plan_builder.h"

namespace deepslice {

struct PlanSeed {
  std::string name;
  std::string bytes;
};

// Of texts, of images, and beside a decoder (encoder_plan_seeds.cc).
TestPlan TinyTextEncoder();
TestPlan TinyImageEncoder();
TestPlan TinyEncoderDecoder();

// Tiny models with every encoding of weights and caches, one of two ranks, one
// with programs for a GPU, and encoders.
std::vector<PlanSeed> PlanSeeds();

// Of every seed: as long as the longest one's.
const std::string& SeedWeights();

}  // namespace deepslice

#endif  // DEEPSLICE_TESTS_FUZZ_PLAN_SEEDS_H_
