#include "compiler/checkpoint/loaded_checkpoint.h"

#include <algorithm>
#include <utility>

#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

class LoadedCheckpoint final : public Checkpoint {
 public:
  explicit LoadedCheckpoint(CheckpointParts parts) : parts_(std::move(parts)) {
    std::sort(parts_.tensors.begin(), parts_.tensors.end(),
              [](const TensorInfo& a, const TensorInfo& b) {
                return a.name < b.name;
              });
    for (const SourceBytes& s : parts_.sources) {
      files_.push_back({s.path, s.bytes.size()});
    }
  }

  absl::Span<const TensorInfo> tensors() const override {
    return parts_.tensors;
  }
  const TensorInfo* Find(absl::string_view name) const override {
    const auto it = std::lower_bound(
        parts_.tensors.begin(), parts_.tensors.end(), name,
        [](const TensorInfo& t, absl::string_view n) { return t.name < n; });
    return it != parts_.tensors.end() && it->name == name ? &*it : nullptr;
  }
  const std::vector<SourceFile>& files() const override { return files_; }
  absl::string_view file_bytes(int i) const override {
    return parts_.sources.at(i).bytes;
  }
  const json::Value& config() const override { return parts_.config; }
  const std::string& config_place() const override {
    return parts_.config_place;
  }
  const json::Value& generation_config() const override {
    return parts_.generation_config;
  }
  const json::Value& tokenizer_config() const override {
    return parts_.tokenizer_config;
  }
  const std::string& tokenizer_json_path() const override {
    return parts_.tokenizer_json_path;
  }
  const json::Value& gguf_metadata() const override {
    return parts_.gguf_metadata;
  }
  const ChatTemplates& chat_templates() const override {
    return parts_.chat_templates;
  }
  const json::Value& special_tokens_map() const override {
    return parts_.special_tokens_map;
  }
  const json::Value& side_file(absl::string_view name) const override {
    static const auto* const absent = new json::Value();
    const auto it = parts_.side_files.find(std::string(name));
    return it == parts_.side_files.end() ? *absent : it->second;
  }
  int64_t padded_vocab() const override { return parts_.padded_vocab; }
  int training_mp_size() const override { return parts_.training_mp_size; }
  const std::vector<std::string>& notes() const override {
    return parts_.notes;
  }

 private:
  CheckpointParts parts_;
  std::vector<SourceFile> files_;
};

}  // namespace

absl::StatusOr<SourceBytes> MapSource(const std::string& path) {
  DS_ASSIGN_OR_RETURN(MappedFile mapping, MappedFile::Open(path));
  const absl::string_view bytes = mapping.bytes();
  return SourceBytes{path, bytes, std::move(mapping)};
}

std::unique_ptr<Checkpoint> MakeCheckpoint(CheckpointParts parts) {
  return std::make_unique<LoadedCheckpoint>(std::move(parts));
}

}  // namespace deepslice
