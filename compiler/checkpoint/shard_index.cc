#include "compiler/checkpoint/shard_index.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/checkpoint/file_kind.h"
#include "compiler/checkpoint/json_scanner.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/file.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

constexpr absl::string_view kSafetensors = ".safetensors";
constexpr absl::string_view kTorch[] = {".bin", ".pt", ".pth"};

// The ending of a file with weights; "" when it is none.
absl::string_view EndingOf(absl::string_view name) {
  if (absl::EndsWith(name, kSafetensors)) return kSafetensors;
  for (const absl::string_view ending : kTorch) {
    if (absl::EndsWith(name, ending)) return ending;
  }
  return "";
}

absl::Status CheckShardName(absl::string_view tensor, absl::string_view shard,
                            WeightFiles kind) {
  if (!IsSafeRelativePath(shard)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor ", Quoted(tensor), ": shard ", Quoted(shard),
        " is no path inside the folder; must be relative, without '..'"));
  }
  if (!IsWeightFile(shard, kind)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor ", Quoted(tensor), ": shard ", Quoted(shard),
        kind == WeightFiles::kSafetensors ? " is no .safetensors file"
                                          : " is no .bin, .pt or .pth file"));
  }
  return absl::OkStatus();
}

absl::Status ReadWeightMap(JsonScanner& scanner, WeightFiles kind,
                           ShardIndex* index) {
  if (scanner.Peek() != '{') {
    return scanner.Error(
        absl::StrCat("found ", scanner.Describe(), "; must be an object"));
  }
  return scanner.Object([&](const std::string& tensor) -> absl::Status {
    if (scanner.Peek() != '"') {
      return scanner.Error(absl::StrCat("tensor ", Quoted(tensor), ": found ",
                                        scanner.Describe(),
                                        "; must be a file name"));
    }
    DS_ASSIGN_OR_RETURN(std::string shard, scanner.String());
    DS_RETURN_IF_ERROR(CheckShardName(tensor, shard, kind));
    index->weight_map.emplace_back(tensor, std::move(shard));
    return absl::OkStatus();
  });
}

absl::Status ReadTotalSize(JsonScanner& scanner, ShardIndex* index) {
  if (scanner.Peek() != '{') return scanner.Skip();
  return scanner.Object([&](const std::string& key) -> absl::Status {
    const char c = scanner.Peek();
    if (key != "total_size" || c < '0' || c > '9') return scanner.Skip();
    DS_ASSIGN_OR_RETURN(index->total_size, scanner.Number());
    return absl::OkStatus();
  });
}

absl::StatusOr<ShardIndex> Read(absl::string_view text, WeightFiles kind) {
  if (const size_t bad = FindBadUtf8(text); bad != absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("byte ", bad, " is not UTF-8"));
  }
  ShardIndex index;
  JsonScanner scanner(text);
  bool has_map = false;
  DS_RETURN_IF_ERROR(
      scanner.Object([&](const std::string& key) -> absl::Status {
        if (key == "metadata") return ReadTotalSize(scanner, &index);
        if (key != "weight_map") return scanner.Skip();
        if (has_map) return scanner.Error("duplicate key \"weight_map\"");
        has_map = true;
        return Annotate(ReadWeightMap(scanner, kind, &index), "weight_map");
      }));
  DS_RETURN_IF_ERROR(scanner.End());
  if (index.weight_map.empty()) {
    return absl::InvalidArgumentError(
        has_map ? "weight_map: is empty; must map tensors to shards"
                : "has no \"weight_map\"; download the index again");
  }
  return index;
}

}  // namespace

bool IsWeightFile(absl::string_view name, WeightFiles kind) {
  const absl::string_view ending = EndingOf(name);
  return !ending.empty() &&
         (ending == kSafetensors) == (kind == WeightFiles::kSafetensors);
}

absl::StatusOr<ShardIndex> ReadShardIndex(absl::string_view text,
                                          const std::string& path,
                                          WeightFiles kind) {
  DS_RETURN_IF_ERROR(RefuseLfsPointer(text, path));
  auto index = Read(text, kind);
  if (!index.ok()) return Annotate(index.status(), path);
  std::sort(index->weight_map.begin(), index->weight_map.end());
  std::set<std::string> shards;
  for (size_t i = 0; i < index->weight_map.size(); ++i) {
    const auto& [tensor, shard] = index->weight_map[i];
    if (i > 0 && index->weight_map[i - 1].first == tensor) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": weight_map: duplicate tensor name ", Quoted(tensor)));
    }
    shards.insert(shard);
  }
  index->shards.assign(shards.begin(), shards.end());
  if (static_cast<int64_t>(index->shards.size()) > limits::kShards) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path, ": weight_map: names ", index->shards.size(),
                     " shards; at most ", limits::kShards, " are read"));
  }
  return index;
}

std::optional<ShardNumber> ParseShardNumber(absl::string_view name) {
  const absl::string_view ending = EndingOf(name);
  if (ending.empty()) return std::nullopt;
  const absl::string_view stem = name.substr(0, name.size() - ending.size());
  const size_t of = stem.rfind("-of-");
  if (of == absl::string_view::npos) return std::nullopt;
  const size_t dash = stem.substr(0, of).rfind('-');
  if (dash == absl::string_view::npos) return std::nullopt;
  const absl::string_view part = stem.substr(dash + 1, of - dash - 1);
  const absl::string_view parts = stem.substr(of + 4);
  ShardNumber out;
  constexpr absl::string_view kDigits = "0123456789";
  if (part.find_first_not_of(kDigits) != absl::string_view::npos ||
      parts.find_first_not_of(kDigits) != absl::string_view::npos ||
      !absl::SimpleAtoi(part, &out.part) ||
      !absl::SimpleAtoi(parts, &out.parts)) {
    return std::nullopt;
  }
  out.family = absl::StrCat(stem.substr(0, dash + 1), "*", stem.substr(of));
  out.ending = std::string(ending);
  return out;
}

std::string FindMissingPart(const std::vector<std::string>& names) {
  struct Family {
    std::set<int64_t> seen;
    int64_t parts;
    size_t digits;  // zero-padded width of the part number
  };
  std::map<std::string, Family> families;
  for (const std::string& name : names) {
    const auto number = ParseShardNumber(name);
    if (!number.has_value()) continue;
    const size_t digits =
        name.size() + 1 - number->family.size() - number->ending.size();
    Family& f = families[number->family + number->ending];
    f.seen.insert(number->part);
    f.parts = number->parts;
    f.digits = digits;
  }
  for (const auto& [name, family] : families) {
    // Some writers count from 0.
    const int64_t first = family.seen.count(0) ? 0 : 1;
    for (int64_t i = 0; i < family.parts; ++i) {
      const int64_t part = first + i;
      if (family.seen.count(part)) continue;
      const size_t star = name.rfind("*-of-");
      return absl::StrCat(name.substr(0, star),
                          absl::StrFormat("%0*d", family.digits, part),
                          name.substr(star + 1));
    }
  }
  return "";
}

}  // namespace deepslice
