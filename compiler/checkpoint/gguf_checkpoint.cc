#include "compiler/checkpoint/gguf_checkpoint.h"

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "compiler/checkpoint/chat_templates.h"
#include "compiler/checkpoint/gguf_architecture.h"
#include "compiler/checkpoint/gguf_config.h"
#include "compiler/checkpoint/gguf_split.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

absl::StatusOr<const GgufArchitecture*> ArchitectureOf(
    const json::Value& metadata) {
  const json::Value* name = metadata.Find("general.architecture");
  if (name == nullptr) {
    return absl::InvalidArgumentError(
        "general.architecture: is absent; a model file names it");
  }
  if (!name->is_string()) {
    return absl::InvalidArgumentError(
        absl::StrCat("general.architecture: found ",
                     json::KindName(name->kind()), "; must be a string"));
  }
  const GgufArchitecture* found = FindGgufArchitecture(name->as_string());
  if (found == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("general.architecture: found ", Quoted(name->as_string()),
                     "; supported: ", GgufArchitectureNames()));
  }
  return found;
}

// Refuses files that are no whole model.
absl::Status CheckWhole(const GgufFile& file) {
  const json::Value* type = file.metadata.Find("general.type");
  if (type != nullptr && type->is_string() && type->as_string() != "model") {
    return absl::UnimplementedError(absl::StrCat("general.type: found ",
                                                 Quoted(type->as_string()),
                                                 "; only \"model\" is read"));
  }
  const json::Value* version =
      file.metadata.Find("general.quantization_version");
  if (version != nullptr && (!version->is_int() || version->as_int() != 2)) {
    // The first version's blocks are laid out in another way.
    for (const TensorInfo& t : file.tensors) {
      if (t.storage == Storage::kPlain) continue;
      return absl::UnimplementedError(absl::StrCat(
          "general.quantization_version: found ", json::Write(*version),
          "; quantised tensors of version 2 are read; convert the model "
          "again"));
    }
  }
  if (file.tensors.empty()) {
    return absl::InvalidArgumentError(
        "holds no tensors (a vocabulary only); a model file is needed");
  }
  return absl::OkStatus();
}

// Gives every tensor its published name and says how its rows are stored.
absl::Status Translate(const GgufArchitecture& architecture,
                       const GgufConfig& config,
                       std::vector<TensorInfo>* tensors) {
  absl::flat_hash_set<std::string> names;
  for (TensorInfo& t : *tensors) {
    PublishedName name = TranslateGgufName(architecture, t.stored_name);
    if (!name.published.empty()) t.name = std::move(name.published);
    if (!names.insert(t.name).second) {
      return absl::InvalidArgumentError(absl::StrCat("tensor ",
                                                     Quoted(t.stored_name),
                                                     ": another tensor "
                                                     "already stands for ",
                                                     Quoted(t.name)));
    }
    t.transposed_from_published =
        name.rows == GgufRows::kTransposed && t.shape.size() == 2;
    if (name.rows != GgufRows::kQueryPairs &&
        name.rows != GgufRows::kKeyPairs) {
      continue;
    }
    const int64_t heads = name.rows == GgufRows::kQueryPairs
                              ? config.query_heads
                              : config.key_heads;
    if (t.rows() % heads != 0 || t.rows() / heads % 2 != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", Quoted(t.stored_name), ": has ", t.rows(),
          " rows; must be ", heads, " heads of an even number of rows"));
    }
    t.rotary_heads = static_cast<int>(heads);
  }
  return absl::OkStatus();
}

absl::Status Fill(GgufFile file, CheckpointParts* parts) {
  DS_RETURN_IF_ERROR(CheckWhole(file));
  DS_ASSIGN_OR_RETURN(const GgufArchitecture* architecture,
                      ArchitectureOf(file.metadata));
  DS_ASSIGN_OR_RETURN(GgufConfig config, MakeGgufConfig(*architecture, file));
  DS_RETURN_IF_ERROR(Translate(*architecture, config, &file.tensors));
  DS_ASSIGN_OR_RETURN(parts->chat_templates, GgufChatTemplates(file.metadata));
  parts->tensors = std::move(file.tensors);
  parts->config = std::move(config.config);
  parts->gguf_metadata = std::move(file.metadata);
  parts->notes = std::move(config.notes);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenGguf(SourceBytes source) {
  DS_ASSIGN_OR_RETURN(GgufFile file, ReadGguf(source.bytes, source.path));
  DS_ASSIGN_OR_RETURN(WholeGguf whole,
                      ReadWholeGguf(std::move(source), std::move(file)));
  CheckpointParts parts;
  // The first part holds the metadata.
  const std::string path = whole.sources[0].path;
  DS_RETURN_IF_ERROR(Annotate(Fill(std::move(whole.file), &parts), path));
  for (std::string& note : parts.notes) note = absl::StrCat(path, ": ", note);
  parts.sources = std::move(whole.sources);
  return MakeCheckpoint(std::move(parts));
}

}  // namespace deepslice
