// ds_generate_params, and the choice that it stands for.
#ifndef DEEPSLICE_RUNTIME_API_GENERATE_PARAMS_H_
#define DEEPSLICE_RUNTIME_API_GENERATE_PARAMS_H_

#include <vector>

#include "absl/status/status.h"
#include "runtime/api/answers.h"
#include "runtime/api/deepslice.h"
#include "runtime/generation_choice.h"

namespace deepslice {

ds_generate_params DefaultGenerateParams();

// Fills all of `question` but its ids from what a caller gave, or nullptr.
// InvalidArgument for structs, lists and texts that can't be read.
absl::Status ReadGenerateParams(const ds_generate_params* given,
                                Question* question);

// The way back, for C++ callers: params() says what a choice says.
class GenerateParams {
 public:
  // `choice` must outlive it.
  explicit GenerateParams(const GenerationChoice& choice);
  ds_generate_params& params() { return params_; }

 private:
  ds_generate_params params_;
  std::vector<ds_text> stop_;
  std::vector<ds_logit_bias> bias_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_API_GENERATE_PARAMS_H_
