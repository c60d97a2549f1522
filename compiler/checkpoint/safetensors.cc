#include "compiler/checkpoint/safetensors.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/checkpoint/file_kind.h"
#include "compiler/checkpoint/json_scanner.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/checked_math.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr absl::string_view kMetadata = "__metadata__";
// Of a list in an entry: enough to name a shape in an error, and bounded.
constexpr size_t kMostNumbers = 64;

struct TypeRow {
  absl::string_view name;
  DType type;
};
constexpr TypeRow kTypes[] = {
    {"F64", DType::kF64},   {"F32", DType::kF32}, {"F16", DType::kF16},
    {"BF16", DType::kBF16}, {"I64", DType::kI64}, {"I32", DType::kI32},
    {"I16", DType::kI16},   {"I8", DType::kI8},   {"U64", DType::kU64},
    {"U32", DType::kU32},   {"U16", DType::kU16}, {"U8", DType::kU8},
    {"BOOL", DType::kBool}};
// Types of the format that no kernel here reads.
constexpr absl::string_view kUnreadTypes[] = {
    "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ",
    "F6_E2M3", "F6_E3M2", "F4",      "C64"};

absl::StatusOr<DType> ReadType(absl::string_view name) {
  for (const TypeRow& row : kTypes) {
    if (row.name == name) return row.type;
  }
  const std::string known =
      absl::StrJoin(kTypes, ", ", [](std::string* out, const TypeRow& row) {
        absl::StrAppend(out, row.name);
      });
  for (absl::string_view unread : kUnreadTypes) {
    if (unread == name) {
      return absl::UnimplementedError(absl::StrCat(
          "dtype: ", name,
          " is a known type that is not supported; supported: ", known,
          "; convert the checkpoint to BF16"));
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("dtype: found ", Quoted(name), "; must be one of ", known));
}

// One entry: {"dtype": ..., "shape": [...], "data_offsets": [begin, end]}.
// Other keys are skipped, as the reference reader does.
class EntryReader {
 public:
  explicit EntryReader(JsonScanner& scanner) : scanner_(scanner) {}

  // Fills all but the name; offsets count from the start of the data.
  absl::Status Read(TensorInfo* t) {
    if (scanner_.Peek() != '{') {
      return scanner_.Error(
          absl::StrCat("found ", scanner_.Describe(), "; must be an object"));
    }
    DS_RETURN_IF_ERROR(scanner_.Object(
        [&](const std::string& key) { return Member(key, t); }));
    if (!dtype_.has_value()) return Missing("dtype");
    if (!shape_) return Missing("shape");
    if (!offsets_) return Missing("data_offsets");
    return CheckSize(t);
  }

 private:
  static absl::Status Missing(absl::string_view key) {
    return absl::InvalidArgumentError(absl::StrCat(
        "has no \"", key, "\"; an entry needs dtype, shape and data_offsets"));
  }

  absl::Status Once(bool seen, absl::string_view key) {
    if (!seen) return absl::OkStatus();
    return scanner_.Error(
        absl::StrCat("duplicate key \"", key, "\" in one entry"));
  }

  absl::Status Member(const std::string& key, TensorInfo* t) {
    if (key == "dtype") {
      DS_RETURN_IF_ERROR(Once(dtype_.has_value(), key));
      if (scanner_.Peek() != '"') {
        return Annotate(
            scanner_.Error(absl::StrCat("found ", scanner_.Describe(),
                                        "; must be a string")),
            "dtype");
      }
      DS_ASSIGN_OR_RETURN(dtype_, scanner_.String());
      return absl::OkStatus();
    }
    if (key == "shape") {
      DS_RETURN_IF_ERROR(Once(shape_, key));
      shape_ = true;
      DS_RETURN_IF_ERROR(Annotate(ReadList(&t->shape), "shape"));
      if (t->shape.size() > limits::kTensorRank) {
        return absl::UnimplementedError(
            absl::StrCat("shape: has ", t->shape.size(), " dims; at most ",
                         limits::kTensorRank, " are supported"));
      }
      return absl::OkStatus();
    }
    if (key == "data_offsets") {
      DS_RETURN_IF_ERROR(Once(offsets_, key));
      offsets_ = true;
      std::vector<int64_t> pair;
      DS_RETURN_IF_ERROR(Annotate(ReadList(&pair), "data_offsets"));
      if (pair.size() != 2) {
        return absl::InvalidArgumentError(absl::StrCat(
            "data_offsets: found ", pair.size(), " numbers; must be 2"));
      }
      if (pair[1] < pair[0]) {
        return absl::InvalidArgumentError(absl::StrCat(
            "data_offsets: end ", pair[1], " is before begin ", pair[0]));
      }
      t->offset = pair[0];
      t->bytes = pair[1] - pair[0];
      return absl::OkStatus();
    }
    return scanner_.Skip();
  }

  absl::Status ReadList(std::vector<int64_t>* out) {
    if (scanner_.Peek() != '[') {
      return scanner_.Error(
          absl::StrCat("found ", scanner_.Describe(), "; must be an array"));
    }
    return scanner_.Array([&]() -> absl::Status {
      if (out->size() == kMostNumbers) {
        return scanner_.Error(
            absl::StrCat("has more than ", kMostNumbers, " numbers"));
      }
      DS_ASSIGN_OR_RETURN(const int64_t n, scanner_.Unsigned());
      out->push_back(n);
      return absl::OkStatus();
    });
  }

  absl::Status CheckSize(TensorInfo* t) {
    DS_ASSIGN_OR_RETURN(t->dtype, ReadType(*dtype_));
    const std::string shape =
        absl::StrCat("[", absl::StrJoin(t->shape, ", "), "]");
    // The product of the other dims must fit beside a 0 too: readers of a part
    // of the dims multiply them.
    int64_t bytes = DTypeSize(t->dtype);
    bool fits = true, empty = false;
    for (int64_t dim : t->shape) {
      empty = empty || dim == 0;
      fits = fits && CheckedMul(bytes, std::max<int64_t>(dim, 1), &bytes);
    }
    if (fits && empty) bytes = 0;
    if (!fits || bytes > limits::kTensorBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "shape: ", shape, " of ", *dtype_,
          fits ? absl::StrCat(" is ", bytes, " bytes") : " overflows 64 bits",
          "; a tensor has at most ", limits::kTensorBytes));
    }
    if (static_cast<uint64_t>(bytes) != t->bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("data_offsets: span ", t->bytes, " bytes; shape ", shape,
                       " of ", *dtype_, " needs ", bytes));
    }
    return absl::OkStatus();
  }

  JsonScanner& scanner_;
  std::optional<std::string> dtype_;
  bool shape_ = false;
  bool offsets_ = false;
};

absl::Status ReadMetadata(JsonScanner& scanner, SafetensorsHeader* header) {
  if (scanner.Peek() != '{') {
    return scanner.Error(absl::StrCat("found ", scanner.Describe(),
                                      "; must be an object of strings"));
  }
  absl::flat_hash_set<std::string> keys;
  return scanner.Object([&](const std::string& key) -> absl::Status {
    if (!keys.insert(key).second) {
      return scanner.Error(absl::StrCat("duplicate key ", Quoted(key)));
    }
    if (scanner.Peek() != '"') {
      return scanner.Error(absl::StrCat("key ", Quoted(key), " is ",
                                        scanner.Describe(),
                                        "; values must be strings"));
    }
    DS_ASSIGN_OR_RETURN(std::string value, scanner.String());
    header->metadata.emplace_back(key, std::move(value));
    return absl::OkStatus();
  });
}

absl::Status ReadEntries(absl::string_view json, SafetensorsHeader* header) {
  JsonScanner scanner(json);
  absl::flat_hash_set<std::string> names;
  DS_RETURN_IF_ERROR(
      scanner.Object([&](const std::string& name) -> absl::Status {
        if (!names.insert(name).second) {
          return scanner.Error(
              absl::StrCat("duplicate tensor name ", Quoted(name)));
        }
        if (name == kMetadata) {
          return Annotate(ReadMetadata(scanner, header), kMetadata);
        }
        if (static_cast<int64_t>(name.size()) > limits::kTensorNameBytes) {
          return absl::ResourceExhaustedError(absl::StrCat(
              "tensor ", Quoted(name), ": a name of ", name.size(),
              " bytes; at most ", limits::kTensorNameBytes, " are allowed"));
        }
        if (static_cast<int64_t>(header->tensors.size()) ==
            limits::kTensorsPerCheckpoint) {
          return absl::ResourceExhaustedError(absl::StrCat(
              "more than ", limits::kTensorsPerCheckpoint, " tensors"));
        }
        TensorInfo t;
        t.name = name;
        DS_RETURN_IF_ERROR(
            Annotate(EntryReader(scanner).Read(&t), "tensor ", Quoted(name)));
        header->tensors.push_back(std::move(t));
        return absl::OkStatus();
      }));
  return scanner.End();
}

// The tensors, sorted, lie end to end over exactly `data_bytes`.
absl::Status CheckCover(const std::vector<TensorInfo>& tensors,
                        uint64_t data_bytes) {
  uint64_t end = 0;
  const TensorInfo* last = nullptr;
  for (const TensorInfo& t : tensors) {
    if (t.offset > end) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", Quoted(t.name), ": data bytes ", end, " to ", t.offset,
          " before it belong to no tensor; offsets must leave no hole"));
    }
    if (t.offset < end) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", Quoted(t.name), ": begins at data byte ",
                       t.offset, ", inside tensor ", Quoted(last->name),
                       ", which ends at ", end, "; tensors may not overlap"));
    }
    end = t.offset + t.bytes;
    last = &t;
  }
  if (end > data_bytes) {
    return absl::DataLossError(absl::StrCat(
        "data: the file holds ", data_bytes,
        " bytes of data, its header names ", end, ": ", end - data_bytes,
        " missing; the file is cut, copy it again"));
  }
  if (end < data_bytes) {
    return absl::DataLossError(absl::StrCat("data: the file holds ", data_bytes,
                                            " bytes of data, its header names ",
                                            end, ": ", data_bytes - end,
                                            " too many; copy it again"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SafetensorsHeader> ReadSafetensorsHeader(
    absl::string_view file, const std::string& path) {
  // A true header starts with '{' here, whatever its length bytes look like.
  if (file.size() <= kLengthBytes || file[kLengthBytes] != '{') {
    DS_RETURN_IF_ERROR(RefuseOtherKind(file, path, "safetensors"));
  }
  if (file.size() < kLengthBytes) {
    return absl::DataLossError(absl::StrCat(
        path, ": header length: the file has ", file.size(),
        " bytes; a safetensors file has at least 10; copy it again"));
  }
  uint64_t length = 0;
  std::memcpy(&length, file.data(), kLengthBytes);
  if (length > static_cast<uint64_t>(limits::kSafetensorsHeaderBytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": header length: found ", length, "; at most ",
                     limits::kSafetensorsHeaderBytes,
                     " is allowed; this is no safetensors file, or it has too "
                     "many tensors"));
  }
  if (length < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": header length: found ", length,
                     "; the shortest header is 2 bytes: {}"));
  }
  const uint64_t room = file.size() - kLengthBytes;
  if (length > room) {
    return absl::DataLossError(
        absl::StrCat(path, ": header length: found ", length, "; only ", room,
                     " bytes follow; the file is cut, copy it again"));
  }
  const absl::string_view json = file.substr(kLengthBytes, length);
  if (json[0] != '{') {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": header: starts with ",
        absl::StartsWith(json, "\xef\xbb\xbf")
            ? std::string("a byte-order mark")
            : absl::StrFormat("byte 0x%02x", static_cast<uint8_t>(json[0])),
        "; must start with '{'"));
  }
  if (const size_t bad = FindBadUtf8(json); bad != absl::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": header: byte ", bad, " is not UTF-8; the header must be"));
  }
  SafetensorsHeader header;
  DS_RETURN_IF_ERROR(Annotate(ReadEntries(json, &header), path, ": header"));
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const TensorInfo& a, const TensorInfo& b) {
              if (a.offset != b.offset) return a.offset < b.offset;
              if (a.bytes != b.bytes) return a.bytes < b.bytes;
              return a.name < b.name;
            });
  DS_RETURN_IF_ERROR(Annotate(CheckCover(header.tensors, room - length), path));
  for (TensorInfo& t : header.tensors) t.offset += kLengthBytes + length;
  return header;
}

}  // namespace deepslice
