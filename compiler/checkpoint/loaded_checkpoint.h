// The one implementation of Checkpoint: what a container's reader found, as
// plain parts. Internal to this folder.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_LOADED_CHECKPOINT_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_LOADED_CHECKPOINT_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/checkpoint/checkpoint.h"
#include "schema/base/file.h"

namespace deepslice {

// A file's bytes, and the mapping that keeps them (empty when the caller does).
struct SourceBytes {
  std::string path;
  absl::string_view bytes;
  MappedFile mapping;
};

// Maps `path`.
absl::StatusOr<SourceBytes> MapSource(const std::string& path);

struct CheckpointParts {
  std::vector<TensorInfo> tensors;  // in any order, names unique
  std::vector<SourceBytes> sources;
  json::Value config;
  std::string config_place;  // see Checkpoint
  json::Value generation_config;
  json::Value tokenizer_config;
  std::string tokenizer_json_path;
  json::Value gguf_metadata;
  json::Value special_tokens_map;
  ChatTemplates chat_templates;
  std::map<std::string, json::Value, std::less<>> side_files;  // those present
  int64_t padded_vocab = 0;
  int training_mp_size = 0;
  std::vector<std::string> notes;
};

std::unique_ptr<Checkpoint> MakeCheckpoint(CheckpointParts parts);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_LOADED_CHECKPOINT_H_
