#include "compiler/checkpoint/deepspeed.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "compiler/checkpoint/deepspeed_shard.h"
#include "compiler/checkpoint/deepspeed_zero.h"
#include "compiler/checkpoint/loaded_checkpoint.h"
#include "compiler/checkpoint/megatron.h"
#include "compiler/checkpoint/moe_experts.h"
#include "compiler/checkpoint/pipeline_layers.h"
#include "compiler/checkpoint/side_files.h"
#include "compiler/checkpoint/stored_elements.h"
#include "compiler/checkpoint/torch_weights.h"
#include "compiler/checkpoint/universal.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "runtime/text/tokenizer_files.h"
#include "schema/base/file.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// The files of one step as whole tensors.
class Opener {
 public:
  Opener(const DeepSpeedFiles& files, const std::vector<std::string>& folders,
         const OpenOptions& options, std::vector<std::string> notes)
      : files_(files),
        side_folder_(FindSideFolder(folders)),
        options_(options) {
    parts_.notes = std::move(notes);
  }

  absl::StatusOr<std::unique_ptr<Checkpoint>> Open() {
    DS_RETURN_IF_ERROR(RefuseOthers());
    DS_RETURN_IF_ERROR(ReadModelStates());
    DS_RETURN_IF_ERROR(CheckSteps());
    DS_RETURN_IF_ERROR(AddExperts());
    if (!has_weights_) DS_RETURN_IF_ERROR(JoinPartitions());
    DS_RETURN_IF_ERROR(ReadSideFilesButConfig(side_folder_, &parts_));
    const std::string config = JoinPath(side_folder_, "config.json");
    if (FileExists(config)) {
      DS_ASSIGN_OR_RETURN(parts_.config, ReadConfigObject(config));
      parts_.config_place = config;
    }
    return HasMegatronNames() ? OpenAsMegatron() : OpenAsHuggingFace();
  }

 private:
  absl::Status RefuseOthers() const {
    if (!files_.layers.empty()) {
      return absl::UnimplementedError(absl::StrCat(
          files_.where, ": holds ", files_.layers.size(),
          " files of pipeline layers, such as ",
          Quoted(Basename(files_.layers[0])), ", which are not read"));
    }
    if (files_.mp_ranks() > 0) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat(
        files_.where,
        ": has no weights; a step of DeepSpeed's training has "
        "mp_rank_00_model_states.pt, or zero_pp_rank_0_mp_rank_00_model_"
        "states.pt and optim_states.pt: copy its folder"));
  }

  absl::StatusOr<DeepSpeedShard> ReadStates(const std::string& path) {
    DS_ASSIGN_OR_RETURN(SourceBytes source, MapSource(path));
    DS_ASSIGN_OR_RETURN(
        DeepSpeedShard shard,
        ReadDeepSpeedShard(source, static_cast<int>(parts_.sources.size())));
    parts_.sources.push_back(std::move(source));
    return shard;
  }

  // Of every rank: from mp_rank files, else from those of ZeRO 3.
  absl::Status ReadModelStates() {
    for (const std::string& path : files_.model_states) {
      DS_ASSIGN_OR_RETURN(DeepSpeedShard shard, ReadStates(path));
      states_.emplace_back();
      states_.back().push_back(std::move(shard));
      // Before files are read that are not all there, or too many.
      DS_RETURN_IF_ERROR(CheckModelRanks(files_.model_states.size()));
    }
    has_weights_ =
        !states_.empty() &&
        std::all_of(states_.begin(), states_.end(),
                    [](const auto& s) { return s[0].has_weights(); });
    if (has_weights_ || files_.zero_states.empty()) return absl::OkStatus();
    states_.clear();
    for (const auto& of_rank : files_.zero_states) {
      states_.emplace_back();
      for (const std::string& path : of_rank) {
        DS_ASSIGN_OR_RETURN(DeepSpeedShard shard, ReadStates(path));
        states_.back().push_back(std::move(shard));
        DS_RETURN_IF_ERROR(CheckModelRanks(files_.zero_states.size()));
        DS_RETURN_IF_ERROR(CheckDataRanks(of_rank.size()));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckModelRanks(size_t found) const {
    const DeepSpeedShard& first = states_[0][0];
    return CheckCount(first, "mp_world_size", first.mp_world_size, found);
  }

  absl::Status CheckDataRanks(size_t found) const {
    const DeepSpeedShard& first = states_[0][0];
    // MiCS cuts the tensors over a part of the ranks, of which there are many:
    // partition_count tells.
    if (first.dp_world_size.value_or(1) % found == 0) return absl::OkStatus();
    return CheckCount(first, "dp_world_size", first.dp_world_size, found);
  }

  // All ranks were saved at the same step of the same run.
  absl::Status CheckSteps() const {
    if (states_.empty()) return absl::OkStatus();
    const DeepSpeedShard& first = states_[0][0];
    const auto number = [](const absl::optional<int64_t>& v) {
      return v.has_value() ? absl::StrCat(*v) : "nothing";
    };
    for (const auto& of_rank : states_) {
      for (const DeepSpeedShard& s : of_rank) {
        const auto same = [&](absl::string_view key,
                              const absl::optional<int64_t>& a,
                              const absl::optional<int64_t>& b) {
          if (a == b) return absl::OkStatus();
          return absl::InvalidArgumentError(absl::StrCat(
              s.state.path, ": ", key, ": holds ", number(b), ", but ",
              first.state.path, " ", number(a),
              "; the ranks are of different checkpoints, copy them again"));
        };
        DS_RETURN_IF_ERROR(
            same("global_steps", first.global_steps, s.global_steps));
        DS_RETURN_IF_ERROR(
            same("dp_world_size", first.dp_world_size, s.dp_world_size));
        DS_RETURN_IF_ERROR(
            same("mp_world_size", first.mp_world_size, s.mp_world_size));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckCount(const DeepSpeedShard& s, absl::string_view key,
                          const absl::optional<int64_t>& told,
                          size_t found) const {
    const int64_t count = static_cast<int64_t>(found);
    if (!told.has_value() || *told == count) return absl::OkStatus();
    if (*told > count) {
      // Those that follow, as all before are there.
      return absl::NotFoundError(absl::StrFormat(
          "%s: %s is missing: %s is %d, of as many ranks the files of %d are "
          "there; copy all of them",
          files_.where,
          NextRank(std::string(Basename(s.state.path)), key, count), key, *told,
          count));
    }
    return absl::InvalidArgumentError(absl::StrCat(
        s.state.path, ": ", key, ": is ", *told, ", but the files of ", count,
        " ranks are there; give those of one checkpoint"));
  }

  // The name of the file of rank `rank`, after rank 0's.
  static std::string NextRank(const std::string& name, absl::string_view key,
                              int64_t rank) {
    return key == "mp_world_size"
               ? absl::StrReplaceAll(
                     name,
                     {{"mp_rank_00_", absl::StrFormat("mp_rank_%02d_", rank)}})
               : absl::StrReplaceAll(
                     name, {{"zero_pp_rank_0_",
                             absl::StrFormat("zero_pp_rank_%d_", rank)}});
  }

  // Of MoE layers: their tensors are in files of their own.
  absl::Status AddExperts() {
    const bool counted = !states_.empty() &&
                         states_[0][0].experts.has_value() &&
                         !states_[0][0].experts->counts.empty();
    if (files_.experts.empty() && !counted) return absl::OkStatus();
    if (!has_weights_) {
      return absl::UnimplementedError(absl::StrCat(
          files_.where,
          ": has MoE layers, and its other weights are in partitions of ZeRO "
          "alone; models with MoE layers are not compiled"));
    }
    std::vector<DeepSpeedShard*> ranks;
    for (auto& s : states_) ranks.push_back(&s[0]);
    return AddMoeExperts(files_, ranks, &parts_);
  }

  // The fp32 partitions of the optimizer are the weights.
  absl::Status JoinPartitions() {
    if (files_.optim_states.empty()) {
      const auto without =
          std::find_if(states_.begin(), states_.end(),
                       [](const auto& s) { return !s[0].has_weights(); });
      const DeepSpeedShard& s = (*without)[0];
      return absl::NotFoundError(absl::StrCat(
          files_.where, ": ", Basename(s.state.path),
          s.module().empty() ? " has no weights (module)"
                             : " has placeholders of weights",
          ", and the files of optim_states, whose partitions are the weights, "
          "are not there; copy them, or give the folder of pytorch_model.bin"));
    }
    const size_t ranks = files_.optim_states.size();
    if (!states_.empty() && states_.size() != ranks) {
      return absl::InvalidArgumentError(
          absl::StrCat(files_.where, ": has optim_states of ", ranks,
                       " model-parallel ranks and model_states of ",
                       states_.size(), "; copy all of them"));
    }
    const bool told = !states_.empty();
    if (!told) states_.resize(ranks);
    for (size_t mp = 0; mp < ranks; ++mp) {
      std::vector<ZeroShard> optims;
      for (const std::string& path : files_.optim_states[mp]) {
        DS_ASSIGN_OR_RETURN(SourceBytes source, MapSource(path));
        DS_ASSIGN_OR_RETURN(
            ZeroShard shard,
            ReadZeroShard(source, static_cast<int>(parts_.sources.size())));
        parts_.sources.push_back(std::move(source));
        optims.push_back(std::move(shard));
      }
      if (told && states_[mp].size() > 1 &&
          states_[mp].size() != optims.size()) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "%s: mp rank %d has %d files of model_states and %d of "
            "optim_states; every data-parallel rank has one of each: copy all "
            "of them",
            files_.where, mp, states_[mp].size(), optims.size()));
      }
      // How many there are is told at least once.
      if (told && optims[0].partitions == 0) {
        DS_RETURN_IF_ERROR(CheckCount(states_[mp][0], "dp_world_size",
                                      states_[mp][0].dp_world_size,
                                      optims.size()));
      }
      DS_ASSIGN_OR_RETURN(auto tensors,
                          JoinZeroPartitions(states_[mp], optims));
      if (!told) {
        states_[mp].emplace_back();
        states_[mp][0].state.path = optims[0].path;
        states_[mp][0].state.chunks.emplace_back();
      }
      states_[mp].resize(1);
      states_[mp][0].state.chunks[0] = std::move(tensors);
    }
    parts_.notes.push_back(absl::StrCat(
        files_.where,
        ": the weights are the optimizer's partitions of ZeRO, joined"));
    return absl::OkStatus();
  }

  // Names of Megatron's modules; a config.json that says another family counts
  // more, unless Megatron's arguments are there: ChatGLM has such names too.
  bool HasMegatronNames() const {
    const bool named =
        std::any_of(states_[0][0].module().begin(),
                    states_[0][0].module().end(), [](const TensorInfo& t) {
                      // GPT-NeoX, BLOOM and Falcon have blocks of their own
                      // name.
                      return absl::StrContains(
                                 t.name, "embedding.word_embeddings.weight") ||
                             absl::StrContains(t.name, ".linear_qkv.") ||
                             (absl::StrContains(t.name, ".query_key_value.") &&
                              !absl::StrContains(t.name, "gpt_neox.") &&
                              !absl::StrContains(t.name, "h."));
                    });
    if (!named) return false;
    if (states_[0][0].state.args.is_object()) return true;
    const json::Value* type =
        parts_.config.is_object() ? parts_.config.Find("model_type") : nullptr;
    return parts_.config.is_null() ||
           ((type == nullptr ||
             (type->is_string() && type->as_string() == "megatron_gpt")) &&
            parts_.config.Find("architectures") == nullptr);
  }

  absl::StatusOr<std::unique_ptr<Checkpoint>> OpenAsMegatron() {
    MegatronFiles files;
    files.where = files_.where;
    files.tensor_ranks = static_cast<int>(states_.size());
    parts_.training_mp_size = files.tensor_ranks;
    files.stages = 1;
    std::vector<MegatronShard> shards;
    for (auto& s : states_) {
      files.paths.push_back(s[0].state.path);
      shards.push_back(std::move(s[0].state));
    }
    return JoinMegatron(files, shards, side_folder_, {}, options_,
                        std::move(parts_));
  }

  absl::StatusOr<std::unique_ptr<Checkpoint>> OpenAsHuggingFace() {
    DS_RETURN_IF_ERROR(RefuseMegatronOptions(files_.where, options_));
    // What has experts is refused by their numbers, whatever its config.
    if (parts_.config.is_null() && !files_.experts.empty()) {
      parts_.config = json::Value::Object();
    }
    if (parts_.config.is_null()) {
      DS_ASSIGN_OR_RETURN(parts_.config, ReadConfigObject(JoinPath(
                                             side_folder_, "config.json")));
    }
    DS_RETURN_IF_ERROR(JoinRanks());
    StripWrapperPrefixes(states_[0][0].state.path, &parts_.tensors,
                         &parts_.notes);
    return MakeCheckpoint(std::move(parts_));
  }

  absl::Status JoinRanks() {
    DeepSpeedShard& first = states_[0][0];
    parts_.training_mp_size = static_cast<int>(states_.size());
    if (states_.size() > 1 && first.cuts.has_value()) {
      std::vector<const MegatronShard*> ranks;
      for (const auto& s : states_) ranks.push_back(&s[0].state);
      DS_ASSIGN_OR_RETURN(parts_.tensors,
                          MergeRanks(ranks, *first.cuts, parts_.sources));
      return absl::OkStatus();
    }
    for (size_t mp = 1; mp < states_.size(); ++mp) {
      DS_RETURN_IF_ERROR(CheckReplica(first.state, states_[mp][0].state));
    }
    if (states_.size() > 1) {
      parts_.notes.push_back(absl::StrCat(
          files_.where, ": all ", states_.size(),
          " model-parallel ranks hold the same tensors; those of rank 0 are "
          "read"));
    }
    parts_.tensors = std::move(first.state.chunks[0]);
    return absl::OkStatus();
  }

  // Without universal_checkpoint_info ranks with Hugging Face's names are
  // copies: how each tensor would be cut is written nowhere.
  absl::Status CheckReplica(const MegatronShard& first,
                            const MegatronShard& other) const {
    const auto refuse = [&](absl::string_view name, absl::string_view why) {
      return absl::UnimplementedError(absl::StrCat(
          other.path, ": tensor ", Quoted(name), ": ", why, " in ", first.path,
          "; ranks whose tensors have names of Hugging Face are read when they "
          "hold the same, as the files don't say how others are cut: save the "
          "whole model (save_16bit_model)"));
    };
    const auto& a = first.chunks[0];
    const auto& b = other.chunks[0];
    for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
      if (i >= b.size()) return refuse(a[i].name, "is not there, but");
      if (i >= a.size() || a[i].name != b[i].name) {
        return refuse(b[i].name, "stands in the place of another tensor");
      }
      std::string room_a, room_b;
      const bool same = a[i].shape == b[i].shape && a[i].dtype == b[i].dtype &&
                        a[i].unreadable == b[i].unreadable &&
                        (!a[i].unreadable.empty() ||
                         StoredElements(parts_.sources, a[i], &room_a) ==
                             StoredElements(parts_.sources, b[i], &room_b));
      if (!same) return refuse(b[i].name, "differs from that");
    }
    return absl::OkStatus();
  }

  const DeepSpeedFiles& files_;
  const std::string side_folder_;
  const OpenOptions& options_;
  CheckpointParts parts_;
  // By mp rank and dp rank; once the tensors are whole, of the first dp rank.
  std::vector<std::vector<DeepSpeedShard>> states_;
  bool has_weights_ = false;  // model_states hold them
};

}  // namespace

std::string FindSideFolder(const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    if (FileExists(JoinPath(folder, "config.json"))) return folder;
  }
  for (const std::string& folder : folders) {
    for (const char* name : kTokenizerFileNames) {
      if (FileExists(JoinPath(folder, name))) return folder;
    }
  }
  return folders[0];
}

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenDeepSpeed(
    const DeepSpeedFiles& files, const std::vector<std::string>& folders,
    const OpenOptions& options, std::vector<std::string> notes) {
  if (files.where == files.folder && IsUniversal(files.folder)) {
    return OpenUniversal(files.folder, folders, options, std::move(notes));
  }
  if (!files.layers.empty() && files.experts.empty()) {
    return OpenPipelineLayers(files, FindSideFolder(folders), options,
                              std::move(notes));
  }
  return Opener(files, folders, options, std::move(notes)).Open();
}

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenDeepSpeedFolder(
    const std::string& folder, const OpenOptions& options) {
  std::vector<std::string> notes;
  DS_ASSIGN_OR_RETURN(const std::string step,
                      FindDeepSpeedStep(folder, &notes));
  DS_ASSIGN_OR_RETURN(const DeepSpeedFiles files, ListDeepSpeedStep(step));
  return OpenDeepSpeed(files, {folder, step, Dirname(step)}, options,
                       std::move(notes));
}

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenDeepSpeedFile(
    const std::string& path, const OpenOptions& options) {
  const std::string step = Dirname(path);
  DS_ASSIGN_OR_RETURN(const DeepSpeedFiles files, ListDeepSpeedStep(step));
  std::vector<std::string> notes;
  if (files.mp_ranks() > 1 || !files.zero_states.empty() ||
      files.model_states.empty()) {
    notes.push_back(absl::StrCat(
        path,
        ": is one of several files of a step; all in its folder are "
        "read"));
  }
  return OpenDeepSpeed(files, {step, Dirname(step)}, options, std::move(notes));
}

}  // namespace deepslice
