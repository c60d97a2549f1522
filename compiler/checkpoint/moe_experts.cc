#include "compiler/checkpoint/moe_experts.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "compiler/checkpoint/matrix_view.h"
#include "compiler/checkpoint/torch_file.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/file.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

constexpr absl::string_view kMoe = ".deepspeed_moe.";
constexpr absl::string_view kExperts =
    ".deepspeed_moe.experts."
    "deepspeed_experts.";
constexpr absl::string_view kGate = ".deepspeed_moe.gate.wg.weight";
constexpr absl::string_view kCoefficient = ".coefficient.weight";

bool TakeNumber(absl::string_view* s, int64_t* out) {
  size_t digits = 0;
  while (digits < s->size() && absl::ascii_isdigit((*s)[digits])) ++digits;
  if (digits == 0 || digits > 9 ||
      !absl::SimpleAtoi(s->substr(0, digits), out)) {
    return false;
  }
  s->remove_prefix(digits);
  return true;
}

// What an expert's file is, by its name.
struct ExpertFile {
  int64_t layer = -1;  // among the MoE layers; -1: all of them (older files)
  int64_t expert = 0, rank = 0;
  std::string path;
};
bool ParseFile(absl::string_view name, ExpertFile* out) {
  if (absl::ConsumePrefix(&name, "layer_")) {
    if (!TakeNumber(&name, &out->layer) || !absl::ConsumePrefix(&name, "_")) {
      return false;
    }
  }
  return absl::ConsumePrefix(&name, "expert_") &&
         TakeNumber(&name, &out->expert) &&
         absl::ConsumePrefix(&name, "_mp_rank_") &&
         TakeNumber(&name, &out->rank) && name == "_model_states.pt";
}
std::string FileName(int64_t layer, int64_t expert, int64_t rank) {
  return absl::StrCat(
      layer < 0 ? "" : absl::StrCat("layer_", layer, "_"),
      absl::StrFormat("expert_%d_mp_rank_%02d_model_states.pt", expert, rank));
}

// A name with its numbers filled up, so that it sorts by them.
std::string SortKey(absl::string_view name) {
  std::string out;
  for (size_t i = 0; i < name.size();) {
    size_t end = i;
    while (end < name.size() && absl::ascii_isdigit(name[end])) ++end;
    if (end == i) {
      out += name[i++];
      continue;
    }
    if (end - i < 20) out.append(20 - (end - i), '0');
    out.append(name.data() + i, end - i);
    i = end;
  }
  return out;
}

class Adder {
 public:
  Adder(const DeepSpeedFiles& files, const std::vector<DeepSpeedShard*>& ranks,
        CheckpointParts* parts)
      : files_(files), ranks_(ranks), parts_(*parts) {}

  absl::Status Run() {
    for (const TensorInfo& t : ranks_[0]->module()) {
      absl::string_view name = t.name;
      if (!absl::ConsumeSuffix(&name, kGate)) continue;
      gates_.emplace(std::string(name), &t);
    }
    DS_RETURN_IF_ERROR(Arrange());
    DS_RETURN_IF_ERROR(CheckHoles());
    for (const ExpertFile& file : in_order_) DS_RETURN_IF_ERROR(Read(file));
    DS_RETURN_IF_ERROR(CheckGates());
    DS_RETURN_IF_ERROR(CheckCounts());
    for (auto& [where, tensors] : found_) {
      for (auto& [name, t] : tensors) {
        added_[where.rank].push_back(std::move(t));
      }
    }
    for (auto& [rank, tensors] : added_) {
      auto& module = ranks_[rank]->state.chunks[0];
      std::move(tensors.begin(), tensors.end(), std::back_inserter(module));
    }
    return absl::OkStatus();
  }

 private:
  // By MoE layer (-1 in older files), expert and rank.
  absl::Status Arrange() {
    std::map<std::array<int64_t, 3>, std::string> by_place;
    bool old = false, layered = false;
    for (const std::string& path : files_.experts) {
      ExpertFile file;
      if (!ParseFile(Basename(path), &file)) continue;
      file.path = path;
      (file.layer < 0 ? old : layered) = true;
      if (old && layered) {
        return absl::InvalidArgumentError(absl::StrCat(
            files_.where,
            ": has experts' files with a layer in their names "
            "and without (",
            Quoted(Basename(path)), "); keep those of one checkpoint"));
      }
      const auto added =
          by_place.insert({{file.layer, file.expert, file.rank}, path});
      if (!added.second) {
        return absl::InvalidArgumentError(
            absl::StrCat(files_.where, ": ", Quoted(Basename(path)), " and ",
                         Quoted(Basename(added.first->second)),
                         " are of the same expert and rank; keep one"));
      }
    }
    for (const auto& [at, path] : by_place) {
      in_order_.push_back({at[0], at[1], at[2], path});
    }
    return absl::OkStatus();
  }

  // How many experts a layer should have, if the model's file says it.
  absl::optional<int64_t> Told(int64_t layer) const {
    const auto& told = ranks_[0]->experts;
    if (!told.has_value() || told->counts.empty()) return absl::nullopt;
    if (!told->listed) return told->counts[0];
    if (layer < 0 || layer >= static_cast<int64_t>(told->counts.size())) {
      return absl::nullopt;
    }
    return told->counts[layer];
  }

  absl::Status CheckHoles() {
    std::map<int64_t, int64_t> experts;  // of each layer
    std::map<int64_t, int64_t> found;
    for (const ExpertFile& f : in_order_) {
      experts[f.layer] = std::max(experts[f.layer], f.expert + 1);
      ++found[f.layer];
    }
    int64_t next = in_order_.empty() || in_order_[0].layer < 0 ? -1 : 0;
    auto file = in_order_.begin();
    const int64_t ranks = static_cast<int64_t>(ranks_.size());
    for (auto& [layer, count] : experts) {
      if (layer != next) {
        return absl::NotFoundError(absl::StrFormat(
            "%s: %s and the other experts of MoE layer %d are missing; copy "
            "the files of all layers",
            files_.where, FileName(next, 0, 0), next));
      }
      ++next;
      count = std::max(count, Told(layer).value_or(0));
      for (int64_t e = 0; e < count; ++e) {
        for (int64_t r = 0; r < ranks; ++r) {
          if (file == in_order_.end() || file->layer != layer ||
              file->expert != e || file->rank != r) {
            return absl::NotFoundError(absl::StrFormat(
                "%s: %s is missing: of %d such files of the layer %d are "
                "there; copy all of them",
                files_.where, FileName(layer, e, r), count * ranks,
                found[layer]));
          }
          ++file;
        }
      }
    }
    if (file == in_order_.end()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: %s is there, but model states of %d model-parallel rank%s; remove "
        "the files of another checkpoint",
        files_.where, Basename(file->path), ranks, ranks == 1 ? "" : "s"));
  }

  std::string Place(const TensorInfo& t) const {
    return absl::StrCat(parts_.sources[t.file].path, ": tensor ",
                        Quoted(t.name));
  }

  absl::Status Read(const ExpertFile& file) {
    DS_ASSIGN_OR_RETURN(SourceBytes source, MapSource(file.path));
    DS_ASSIGN_OR_RETURN(const auto torch,
                        TorchFile::Open(source.bytes, file.path));
    if (torch->root().AsDict() == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(file.path, ": holds ", torch->root().Describe(),
                       "; must be the dict of an expert's tensors"));
    }
    DS_ASSIGN_OR_RETURN(TorchTensors listed, torch->ListTensors(torch->root()));
    const int index = static_cast<int>(parts_.sources.size());
    parts_.sources.push_back(std::move(source));
    if (listed.tensors.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          file.path, ": holds no tensors; must hold those of expert ",
          file.expert));
    }
    for (TensorInfo& t : listed.tensors) {
      t.file = index;
      const auto name = ParseExpertName(t.name);
      if (!name.has_value() || name->expert != file.expert) {
        return absl::InvalidArgumentError(absl::StrCat(
            Place(t), ": is ",
            name.has_value() ? absl::StrCat("of expert ", name->expert)
                             : std::string("of no expert"),
            "; the file's name says expert ", file.expert));
      }
      if (file.layer >= 0) {
        const auto known = modules_.emplace(file.layer, name->module).first;
        if (known->second != name->module) {
          return absl::InvalidArgumentError(absl::StrCat(
              Place(t), ": is of ", Quoted(name->module),
              ", other tensors of MoE layer ", file.layer, " are of ",
              Quoted(known->second), "; the files are of different models"));
        }
      }
      auto& tensors =
          found_[{name->module, name->expert, static_cast<int>(file.rank)}];
      std::string rest = name->rest;
      const auto added = tensors.emplace(std::move(rest), std::move(t));
      if (!added.second) {
        return absl::InvalidArgumentError(absl::StrCat(
            file.path, ": tensor ", Quoted(added.first->second.name),
            ": is in ", parts_.sources[added.first->second.file].path,
            " too; an expert must be there once"));
      }
    }
    return absl::OkStatus();
  }

  // The experts of a layer are alike, and as many as its gate has rows.
  absl::Status CheckGates() {
    std::map<std::string, int64_t> experts;
    for (const auto& [where, tensors] : found_) {
      const auto& first = found_.at({where.module, 0, 0});
      for (const auto& [rest, t] : tensors) {
        const auto same = first.find(rest);
        if (same == first.end() || same->second.shape != t.shape ||
            same->second.dtype != t.dtype) {
          return absl::InvalidArgumentError(absl::StrCat(
              Place(t), ": ",
              same == first.end()
                  ? "is not there"
                  : absl::StrCat("is ", DimsText(same->second.shape), " of ",
                                 DTypeName(same->second.dtype)),
              " in expert 0, but ", DimsText(t.shape), " of ",
              DTypeName(t.dtype), " here; experts of a layer are alike"));
        }
      }
      if (tensors.size() != first.size()) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "%s: has %d tensors of %s, expert 0 has %d; experts of a layer "
            "are alike",
            parts_.sources[tensors.begin()->second.file].path, tensors.size(),
            Quoted(where.module), first.size()));
      }
      experts[where.module] = std::max(experts[where.module], where.expert + 1);
    }
    for (const auto& [module, count] : experts) {
      const auto gate = gates_.find(module);
      if (gate == gates_.end()) {
        return absl::InvalidArgumentError(absl::StrCat(
            ranks_[0]->state.path, ": has no ",
            Quoted(module + std::string(kGate)), ", but there are ", count,
            " experts of it; the files are of different models"));
      }
      if (gate->second->rows() == count) continue;
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s: tensor %s: has %d rows, but the files have %d experts; a gate "
          "has a row for each",
          ranks_[0]->state.path, Quoted(gate->second->name),
          gate->second->rows(), count));
    }
    for (const auto& [module, gate] : gates_) {
      if (experts.count(module) > 0) continue;
      return absl::NotFoundError(
          absl::StrFormat("%s: has no files of the %d experts of %s; copy them "
                          "(layer_L_expert_E_mp_rank_XX_model_states.pt)",
                          files_.where, gate->rows(), Quoted(module)));
    }
    return absl::OkStatus();
  }

  absl::Status CheckCounts() const {
    const auto& told = ranks_[0]->experts;
    if (!told.has_value()) return absl::OkStatus();
    if (told->listed && told->counts.size() != gates_.size()) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s: num_experts: lists %d layer%s, but the model has %d gates; the "
          "file is damaged or of another model",
          ranks_[0]->state.path, told->counts.size(),
          told->counts.size() == 1 ? "" : "s", gates_.size()));
    }
    for (const auto& [layer, module] : modules_) {
      const auto count = Told(layer);
      const int64_t rows = gates_.at(module)->rows();
      if (!count.has_value() || *count == rows) continue;
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s: num_experts: is %d for MoE layer %d, but its gate %s has %d "
          "rows",
          ranks_[0]->state.path, *count, layer, Quoted(module), rows));
    }
    return absl::OkStatus();
  }

  struct Where {
    std::string module;
    int64_t expert;
    int rank;
    bool operator<(const Where& o) const {
      return std::tie(module, expert, rank) <
             std::tie(o.module, o.expert, o.rank);
    }
  };

  const DeepSpeedFiles& files_;
  const std::vector<DeepSpeedShard*>& ranks_;
  CheckpointParts& parts_;
  std::vector<ExpertFile> in_order_;
  std::map<std::string, const TensorInfo*> gates_;  // by module
  std::map<int64_t, std::string> modules_;          // by MoE layer
  std::map<Where, std::map<std::string, TensorInfo>> found_;
  std::map<int, std::vector<TensorInfo>> added_;
};

}  // namespace

absl::Status AddMoeExperts(const DeepSpeedFiles& files,
                           const std::vector<DeepSpeedShard*>& ranks,
                           CheckpointParts* parts) {
  return Adder(files, ranks, parts).Run();
}

absl::optional<ExpertName> ParseExpertName(absl::string_view name) {
  const size_t at = name.find(kExperts);
  if (at == name.npos || at == 0) return absl::nullopt;
  ExpertName out;
  out.module = std::string(name.substr(0, at));
  absl::string_view rest = name.substr(at + kExperts.size());
  if (!TakeNumber(&rest, &out.expert) || !absl::ConsumePrefix(&rest, ".") ||
      rest.empty()) {
    return absl::nullopt;
  }
  out.rest = std::string(rest);
  return out;
}

std::vector<MoeLayer> FindMoeLayers(absl::Span<const TensorInfo> tensors) {
  std::map<std::string, MoeLayer> by_key;
  const auto layer = [&](absl::string_view module) -> MoeLayer& {
    MoeLayer& out = by_key[SortKey(module)];
    if (out.module.empty()) out.module = std::string(module);
    return out;
  };
  std::map<std::string, int64_t> gates;
  for (const TensorInfo& t : tensors) {
    const absl::string_view name = t.name;
    const size_t at = name.find(kMoe);
    if (at == name.npos || at == 0) continue;
    MoeLayer& l = layer(name.substr(0, at));
    if (absl::EndsWith(name, kGate)) {
      gates[l.module] = t.rows();
    } else if (const auto expert = ParseExpertName(name); expert.has_value()) {
      l.experts = std::max(l.experts, expert->expert + 1);
    }
  }
  std::vector<MoeLayer> out;
  for (auto& [key, l] : by_key) {
    const auto gate = gates.find(l.module);
    if (gate != gates.end()) l.experts = gate->second;
    const std::string coefficient = absl::StrCat(l.module, kCoefficient);
    l.residual =
        std::any_of(tensors.begin(), tensors.end(),
                    [&](const TensorInfo& t) { return t.name == coefficient; });
    out.push_back(std::move(l));
  }
  return out;
}

absl::Status RefuseMoeLayers(const Checkpoint& checkpoint) {
  const std::vector<MoeLayer> layers = FindMoeLayers(checkpoint.tensors());
  if (layers.empty()) return absl::OkStatus();
  // Layers of as many experts together, in the order of the first.
  std::vector<std::pair<int64_t, std::vector<std::string>>> kinds;
  for (const MoeLayer& l : layers) {
    auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const auto& k) {
      return k.first == l.experts;
    });
    if (kind == kinds.end()) {
      kinds.emplace_back(l.experts, std::vector<std::string>());
      kind = kinds.end() - 1;
    }
    kind->second.push_back(l.module);
  }
  std::vector<std::string> texts;
  for (const auto& [experts, modules] : kinds) {
    texts.push_back(absl::StrCat(
        modules.size(),
        modules.size() == 1 ? " MoE layer of " : " MoE layers of ", experts,
        experts == 1 ? " expert (" : " experts (", modules[0],
        modules.size() > 2    ? " to "
        : modules.size() == 2 ? " and "
                              : "",
        modules.size() > 1 ? modules.back() : "", ")"));
  }
  const bool residual =
      std::any_of(layers.begin(), layers.end(),
                  [](const MoeLayer& l) { return l.residual; });
  return absl::UnimplementedError(absl::StrCat(
      Dirname(checkpoint.files()[0].path), ": has ", absl::StrJoin(texts, ", "),
      residual ? ", with MLPs beside them (PR-MoE)" : "",
      "; models with MoE layers are not compiled"));
}

}  // namespace deepslice
