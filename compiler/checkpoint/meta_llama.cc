#include "compiler/checkpoint/meta_llama.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "compiler/checkpoint/loaded_checkpoint.h"
#include "compiler/checkpoint/meta_merge.h"
#include "compiler/checkpoint/meta_params.h"
#include "compiler/checkpoint/side_files.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/file.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

constexpr absl::string_view kParams = "params.json";

// NN of consolidated.NN.pth; -1 for other names.
int RankOf(absl::string_view name) {
  int rank = -1;
  if (!absl::ConsumePrefix(&name, "consolidated.") ||
      !absl::ConsumeSuffix(&name, ".pth") || name.empty() || name.size() > 5 ||
      !std::all_of(name.begin(), name.end(), absl::ascii_isdigit) ||
      !absl::SimpleAtoi(name, &rank)) {
    return -1;
  }
  return rank;
}

// The ranks' files in order; all are there.
absl::StatusOr<std::vector<std::string>> FindRanks(const std::string& folder) {
  DS_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListDirectory(folder));
  std::map<int, std::string> by_rank;
  for (const std::string& name : names) {
    const int rank = RankOf(name);
    if (rank < 0) continue;
    const auto added = by_rank.insert({rank, name});
    if (!added.second) {
      return absl::InvalidArgumentError(
          absl::StrCat(folder, ": ", Quoted(added.first->second), " and ",
                       Quoted(name), " are the same rank; keep one"));
    }
  }
  std::vector<std::string> out;
  for (const auto& [rank, name] : by_rank) {
    if (rank != static_cast<int>(out.size())) {
      return absl::NotFoundError(absl::StrFormat(
          "%s: consolidated.%02d.pth is missing: of %d ranks or more %d are "
          "there; copy all of them",
          folder, out.size(), by_rank.rbegin()->first + 1, by_rank.size()));
    }
    out.push_back(JoinPath(folder, name));
  }
  return out;
}

}  // namespace

bool LooksLikeMetaLlama(const std::string& folder) {
  if (!FileExists(JoinPath(folder, kParams))) return false;
  if (FileExists(JoinPath(folder, "config.json"))) {
    for (const char* weights :
         {"model.safetensors", "model.safetensors.index.json",
          "pytorch_model.bin", "pytorch_model.bin.index.json"}) {
      if (FileExists(JoinPath(folder, weights))) return false;
    }
  }
  const auto names = ListDirectory(folder);
  return names.ok() &&
         std::any_of(names->begin(), names->end(),
                     [](const std::string& n) { return RankOf(n) >= 0; });
}

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenMetaLlama(
    const std::string& folder) {
  const std::string path = JoinPath(folder, kParams);
  DS_ASSIGN_OR_RETURN(const json::Value params, ReadMetaParams(path));
  const absl::StatusOr<MetaParams> described = DescribeMetaParams(params);
  if (!described.ok()) return Annotate(described.status(), path);
  DS_ASSIGN_OR_RETURN(const std::vector<std::string> paths, FindRanks(folder));
  if (described->ranks > 0 &&
      described->ranks != static_cast<int64_t>(paths.size())) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: model_parallel_size: holds %d, but the folder has %d files; give "
        "all of them and no others",
        path, described->ranks, paths.size()));
  }
  CheckpointParts parts;
  parts.training_mp_size = static_cast<int>(paths.size());
  DS_RETURN_IF_ERROR(ReadSideFilesButConfig(folder, &parts));
  // Meta's first downloads have it beside the folders of all sizes.
  const std::string above = JoinPath(JoinPath(folder, ".."), "tokenizer.model");
  if (parts.tokenizer_json_path.empty() && FileExists(above)) {
    parts.tokenizer_json_path = above;
    parts.notes.push_back(absl::StrCat(
        folder, ": has no tokenizer; that of the folder above ", "is read"));
  }
  std::vector<std::string> guesses;
  auto config = MetaConfig(params, *described, &guesses);
  if (!config.ok()) return Annotate(config.status(), path);
  parts.config = *std::move(config);
  parts.config_place = path;
  for (const std::string& guess : guesses) {
    parts.notes.push_back(absl::StrCat(path, ": ", guess));
  }
  DS_ASSIGN_OR_RETURN(const MetaShape shape,
                      MergeMetaRanks(*described, paths, &parts));
  if (described->inner_size > 0 && shape.inner_size != described->inner_size) {
    parts.notes.push_back(absl::StrFormat(
        "%s: makes the feed-forward %d wide, but the tensors are %d wide, "
        "which counts",
        path, described->inner_size, shape.inner_size));
  }
  parts.config.Set("intermediate_size", shape.inner_size);
  parts.config.Set("vocab_size", shape.vocab_size);
  parts.config.Set("tie_word_embeddings", !shape.has_head);
  return MakeCheckpoint(std::move(parts));
}

absl::Status RefuseMetaWithoutParams(const std::string& folder) {
  if (FileExists(JoinPath(folder, kParams)) ||
      FileExists(JoinPath(folder, "config.json"))) {
    return absl::OkStatus();
  }
  const auto names = ListDirectory(folder);
  if (!names.ok()) return absl::OkStatus();
  for (const std::string& name : *names) {
    if (RankOf(name) < 0) continue;
    return absl::NotFoundError(absl::StrCat(
        folder, ": holds ", Quoted(name), ", but no ", kParams,
        ", which says what Meta's weights are; copy it from where they came"));
  }
  return absl::OkStatus();
}

bool LooksLikeMetaLlamaFile(const std::string& path) {
  return (Basename(path) == kParams || RankOf(Basename(path)) >= 0) &&
         FileExists(path) && LooksLikeMetaLlama(Dirname(path));
}

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenMetaLlamaFile(
    const std::string& path) {
  const std::string folder = Dirname(path);
  if (Basename(path) != kParams) {
    DS_ASSIGN_OR_RETURN(const std::vector<std::string> ranks,
                        FindRanks(folder));
    if (ranks.size() > 1) {
      return absl::InvalidArgumentError(
          absl::StrFormat("%s: is one of %d ranks of a model; give its folder",
                          path, ranks.size()));
    }
  }
  return OpenMetaLlama(folder);
}

}  // namespace deepslice
