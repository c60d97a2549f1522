// A plan with a GPU target, made without the compiler: for what reads plans,
// not for what runs them.
#ifndef DEEPSLICE_TESTS_SUPPORT_GPU_PLAN_BUILDER_H_
#define DEEPSLICE_TESTS_SUPPORT_GPU_PLAN_BUILDER_H_

#include "tests/support/plan_builder.h"

namespace deepslice {

// The tiny llama's weights and state, its CPU target, and target "sm_90a" with
// programs "step" and "decode_2" that hold every kind of step. The group has
// one rank, which is enough for collectives to be there.
struct TinyGpuPlan {
  // Steps of "step".
  enum : int {
    kEmbed,
    kNorm,
    kQkv,        // gemm
    kAppend,     // writes the state, too
    kAttention,  // reads tiles
    kAttnOut,    // gemm that adds the embedding, in its place
    kSum,        // all-reduce
    kFinalNorm,  // gathers rows
    kHead,       // gemm
    kGather,     // all-gather
    kUngather,
    kSample,  // with scratch and sync words
    kBroadcast
  };

  TestPlan Build() const;

  static fb::TargetT& Target(TestPlan& p) { return *p.plan.targets[1]; }
  static fb::ProgramT& Step(TestPlan& p) { return *Target(p).programs[0]; }
  static fb::ProgramT& Decode(TestPlan& p) { return *Target(p).programs[1]; }
};

}  // namespace deepslice

#endif  // DEEPSLICE_TESTS_SUPPORT_GPU_PLAN_BUILDER_H_
