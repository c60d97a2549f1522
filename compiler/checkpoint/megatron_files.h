// Which files hold the ranks of a Megatron checkpoint.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_MEGATRON_FILES_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_MEGATRON_FILES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace deepslice {

// A rank's place: mp_rank_TT or mp_rank_TT_SSS.
struct MegatronRank {
  int tensor = 0;  // among those that share every layer
  int stage = 0;   // of the pipeline
};

// The file of each rank, by stage and then by tensor rank; all are there.
struct MegatronFiles {
  std::string where;  // their folder or list, for errors
  int tensor_ranks = 0, stages = 0;
  std::vector<std::string> paths;  // tensor_ranks * stages
  std::vector<std::string> notes;

  const std::string& path(int stage, int tensor) const {
    return paths[stage * tensor_ranks + tensor];
  }
};

// The rank that a folder's name gives, if it gives one. Unimplemented for a
// third number (expert parallel).
absl::StatusOr<absl::optional<MegatronRank>> ParseMegatronRank(
    absl::string_view name);

// Whether `path` is the folder mp_rank_TT of a rank, or a file in such a one.
bool IsMegatronRank(const std::string& path);

// Whether `path` is named as the file of a rank in its own folder.
bool IsMegatronRankFile(const std::string& path);

// The file that says which iteration was the last.
inline constexpr absl::string_view kMegatronTracker =
    "latest_checkpointed_iteration.txt";

// The file of the rank whose folder it is by its name; empty: of none.
std::string MegatronRankFileIn(const std::string& folder);

// Whether `folder` holds Megatron's tracker, its iterations or its ranks, and
// no weights of Hugging Face.
bool LooksLikeMegatron(const std::string& folder);

// The ranks in `folder`, which LooksLikeMegatron: of the iteration that the
// tracker names, else of the only one. NotFound names a rank that is missing.
absl::StatusOr<MegatronFiles> FindMegatronFiles(const std::string& folder);

// The ranks of a list: by the names of the files' folders where all have one
// such, else by their order. A path may be that of a rank's folder. `where`
// stands before errors.
absl::StatusOr<MegatronFiles> ArrangeMegatronFiles(
    const std::vector<std::string>& paths, const std::string& where);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_MEGATRON_FILES_H_
