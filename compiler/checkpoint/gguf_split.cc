#include "compiler/checkpoint/gguf_split.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/checkpoint/shard_set.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/file.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

constexpr absl::string_view kCountKey = "split.count";
constexpr absl::string_view kNumberKey = "split.no";
constexpr absl::string_view kTensorsKey = "split.tensors.count";

// "-00001-of-00003.gguf"
std::string Suffix(int64_t part, int64_t parts) {
  return absl::StrFormat("-%05d-of-%05d.gguf", part, parts);
}

// What a name says: part `part`, from 1 on, of `parts`.
struct PartName {
  std::string stem;
  int64_t part = 0, parts = 0;
};
std::optional<PartName> ParsePartName(absl::string_view name) {
  const size_t size = Suffix(1, 1).size();
  if (name.size() < size) return std::nullopt;
  const absl::string_view end = name.substr(name.size() - size);
  PartName out;
  if (!absl::SimpleAtoi(end.substr(1, 5), &out.part) ||
      !absl::SimpleAtoi(end.substr(10, 5), &out.parts) ||
      end != Suffix(out.part, out.parts)) {
    return std::nullopt;
  }
  out.stem = std::string(name.substr(0, name.size() - size));
  return out;
}

// An integer of the metadata from 0 on; `fallback` when absent.
absl::StatusOr<int64_t> Count(const GgufFile& file, absl::string_view key,
                              int64_t fallback) {
  const json::Value* v = file.metadata.Find(key);
  if (v == nullptr) return fallback;
  if (!v->is_int() || v->as_int() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, ": found ",
                     v->is_int() ? absl::StrCat(v->as_int())
                                 : std::string(json::KindName(v->kind())),
                     "; must be an integer from 0 on"));
  }
  return v->as_int();
}

// What a part says of itself must be what its name says.
absl::Status CheckPart(const GgufFile& file, const PartName& name) {
  DS_ASSIGN_OR_RETURN(const int64_t parts, Count(file, kCountKey, 1));
  if (parts != name.parts) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: found %d, but the name says %d parts; the parts of two models "
        "are mixed or renamed, download them again",
        kCountKey, parts, name.parts));
  }
  DS_ASSIGN_OR_RETURN(const int64_t number, Count(file, kNumberKey, -1));
  if (number != name.part - 1) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: found %s; must be %d in part %d, as parts count from 0: the "
        "parts are renamed, download them again",
        kNumberKey, number < 0 ? "none" : absl::StrCat(number), name.part - 1,
        name.part));
  }
  return absl::OkStatus();
}

// The part's tensors, which must be new, to the end of `whole`.
absl::Status Append(GgufFile part, WholeGguf* whole,
                    absl::flat_hash_set<std::string>* names) {
  std::vector<TensorInfo>& all = whole->file.tensors;
  if (static_cast<int64_t>(all.size() + part.tensors.size()) >
      limits::kTensorsPerCheckpoint) {
    return absl::ResourceExhaustedError(
        absl::StrCat("together the parts hold more than ",
                     limits::kTensorsPerCheckpoint, " tensors"));
  }
  for (TensorInfo& t : part.tensors) {
    if (!names->insert(t.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", Quoted(t.name),
                       ": an earlier part holds it, too; the parts are of two "
                       "models, download them again"));
    }
    t.file = static_cast<int>(whole->sources.size());
    all.push_back(std::move(t));
  }
  return absl::OkStatus();
}

// A later part of the same model may repeat metadata, but not contradict it.
absl::Status CheckSameModel(const GgufFile& part, const WholeGguf& whole) {
  for (const absl::string_view key :
       {absl::string_view("general.architecture"), kTensorsKey}) {
    const json::Value* first = whole.file.metadata.Find(key);
    const json::Value* here = part.metadata.Find(key);
    if (first != nullptr && here != nullptr &&
        json::Write(*first) != json::Write(*here)) {
      return absl::InvalidArgumentError(
          absl::StrCat(key, ": found ", json::Write(*here),
                       ", in the first part ", json::Write(*first),
                       "; the parts are of two models, download them again"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<WholeGguf> ReadParts(SourceBytes source, GgufFile file,
                                    const PartName& name) {
  const std::string folder = Dirname(source.path);
  std::vector<std::string> missing;
  for (int64_t i = 1; i <= name.parts; ++i) {
    const std::string other = name.stem + Suffix(i, name.parts);
    if (i != name.part && !FileExists(JoinPath(folder, other))) {
      missing.push_back(other);
    }
  }
  if (!missing.empty()) {
    return absl::NotFoundError(absl::StrFormat(
        "%s: is one of %d parts, %d of them not in the folder (%s); download "
        "the missing files",
        source.path, name.parts, missing.size(), ShortList(missing)));
  }
  WholeGguf whole;
  absl::flat_hash_set<std::string> names;
  for (int64_t i = 1; i <= name.parts; ++i) {
    PartName here = name;
    here.part = i;
    SourceBytes bytes;
    GgufFile part;
    if (i == name.part) {
      bytes = std::move(source);
      part = std::move(file);
    } else {
      DS_ASSIGN_OR_RETURN(
          bytes,
          MapSource(JoinPath(folder, name.stem + Suffix(i, name.parts))));
      DS_ASSIGN_OR_RETURN(part, ReadGguf(bytes.bytes, bytes.path));
    }
    DS_RETURN_IF_ERROR(Annotate(CheckPart(part, here), bytes.path));
    if (i == 1) {
      whole.file.version = part.version;
      whole.file.metadata = std::move(part.metadata);
    } else {
      DS_RETURN_IF_ERROR(Annotate(CheckSameModel(part, whole), bytes.path));
    }
    DS_RETURN_IF_ERROR(
        Annotate(Append(std::move(part), &whole, &names), bytes.path));
    whole.sources.push_back(std::move(bytes));
  }
  const int64_t held = static_cast<int64_t>(whole.file.tensors.size());
  const auto tensors = Count(whole.file, kTensorsKey, held);
  if (!tensors.ok()) return Annotate(tensors.status(), whole.sources[0].path);
  if (*tensors != held) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: %s: found %d, but the %d parts hold %d tensors; the parts are of "
        "two models, download them again",
        whole.sources[0].path, kTensorsKey, *tensors, name.parts, held));
  }
  return whole;
}

}  // namespace

absl::StatusOr<WholeGguf> ReadWholeGguf(SourceBytes source, GgufFile file) {
  const auto parts = Count(file, kCountKey, 1);
  if (!parts.ok()) return Annotate(parts.status(), source.path);
  const absl::string_view base = Basename(source.path);
  const std::optional<PartName> name = ParsePartName(base);
  // Some name a whole model 00001-of-00001.
  if (*parts <= 1 && (!name.has_value() || name->parts == 1)) {
    WholeGguf whole;
    whole.file = std::move(file);
    whole.sources.push_back(std::move(source));
    return whole;
  }
  if (!name.has_value()) {
    const auto number = Count(file, kNumberKey, 0);
    if (!number.ok()) return Annotate(number.status(), source.path);
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: %s: the file is part %d of %d, but its name does not end in %s; "
        "give all parts their names again, or join them with "
        "llama-gguf-split --merge",
        source.path, kCountKey, *number + 1, *parts,
        Suffix(*number + 1, *parts)));
  }
  if (name->part < 1 || name->part > name->parts ||
      name->parts > limits::kShards) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: the name says part %d of %d; parts count from 1, and at most %d "
        "are read",
        source.path, name->part, name->parts, limits::kShards));
  }
  DS_RETURN_IF_ERROR(Annotate(CheckPart(file, *name), source.path));
  return ReadParts(std::move(source), std::move(file), *name);
}

}  // namespace deepslice
