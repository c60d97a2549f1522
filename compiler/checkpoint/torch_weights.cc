#include "compiler/checkpoint/torch_weights.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/checkpoint/shard_set.h"
#include "compiler/checkpoint/torch_file.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using pickle::Value;

constexpr absl::string_view kWrappers[] = {"state_dict", "model_state_dict",
                                           "model", "module"};
constexpr int kMostWrappers = 4;
// Of DistributedDataParallel, torch.compile, and Lightning's Fabric.
constexpr absl::string_view kPrefixes[] = {"module.", "_orig_mod.",
                                           "_forward_module."};

bool HasTensor(const Value& dict) {
  for (size_t i = 1; i < dict.items().size(); i += 2) {
    if (dict.items()[i]->is_tensor()) return true;
  }
  return false;
}

// The state dict in `dict`, and notes about what is left aside.
const Value* Unwrap(const Value* dict, const std::string& path,
                    std::vector<std::string>* notes) {
  for (int i = 0; i < kMostWrappers && !HasTensor(*dict); ++i) {
    const Value* inner = nullptr;
    absl::string_view wrapper;
    for (const absl::string_view key : kWrappers) {
      const Value* v = dict->Find(key);
      inner = v == nullptr ? nullptr : v->AsDict();
      wrapper = key;
      if (inner != nullptr) break;
    }
    if (inner == nullptr) break;
    std::vector<std::string> aside;
    for (size_t k = 0; k < dict->items().size(); k += 2) {
      const Value& key = *dict->items()[k];
      if (!key.is_text() || key.bytes() == wrapper) continue;
      aside.emplace_back(key.bytes());
    }
    notes->push_back(absl::StrCat(
        path, ": the weights are those under ", Quoted(wrapper),
        aside.empty()
            ? ""
            : absl::StrCat("; ignored beside them: ", ShortList(aside))));
    dict = inner;
  }
  return dict;
}

bool StripPrefix(std::vector<TensorInfo>* tensors, absl::string_view prefix) {
  if (!std::all_of(tensors->begin(), tensors->end(), [&](const TensorInfo& t) {
        return absl::StartsWith(t.name, prefix) &&
               t.name.size() > prefix.size();
      })) {
    return false;
  }
  for (TensorInfo& t : *tensors) {
    if (t.stored_name.empty()) t.stored_name = t.name;
    t.name.erase(0, prefix.size());
  }
  return true;
}

}  // namespace

absl::StatusOr<TorchWeights> ReadTorchWeights(absl::string_view file,
                                              const std::string& path) {
  DS_ASSIGN_OR_RETURN(const std::unique_ptr<TorchFile> torch,
                      TorchFile::Open(file, path));
  TorchWeights out;
  const Value* root = torch->root().AsDict();
  if (root == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": holds ", torch->root().Describe(),
        "; must be a dict of tensors: save the model's state_dict()"));
  }
  const Value* weights = Unwrap(root, path, &out.notes);
  DS_ASSIGN_OR_RETURN(TorchTensors listed, torch->ListTensors(*weights));
  if (listed.tensors.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": holds ", weights->Describe(),
        " without tensors; must be a dict of them: save the model's "
        "state_dict()"));
  }
  if (listed.num_others > 0) {
    out.notes.push_back(absl::StrCat(
        path, ": ", listed.num_others,
        listed.num_others == 1 ? " value is no tensor and is ignored: "
                               : " values are no tensors and are ignored: ",
        absl::StrJoin(listed.others, ", "),
        listed.num_others > static_cast<int64_t>(listed.others.size())
            ? " and others"
            : ""));
  }
  out.tensors = std::move(listed.tensors);
  StripWrapperPrefixes(path, &out.tensors, &out.notes);
  return out;
}

void StripWrapperPrefixes(const std::string& path,
                          std::vector<TensorInfo>* tensors,
                          std::vector<std::string>* notes) {
  for (const absl::string_view prefix : kPrefixes) {
    if (!tensors->empty() && StripPrefix(tensors, prefix)) {
      notes->push_back(absl::StrCat(path, ": all names begin with ",
                                    Quoted(prefix), ", which is left out"));
    }
  }
}

}  // namespace deepslice
