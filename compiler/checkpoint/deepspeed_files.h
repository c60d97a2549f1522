// Which files hold a step of DeepSpeed's training, by their names.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_DEEPSPEED_FILES_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_DEEPSPEED_FILES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace deepslice {

// What a file's name says it is.
struct DeepSpeedName {
  enum Kind {
    kModelStates,      // mp_rank_MM_model_states.pt
    kZeroModelStates,  // zero_pp_rank_D_mp_rank_MM_model_states.pt
    kOptimStates,      // [bf16_]zero_pp_rank_D_mp_rank_MM_optim_states.pt
    kLayer,            // layer_NN[-model_MM]-model_states.pt: of a pipeline
    kExpert,           // layer_L_expert_E_mp_rank_MM_model_states.pt
    kExpertOptim,      // expp_rank_E_mp_rank_MM_optim_states.pt
  };
  Kind kind;
  int mp = 0;  // the model-parallel rank
  int dp = 0;  // the data-parallel one, of the zero kinds
};
absl::optional<DeepSpeedName> ParseDeepSpeedName(absl::string_view name);

// The files of one step, all ranks there; paths.
struct DeepSpeedFiles {
  std::string where;                      // their folder or list, for errors
  std::string folder;                     // that holds them
  std::vector<std::string> model_states;  // by mp rank; or none
  // By mp rank and then by dp rank; or none.
  std::vector<std::vector<std::string>> zero_states, optim_states;
  std::vector<std::string> layers, experts;

  bool empty() const {
    return model_states.empty() && zero_states.empty() &&
           optim_states.empty() && layers.empty() && experts.empty();
  }
  int mp_ranks() const;
};

// Whether `folder` holds the file `latest`, such files, or folders of them, and
// no weights of Hugging Face beside them.
bool LooksLikeDeepSpeed(const std::string& folder);

// The tag that a file such as `latest` names: a folder beside it.
absl::StatusOr<std::string> ReadDeepSpeedTag(const std::string& folder,
                                             absl::string_view file);

// The folder of a step: `folder` itself where it holds such files, else the one
// that `latest` names, else the only one there is, with a note.
absl::StatusOr<std::string> FindDeepSpeedStep(const std::string& folder,
                                              std::vector<std::string>* notes);

// The files of a step's folder, or of a list of them. NotFound names a rank
// that is missing; other names in a folder are skipped.
absl::StatusOr<DeepSpeedFiles> ListDeepSpeedStep(const std::string& folder);
absl::StatusOr<DeepSpeedFiles> ArrangeDeepSpeedFiles(
    const std::vector<std::string>& paths, const std::string& where);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_DEEPSPEED_FILES_H_
