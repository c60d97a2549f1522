#include "compiler/checkpoint/megatron_shard.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/checkpoint/shard_set.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using pickle::Kind;
using pickle::Value;

constexpr int kMostChunks = 1024;
constexpr int kMostDepth = 4;        // of an argument that is a list
constexpr size_t kMostItems = 4096;  // of it

// An argument as JSON; none for what is no plain data (types, enums).
absl::optional<json::Value> PlainValue(const Value& v, int depth = 0) {
  switch (v.kind()) {
    case Kind::kNone:
      return json::Value();
    case Kind::kBool:
      return json::Value(v.as_bool());
    case Kind::kInt:
      return json::Value(v.as_int());
    case Kind::kFloat:
      // No JSON number: as text it is refused where a number is wanted.
      if (!std::isfinite(v.as_float())) {
        return json::Value(absl::StrCat(v.as_float()));
      }
      return json::Value(v.as_float());
    case Kind::kText:
      return json::Value(v.bytes());
    case Kind::kList:
    case Kind::kTuple: {
      if (depth == kMostDepth || v.items().size() > kMostItems) {
        return absl::nullopt;
      }
      json::Value out = json::Value::Array();
      for (const Value* item : v.items()) {
        absl::optional<json::Value> plain = PlainValue(*item, depth + 1);
        if (!plain.has_value()) return absl::nullopt;
        out.Add(*std::move(plain));
      }
      return out;
    }
    default:
      return absl::nullopt;
  }
}

// The attributes of an argparse.Namespace, or the items of a dict.
absl::StatusOr<json::Value> ReadArguments(const Value& args) {
  const Value* dict = &args;
  if (args.kind() == Kind::kObject) {
    dict = args.items()[pickle::kDictPart]->is_dict()
               ? args.items()[pickle::kDictPart]
               : args.items()[pickle::kState];
    if (dict->kind() == Kind::kTuple && !dict->items().empty()) {
      dict = dict->items()[0];
    }
  }
  if (args.is_none()) return json::Value();
  if (!dict->is_dict()) {
    return absl::InvalidArgumentError(
        absl::StrCat("args: holds ", args.Describe(),
                     "; must be the arguments of the training run"));
  }
  json::Value out = json::Value::Object();
  for (size_t i = 0; i + 1 < dict->items().size(); i += 2) {
    const Value& key = *dict->items()[i];
    if (!key.is_text()) continue;
    absl::optional<json::Value> plain = PlainValue(*dict->items()[i + 1]);
    if (plain.has_value()) out.Set(key.bytes(), *std::move(plain));
  }
  return out;
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

// The values that hold the tensors.
absl::StatusOr<std::vector<const Value*>> FindChunks(const Value& root) {
  const Value* model = root.Find("model");
  const Value* module = root.Find("module");
  if (model != nullptr && module != nullptr) {
    return absl::InvalidArgumentError(
        "holds both model and module; must hold one");
  }
  if (model == nullptr) model = module;
  std::vector<const Value*> out;
  for (int i = 0; model == nullptr && i < kMostChunks; ++i) {
    const Value* chunk = root.Find(absl::StrCat("model", i));
    if (chunk == nullptr) break;
    out.push_back(chunk);
  }
  if (model != nullptr) out.push_back(model);
  if (out.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("holds no weights (model, or model0 and so on), but ",
                     Keys(root), "; give the file that was saved with them"));
  }
  return out;
}

absl::Status Fill(const TorchFile& torch, MegatronShard* out) {
  if (torch.root().AsDict() == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "holds ", torch.root().Describe(),
        "; must be the dict that the training run saves"));
  }
  const Value& root = *torch.root().AsDict();
  if (const Value* args = root.Find("args"); args != nullptr) {
    DS_ASSIGN_OR_RETURN(out->args, ReadArguments(*args));
  }
  if (const Value* v = root.Find("checkpoint_version");
      v != nullptr && !v->is_none()) {
    if (!v->is_int() && v->kind() != Kind::kFloat) {
      return absl::InvalidArgumentError(
          absl::StrCat("checkpoint_version: holds ", v->Describe(),
                       "; must be 0, 1, 2 or 3"));
    }
    const auto version =
        MegatronVersion(v->is_int() ? v->as_int() : v->as_float());
    if (!version.ok()) return Annotate(version.status(), "checkpoint_version");
    out->version = *version;
  }
  const Value* iteration = root.Find("iteration");
  if (iteration != nullptr && iteration->is_int()) {
    out->iteration = iteration->as_int();
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int> MegatronVersion(double number) {
  if (number != 0 && number != 1 && number != 2 && number != 3) {
    return absl::InvalidArgumentError(absl::StrCat(
        "is ", number,
        "; versions 0, 1, 2 and 3 are read: say how "
        "query_key_value lies in the files with --qkv-layout and version 3"));
  }
  return static_cast<int>(number);
}

absl::StatusOr<MegatronShard> ReadMegatronState(const TorchFile& torch) {
  MegatronShard out;
  out.path = torch.path();
  DS_RETURN_IF_ERROR(Annotate(Fill(torch, &out), torch.path()));
  return out;
}

absl::StatusOr<MegatronShard> ReadMegatronShard(absl::string_view bytes,
                                                const std::string& path,
                                                int file) {
  DS_ASSIGN_OR_RETURN(const std::unique_ptr<TorchFile> torch,
                      TorchFile::Open(bytes, path));
  DS_ASSIGN_OR_RETURN(MegatronShard out, ReadMegatronState(*torch));
  const auto chunks = FindChunks(torch->root());
  if (!chunks.ok()) return Annotate(chunks.status(), path);
  for (const Value* chunk : *chunks) {
    DS_ASSIGN_OR_RETURN(TorchTensors listed, torch->ListTensors(*chunk));
    for (TensorInfo& t : listed.tensors) t.file = file;
    out.chunks.push_back(std::move(listed.tensors));
  }
  return out;
}

}  // namespace deepslice
