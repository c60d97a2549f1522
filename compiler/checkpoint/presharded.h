// Models that DeepSpeed cut for inference (save_mp_checkpoint_path): non-tp.pt,
// tp_RR_MM.pt and the ds_inference_config.json that lists them.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_PRESHARDED_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_PRESHARDED_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/checkpoint/checkpoint.h"
#include "schema/base/json.h"

namespace deepslice {

// Whether the list, read from a JSON file, is of such a model: `checkpoints`
// is an object.
bool LooksLikePreshardedList(const json::Value& list);

// Whether `folder` holds such a list by its usual name, and no weights of
// Hugging Face.
bool LooksLikePresharded(const std::string& folder);

// The whole tensors under their published names; `path` is the list's. Its
// config.json is beside the list or the files. Files that are not in base_dir
// are looked for beside the list, which a note says. Weights in 8 bits are
// Unimplemented.
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenPresharded(
    const json::Value& list, const std::string& path,
    std::vector<std::string> notes);

// The list's usual name.
inline constexpr absl::string_view kPreshardedList = "ds_inference_config.json";

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_PRESHARDED_H_
