// What lies beside the weights: configs, tokenizer and chat template.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_SIDE_FILES_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_SIDE_FILES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/checkpoint/loaded_checkpoint.h"

namespace deepslice {

// Fills config (required), generation_config, tokenizer_config,
// special_tokens_map, tokenizer_json_path and chat_templates from `folder`. A
// file that is present but damaged is an error.
absl::Status ReadSideFiles(const std::string& folder, CheckpointParts* parts);

// All of these but config.
absl::Status ReadSideFilesButConfig(const std::string& folder,
                                    CheckpointParts* parts);

// The JSON object in `path`, as config.json is read; NotFound when there is no
// such file.
absl::StatusOr<json::Value> ReadConfigObject(const std::string& path);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_SIDE_FILES_H_
