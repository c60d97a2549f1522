// What a step of decoding must read from memory, as far as the plan tells: the
// floor under its time.
#ifndef DEEPSLICE_TOOLS_STEP_BYTES_H_
#define DEEPSLICE_TOOLS_STEP_BYTES_H_

#include <cstdint>

#include "runtime/plan.h"

namespace deepslice {

struct StepBytes {
  int64_t weights = 0;  // each once, of an embedding only the tokens' rows
  int64_t cache = 0;    // keys and values of the sequences so far
};

// For one token of each of `batch` sequences that hold `context` tokens.
StepBytes DecodeStepBytes(const Plan& plan, int64_t batch, int64_t context);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_STEP_BYTES_H_
