#include "compiler/checkpoint/shard_set.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/checkpoint/safetensors.h"
#include "compiler/checkpoint/strided_rows.h"
#include "compiler/checkpoint/torch_weights.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/file.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// Places of a tensor: indexes into parts->tensors, in file order.
using Places = absl::flat_hash_map<std::string, std::vector<size_t>>;

// The tensors of a file, of the kind that its name says: one without an ending
// of its own is PyTorch's.
absl::StatusOr<std::vector<TensorInfo>> ReadTensors(
    const SourceBytes& source, std::vector<std::string>* notes) {
  if (!IsWeightFile(source.path, WeightFiles::kSafetensors)) {
    DS_ASSIGN_OR_RETURN(TorchWeights weights,
                        ReadTorchWeights(source.bytes, source.path));
    notes->insert(notes->end(), weights.notes.begin(), weights.notes.end());
    return std::move(weights.tensors);
  }
  DS_ASSIGN_OR_RETURN(SafetensorsHeader header,
                      ReadSafetensorsHeader(source.bytes, source.path));
  return std::move(header.tensors);
}

// Maps the files and appends all their tensors, doubles included.
absl::StatusOr<Places> ReadShards(const std::string& folder,
                                  const std::vector<std::string>& names,
                                  CheckpointParts* parts) {
  Places places;
  for (const std::string& name : names) {
    DS_ASSIGN_OR_RETURN(SourceBytes source, MapSource(JoinPath(folder, name)));
    DS_ASSIGN_OR_RETURN(std::vector<TensorInfo> tensors,
                        ReadTensors(source, &parts->notes));
    if (static_cast<int64_t>(parts->tensors.size() + tensors.size()) >
        limits::kTensorsPerCheckpoint) {
      return absl::ResourceExhaustedError(
          absl::StrCat(source.path, ": together the shards hold more than ",
                       limits::kTensorsPerCheckpoint, " tensors"));
    }
    for (TensorInfo& t : tensors) {
      t.file = static_cast<int>(parts->sources.size());
      places[t.name].push_back(parts->tensors.size());
      parts->tensors.push_back(std::move(t));
    }
    parts->sources.push_back(std::move(source));
  }
  return places;
}

absl::string_view BytesOf(const CheckpointParts& parts, const TensorInfo& t) {
  return parts.sources[t.file].bytes.substr(t.offset, t.bytes);
}

// The elements' bytes in the order of the dims, in `copy` when they have to be
// gathered.
absl::string_view ElementsOf(const CheckpointParts& parts, const TensorInfo& t,
                             std::string* copy) {
  const absl::string_view bytes = BytesOf(parts, t);
  if (t.strides.empty()) return bytes;
  const int64_t size = DTypeSize(t.dtype);
  copy->reserve(t.num_elements() * size);
  ForEachLine(t, reinterpret_cast<const uint8_t*>(bytes.data()), 0, t.rows(),
              [&](const uint8_t* line, int64_t count) {
                copy->append(reinterpret_cast<const char*>(line), count * size);
              });
  return *copy;
}

bool AreEqual(const CheckpointParts& parts, const TensorInfo& a,
              const TensorInfo& b) {
  if (a.dtype != b.dtype || a.shape != b.shape ||
      a.unreadable != b.unreadable) {
    return false;
  }
  std::string copy_a, copy_b;
  return ElementsOf(parts, a, &copy_a) == ElementsOf(parts, b, &copy_b);
}

// Bytes of all tensors as `total_size` counts them: each, or those that share
// theirs once.
struct TotalBytes {
  uint64_t all = 0, shared_once = 0;
};
TotalBytes CountBytes(const std::vector<TensorInfo>& tensors) {
  TotalBytes out;
  absl::flat_hash_set<std::pair<int, uint64_t>> seen;
  for (const TensorInfo& t : tensors) {
    const uint64_t bytes = t.num_elements() * DTypeSize(t.dtype);
    out.all += bytes;
    if (seen.emplace(t.file, t.offset).second) out.shared_once += bytes;
  }
  return out;
}

// Keeps one tensor of each name (the first place, or the one `kept` names) and
// refuses unequal doubles.
absl::Status DropDoubles(const std::string& folder, const Places& places,
                         const absl::flat_hash_map<std::string, size_t>& kept,
                         CheckpointParts* parts) {
  std::vector<std::string> doubles;
  for (const auto& [name, where] : places) {
    if (where.size() > 1) doubles.push_back(name);
  }
  if (doubles.empty()) return absl::OkStatus();
  std::sort(doubles.begin(), doubles.end());
  std::vector<bool> drop(parts->tensors.size(), false);
  for (const std::string& name : doubles) {
    const std::vector<size_t>& where = places.at(name);
    const auto it = kept.find(name);
    const size_t keep = it == kept.end() ? where[0] : it->second;
    const TensorInfo& a = parts->tensors[keep];
    for (size_t other : where) {
      if (other == keep) continue;
      const TensorInfo& b = parts->tensors[other];
      if (!AreEqual(*parts, a, b)) {
        const size_t first = std::min(keep, other);
        const size_t second = std::max(keep, other);
        return absl::InvalidArgumentError(absl::StrCat(
            folder, ": tensor ", Quoted(name), ": is in ",
            Quoted(Basename(parts->sources[parts->tensors[first].file].path)),
            " and in ",
            Quoted(Basename(parts->sources[parts->tensors[second].file].path)),
            " with different values; remove the file that is wrong"));
      }
      drop[other] = true;
    }
  }
  std::vector<TensorInfo> left;
  left.reserve(parts->tensors.size());
  for (size_t i = 0; i < drop.size(); ++i) {
    if (!drop[i]) left.push_back(std::move(parts->tensors[i]));
  }
  parts->tensors = std::move(left);
  parts->notes.push_back(
      absl::StrCat(folder, ": ", doubles.size(),
                   doubles.size() == 1 ? " tensor" : " tensors",
                   " in two shards with equal values: ", ShortList(doubles)));
  return absl::OkStatus();
}

// Whether the files that are there hold every tensor of the index: then the
// index is stale rather than the download incomplete.
bool HoldAll(const std::string& folder, const ShardIndex& index,
             const std::vector<std::string>& present) {
  CheckpointParts probe;
  const auto places = ReadShards(folder, present, &probe);
  if (!places.ok()) return false;
  return std::all_of(
      index.weight_map.begin(), index.weight_map.end(),
      [&](const auto& entry) { return places->contains(entry.first); });
}

absl::Status CheckAllPresent(const std::string& folder,
                             const std::string& index_path,
                             const ShardIndex& index,
                             const std::vector<std::string>& present) {
  std::vector<std::string> absent;
  for (const std::string& shard : index.shards) {
    if (!FileExists(JoinPath(folder, shard))) absent.push_back(shard);
  }
  if (!absent.empty()) {
    const bool stale = HoldAll(folder, index, present);
    return absl::NotFoundError(absl::StrFormat(
        "%s: weight_map: names %d shards, %d of them not in the folder (%s); "
        "%s",
        index_path, index.shards.size(), absent.size(), ShortList(absent),
        stale ? "the files that are there hold every tensor: the index is out "
                "of date, --ignore-index reads them without it"
              : "download the missing files"));
  }
  if (const std::string part = FindMissingPart(index.shards); !part.empty()) {
    const bool exists = FileExists(JoinPath(folder, part));
    return absl::InvalidArgumentError(absl::StrCat(
        index_path, ": weight_map: names other parts of the family but not ",
        Quoted(part), ", which is ", exists ? "" : "not ",
        "in the folder; the index is incomplete, download it again",
        exists ? " or read all shards with --ignore-index" : ""));
  }
  return absl::OkStatus();
}

}  // namespace

std::string ShortList(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < names.size() && i < 3; ++i) {
    absl::StrAppend(&out, i == 0 ? "" : ", ", Quoted(names[i]));
  }
  if (names.size() > 3) {
    absl::StrAppend(&out, " and ", names.size() - 3, " more");
  }
  return out;
}

absl::Status ReadIndexedShards(const std::string& folder,
                               const std::string& index_path,
                               const ShardIndex& index,
                               const std::vector<std::string>& present,
                               CheckpointParts* parts) {
  DS_RETURN_IF_ERROR(CheckAllPresent(folder, index_path, index, present));
  DS_ASSIGN_OR_RETURN(const Places places,
                      ReadShards(folder, index.shards, parts));
  absl::flat_hash_map<std::string, int> file_of_shard;
  for (size_t i = 0; i < index.shards.size(); ++i) {
    file_of_shard[index.shards[i]] = static_cast<int>(i);
  }
  absl::flat_hash_map<std::string, size_t> kept;
  for (const auto& [tensor, shard] : index.weight_map) {
    const auto where = [&, &tensor = tensor, &shard = shard] {
      return absl::StrCat(index_path, ": weight_map: tensor ", Quoted(tensor),
                          ": mapped to ", Quoted(shard));
    };
    const auto it = places.find(tensor);
    if (it == places.end()) {
      return absl::DataLossError(absl::StrCat(
          where(),
          ", but neither it nor another shard holds that tensor; the "
          "shard is from another save, download both again"));
    }
    const int file = file_of_shard.at(shard);
    const auto place =
        std::find_if(it->second.begin(), it->second.end(),
                     [&](size_t i) { return parts->tensors[i].file == file; });
    if (place == it->second.end()) {
      const TensorInfo& t = parts->tensors[it->second[0]];
      return absl::InvalidArgumentError(absl::StrCat(
          where(), ", but it is in ", Quoted(index.shards[t.file]),
          "; the index is wrong, download it again or read all shards with "
          "--ignore-index"));
    }
    kept[tensor] = *place;
  }
  const TotalBytes total = CountBytes(parts->tensors);
  for (const TensorInfo& t : parts->tensors) {
    if (!kept.contains(t.name)) {
      return absl::InvalidArgumentError(absl::StrCat(
          parts->sources[t.file].path, ": tensor ", Quoted(t.name),
          ": is not listed in ", Quoted(Basename(index_path)),
          "; the index is incomplete, download it again or read all shards "
          "with --ignore-index"));
    }
  }
  DS_RETURN_IF_ERROR(DropDoubles(folder, places, kept, parts));
  if (index.total_size.has_value() &&
      *index.total_size != static_cast<double>(total.all) &&
      *index.total_size != static_cast<double>(total.shared_once)) {
    parts->notes.push_back(absl::StrFormat(
        "%s: metadata: total_size is %.0f, the tensors have %d bytes",
        index_path, *index.total_size, total.all));
  }
  return absl::OkStatus();
}

absl::Status ReadAllShards(const std::string& folder,
                           const std::vector<std::string>& names,
                           CheckpointParts* parts) {
  DS_ASSIGN_OR_RETURN(const Places places, ReadShards(folder, names, parts));
  DS_RETURN_IF_ERROR(DropDoubles(folder, places, {}, parts));
  if (const std::string part = FindMissingPart(names); !part.empty()) {
    parts->notes.push_back(
        absl::StrCat(folder, ": ", Quoted(part),
                     " is not in the folder: the tensors that "
                     "are there are taken as the whole model"));
  }
  return absl::OkStatus();
}

}  // namespace deepslice
