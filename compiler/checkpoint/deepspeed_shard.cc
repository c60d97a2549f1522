#include "compiler/checkpoint/deepspeed_shard.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/checkpoint/shard_set.h"
#include "compiler/checkpoint/torch_file.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using pickle::Kind;
using pickle::Value;

constexpr int64_t kMostGroups = 65'536;  // of an optimizer

// The value under a key; nullptr when absent or None.
const Value* Get(const Value& dict, absl::string_view key) {
  const Value* v = dict.Find(key);
  return v == nullptr || v->is_none() ? nullptr : v;
}

absl::Status Wrong(absl::string_view what, const Value& found,
                   absl::string_view wanted) {
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": holds ", found.Describe(), "; must be ", wanted));
}

absl::StatusOr<absl::optional<int64_t>> ReadCount(const Value& root,
                                                  absl::string_view key) {
  const Value* v = Get(root, key);
  if (v == nullptr) return absl::optional<int64_t>();
  if (!v->is_int() || v->as_int() < 0) return Wrong(key, *v, "a count");
  return absl::optional<int64_t>(v->as_int());
}

absl::Status CheckTensors(absl::string_view key, int64_t count) {
  if (count <= limits::kTensorsPerCheckpoint) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      key, ": more than ", limits::kTensorsPerCheckpoint, " tensors"));
}

// {name: shape, ...}
absl::StatusOr<std::vector<NamedShape>> ReadShapes(absl::string_view key,
                                                   const Value& v) {
  const Value* dict = v.AsDict();
  if (dict == nullptr) return Wrong(key, v, "shapes by name");
  DS_RETURN_IF_ERROR(
      CheckTensors(key, static_cast<int64_t>(dict->items().size() / 2)));
  std::vector<NamedShape> out;
  absl::flat_hash_set<absl::string_view> names;
  for (size_t i = 0; i + 1 < dict->items().size(); i += 2) {
    const Value& name = *dict->items()[i];
    const Value& shape = *dict->items()[i + 1];
    if (!name.is_text()) return Wrong(key, name, "the name of a tensor");
    const std::string where =
        absl::StrCat(key, ": tensor ", Quoted(name.bytes()));
    if (!names.insert(name.bytes()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": is there twice; names must be unique"));
    }
    if (static_cast<int64_t>(name.bytes().size()) > limits::kTensorNameBytes) {
      return absl::ResourceExhaustedError(absl::StrCat(
          where, ": a name of ", name.bytes().size(), " bytes; at most ",
          limits::kTensorNameBytes, " are allowed"));
    }
    const bool numbers =
        (shape.kind() == Kind::kTuple || shape.kind() == Kind::kList) &&
        static_cast<int64_t>(shape.items().size()) <= limits::kTensorRank &&
        std::all_of(shape.items().begin(), shape.items().end(),
                    [](const Value* dim) {
                      return dim->is_int() && dim->as_int() >= 0 &&
                             dim->as_int() <= limits::kTensorBytes;
                    });
    if (!numbers) return Wrong(where, shape, "a shape");
    NamedShape named{std::string(name.bytes()), {}};
    for (const Value* dim : shape.items()) named.shape.push_back(dim->as_int());
    out.push_back(std::move(named));
  }
  return out;
}

// One dict for each group of the optimizer, or a dict alone.
absl::StatusOr<ParamShapes> ReadParamShapes(const Value& root) {
  constexpr absl::string_view kKey = "param_shapes";
  ParamShapes out;
  const Value* v = Get(root, kKey);
  if (v == nullptr) return out;
  if (v->kind() != Kind::kList && v->kind() != Kind::kTuple) {
    DS_ASSIGN_OR_RETURN(auto group, ReadShapes(kKey, *v));
    out.push_back(std::move(group));
    return out;
  }
  if (static_cast<int64_t>(v->items().size()) > kMostGroups) {
    return Wrong(kKey, *v, "the shapes of at most 65536 groups");
  }
  // One dict may be there many times.
  int64_t tensors = 0;
  for (const Value* item : v->items()) {
    DS_ASSIGN_OR_RETURN(auto group, ReadShapes(kKey, *item));
    tensors += static_cast<int64_t>(group.size());
    DS_RETURN_IF_ERROR(CheckTensors(kKey, tensors));
    out.push_back(std::move(group));
  }
  return out;
}

// A dict {other name: name}, or a list of such pairs.
absl::Status ReadShared(const Value& root, DeepSpeedShard* out) {
  constexpr absl::string_view kKey = "shared_params";
  const Value* v = Get(root, kKey);
  if (v == nullptr) return absl::OkStatus();
  const auto add = [&](const Value& other, const Value& name) -> absl::Status {
    if (!other.is_text()) return Wrong(kKey, other, "the name of a tensor");
    if (!name.is_text()) return Wrong(kKey, name, "the name of a tensor");
    out->shared.emplace_back(std::string(other.bytes()),
                             std::string(name.bytes()));
    return absl::OkStatus();
  };
  if (const Value* dict = v->AsDict(); dict != nullptr) {
    for (size_t i = 0; i + 1 < dict->items().size(); i += 2) {
      DS_RETURN_IF_ERROR(add(*dict->items()[i], *dict->items()[i + 1]));
    }
    return absl::OkStatus();
  }
  if (v->kind() != Kind::kList && v->kind() != Kind::kTuple) {
    return Wrong(kKey, *v, "names by name");
  }
  for (const Value* pair : v->items()) {
    const bool two =
        (pair->kind() == Kind::kList || pair->kind() == Kind::kTuple) &&
        pair->items().size() == 2;
    if (!two) return Wrong(kKey, *pair, "a pair of names");
    DS_RETURN_IF_ERROR(add(*pair->items()[0], *pair->items()[1]));
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::optional<ExpertCounts>> ReadExperts(const Value& root) {
  constexpr absl::string_view kKey = "num_experts";
  const Value* v = Get(root, kKey);
  if (v == nullptr) return absl::optional<ExpertCounts>();
  ExpertCounts out;
  out.listed = v->kind() == Kind::kList || v->kind() == Kind::kTuple;
  std::vector<const Value*> items = {v};
  if (out.listed) items.assign(v->items().begin(), v->items().end());
  for (const Value* item : items) {
    if (!item->is_int() || item->as_int() < 0 ||
        static_cast<int64_t>(items.size()) > limits::kLayers) {
      return Wrong(kKey, *v, "a count of experts, or one for each MoE layer");
    }
    out.counts.push_back(item->as_int());
  }
  return absl::optional<ExpertCounts>(std::move(out));
}

// All of a file but the path before errors.
absl::Status Fill(const Value& root, DeepSpeedShard* out) {
  const Value* module = Get(root, "module");
  if (module != nullptr && module->AsDict() == nullptr) {
    return Wrong("module", *module, "the state dict of the model");
  }
  out->has_version = Get(root, "checkpoint_version") != nullptr;
  DS_ASSIGN_OR_RETURN(out->global_steps, ReadCount(root, "global_steps"));
  DS_ASSIGN_OR_RETURN(out->mp_world_size, ReadCount(root, "mp_world_size"));
  DS_ASSIGN_OR_RETURN(out->dp_world_size, ReadCount(root, "dp_world_size"));
  DS_ASSIGN_OR_RETURN(out->param_shapes, ReadParamShapes(root));
  if (const Value* v = Get(root, "frozen_param_shapes"); v != nullptr) {
    DS_ASSIGN_OR_RETURN(out->frozen_shapes,
                        ReadShapes("frozen_param_shapes", *v));
  }
  DS_RETURN_IF_ERROR(ReadShared(root, out));
  if (const Value* v = Get(root, "buffer_names"); v != nullptr) {
    if (v->kind() != Kind::kList && v->kind() != Kind::kTuple) {
      return Wrong("buffer_names", *v, "a list of names");
    }
    for (const Value* name : v->items()) {
      if (name->is_text()) out->buffers.insert(std::string(name->bytes()));
    }
  }
  DS_ASSIGN_OR_RETURN(out->experts, ReadExperts(root));
  if (const Value* v = Get(root, "universal_checkpoint_info"); v != nullptr) {
    out->cuts = ReadRankCuts(*v);
  }
  return absl::OkStatus();
}

std::string Keys(const Value& dict) {
  std::vector<std::string> keys;
  for (size_t i = 0; i < dict.items().size(); i += 2) {
    const Value& key = *dict.items()[i];
    keys.emplace_back(key.is_text() ? std::string(key.bytes())
                                    : key.Describe());
  }
  return keys.empty() ? "nothing" : ShortList(keys);
}

// param_alignment_paddings: a count for every parameter of every group.
absl::Status ReadGaps(const Value& state, ZeroShard* out) {
  constexpr absl::string_view kKey = "param_alignment_paddings";
  const auto is_list = [](const Value& v) {
    return v.kind() == Kind::kList || v.kind() == Kind::kTuple;
  };
  const Value* v = Get(state, kKey);
  if (v == nullptr) return absl::OkStatus();
  if (!is_list(*v) || static_cast<int64_t>(v->items().size()) > kMostGroups) {
    return Wrong(kKey, *v, "a list for each group");
  }
  int64_t counts = 0;
  for (const Value* group : v->items()) {
    if (!is_list(*group)) return Wrong(kKey, *group, "a list of counts");
    counts += static_cast<int64_t>(group->items().size());
    DS_RETURN_IF_ERROR(CheckTensors(kKey, counts));
    out->gaps.emplace_back();
    for (const Value* count : group->items()) {
      if (!count->is_int() || count->as_int() < 0 ||
          count->as_int() > limits::kTensorBytes) {
        return Wrong(kKey, *count, "a count");
      }
      out->gaps.back().push_back(count->as_int());
    }
  }
  return absl::OkStatus();
}

absl::Status FillZero(const TorchFile& torch, int file, ZeroShard* out) {
  const Value* root = torch.root().AsDict();
  if (root == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("holds ", torch.root().Describe(),
                     "; must be the dict that DeepSpeed saves"));
  }
  DS_ASSIGN_OR_RETURN(out->param_shapes, ReadParamShapes(*root));
  const Value* v = Get(*root, "optimizer_state_dict");
  const Value* state = v == nullptr ? nullptr : v->AsDict();
  if (state == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("holds no optimizer_state_dict, but ", Keys(*root),
                     "; must be the file of a ZeRO optimizer"));
  }
  constexpr absl::string_view kOfStage3 = "fp32_flat_groups";
  constexpr absl::string_view kOfStage2 = "single_partition_of_fp32_groups";
  const Value* groups = Get(*state, kOfStage3);
  out->stage = groups != nullptr ? 3 : 2;
  const absl::string_view key = groups != nullptr ? kOfStage3 : kOfStage2;
  if (groups == nullptr) groups = Get(*state, kOfStage2);
  if (groups == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "optimizer_state_dict: holds neither ", kOfStage3, " nor ", kOfStage2,
        ", but ", Keys(*state), "; must be of a ZeRO optimizer"));
  }
  if (const Value* stage = Get(*state, "zero_stage"); stage != nullptr) {
    // An enum's object, or its number.
    const bool fits =
        !stage->is_int() ||
        (out->stage == 3 ? stage->as_int() == 3
                         : stage->as_int() == 1 || stage->as_int() == 2);
    if (!fits) {
      return absl::InvalidArgumentError(
          absl::StrCat("zero_stage: is ", stage->as_int(), ", but ", key,
                       " is of another; the file is damaged"));
    }
  }
  DS_RETURN_IF_ERROR(ReadGaps(*state, out));
  if (const Value* count = Get(*state, "partition_count"); count != nullptr) {
    // Of each group; those of experts have fewer.
    const bool list =
        count->kind() == Kind::kList || count->kind() == Kind::kTuple;
    const std::vector<const Value*> alone = {count};
    const absl::Span<const Value* const> items =
        list ? count->items() : absl::MakeSpan(alone);
    for (const Value* item : items) {
      if (!item->is_int() || item->as_int() < 1) {
        return Wrong("partition_count", *item, "a count");
      }
      out->partitions = std::max(out->partitions, item->as_int());
    }
  }
  if ((groups->kind() != Kind::kList && groups->kind() != Kind::kTuple) ||
      static_cast<int64_t>(groups->items().size()) > kMostGroups) {
    return Wrong(key, *groups, "a list of at most 65536 groups");
  }
  for (size_t i = 0; i < groups->items().size(); ++i) {
    const std::string where = absl::StrCat(key, ": group ", i);
    auto flat = torch.Tensor(*groups->items()[i]);
    if (!flat.ok()) return Annotate(flat.status(), where);
    if (!flat->unreadable.empty()) {
      return absl::UnimplementedError(
          absl::StrCat(where, ": ", flat->unreadable));
    }
    if (flat->shape.size() != 1 || !flat->strides.empty() ||
        !IsFloat(flat->dtype)) {
      return absl::InvalidArgumentError(absl::StrCat(
          where, ": is [", absl::StrJoin(flat->shape, ", "), "] of ",
          DTypeName(flat->dtype), "; must be a vector of floats without gaps"));
    }
    flat->file = file;
    out->groups.push_back(*std::move(flat));
  }
  return absl::OkStatus();
}

}  // namespace

bool DeepSpeedShard::has_weights() const {
  absl::flat_hash_set<absl::string_view> empty;
  bool any = false;
  for (const TensorInfo& t : module()) {
    if (t.num_elements() == 0) {
      empty.insert(t.name);
    } else {
      any = any || !buffers.contains(t.name);
    }
  }
  for (const auto& group : param_shapes) {
    for (const NamedShape& p : group) {
      const bool none = std::count(p.shape.begin(), p.shape.end(), 0) > 0;
      if (!none && empty.contains(p.name)) return false;  // a placeholder
    }
  }
  return any;
}

absl::StatusOr<DeepSpeedShard> ReadDeepSpeedShard(const SourceBytes& source,
                                                  int file) {
  const std::string& path = source.path;
  DS_ASSIGN_OR_RETURN(const std::unique_ptr<TorchFile> torch,
                      TorchFile::Open(source.bytes, path));
  DeepSpeedShard out;
  DS_ASSIGN_OR_RETURN(out.state, ReadMegatronState(*torch));
  const Value& root = *torch->root().AsDict();
  DS_RETURN_IF_ERROR(Annotate(Fill(root, &out), path));
  out.state.chunks.emplace_back();
  const auto list = [&](absl::string_view key,
                        std::vector<TensorInfo>* to) -> absl::Status {
    const Value* v = Get(root, key);
    if (v == nullptr) return absl::OkStatus();
    DS_ASSIGN_OR_RETURN(TorchTensors listed, torch->ListTensors(*v));
    *to = std::move(listed.tensors);
    for (TensorInfo& t : *to) t.file = file;
    return absl::OkStatus();
  };
  DS_RETURN_IF_ERROR(list("module", &out.state.chunks[0]));
  DS_RETURN_IF_ERROR(list("frozen_param_fragments", &out.frozen));
  return out;
}

absl::StatusOr<ZeroShard> ReadZeroShard(const SourceBytes& source, int file) {
  DS_ASSIGN_OR_RETURN(const std::unique_ptr<TorchFile> torch,
                      TorchFile::Open(source.bytes, source.path));
  ZeroShard out;
  out.path = source.path;
  DS_RETURN_IF_ERROR(Annotate(FillZero(*torch, file, &out), source.path));
  return out;
}

}  // namespace deepslice
