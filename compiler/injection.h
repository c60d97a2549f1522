// DeepSpeed's injection_policy as text: which linears of a block are
// row-parallel.
#ifndef DEEPSLICE_COMPILER_INJECTION_H_
#define DEEPSLICE_COMPILER_INJECTION_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace deepslice {

struct ModelDescription;

// "T5Block=SelfAttention.o,EncDecAttention.o,DenseReluDense.wo": of every
// block, the named linears are row-parallel (their products are summed over the
// ranks), all others column-parallel.
struct Injection {
  std::string block;                  // the class; not in a checkpoint
  std::vector<std::string> suffixes;  // of linears' names; empty: none given

  bool empty() const { return suffixes.empty(); }
  // Whether `tensor` ("h.0.attn.o.weight") is the weight of a linear that is
  // named.
  bool Names(absl::string_view tensor) const;
};

// "" is an empty one. InvalidArgument for text of another form.
absl::StatusOr<Injection> ParseInjection(absl::string_view text);

// Whether the model's row-parallel linears are those that `injection` names, no
// more and no fewer. FailedPrecondition with the first that is not.
absl::Status CheckInjection(const Injection& injection,
                            const ModelDescription& model);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_INJECTION_H_
