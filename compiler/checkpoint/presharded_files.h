// Which files hold the ranks of a model that DeepSpeed cut for inference.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_PRESHARDED_FILES_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_PRESHARDED_FILES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schema/base/json.h"

namespace deepslice {

struct PreshardedFiles {
  std::string folder;                              // that holds them
  std::vector<std::string> whole;                  // what no rank has a part of
  std::vector<std::vector<std::string>> of_ranks;  // by rank; as many for each
};

// The files that `list`, read from `path`, names. Their ranks are those of
// their names, tp_RR_MM.pt, else go by their order: all ranks in turn. Appends
// to `notes` what a user should know; errors begin with the list's path.
absl::StatusOr<PreshardedFiles> FindPreshardedFiles(
    const json::Value& list, const std::string& path,
    std::vector<std::string>* notes);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_PRESHARDED_FILES_H_
