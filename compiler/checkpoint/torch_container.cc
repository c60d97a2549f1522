#include "compiler/checkpoint/torch_container.h"

#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "compiler/checkpoint/file_kind.h"
#include "compiler/checkpoint/pickle.h"
#include "compiler/checkpoint/torch_types.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "compiler/checkpoint/zip_archive.h"
#include "schema/base/checked_math.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using pickle::Budget;
using pickle::Heap;
using pickle::Kind;
using pickle::Pickle;
using pickle::ReadPickle;
using pickle::Value;

constexpr absl::string_view kZipStart = "PK\x03\x04";
constexpr absl::string_view kObject = "data.pkl";
// 0x1950a86a20f9469cfc6c, the first pickle of the older container.
constexpr absl::string_view kMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
constexpr int64_t kProtocol = 1001;

absl::Status BigEndian() {
  return absl::UnimplementedError(
      "byte order: was saved on a big-endian machine; load it there and save "
      "it as safetensors");
}

// Strings that hold archives or pickles: nothing in them may run code.
absl::Status CheckHidden(const std::vector<absl::string_view>& blobs,
                         Heap& heap, Budget& budget) {
  std::vector<absl::string_view> pickles = blobs;
  for (const absl::string_view blob : blobs) {
    if (!absl::StartsWith(blob, kZipStart)) continue;
    const auto archive = ReadZip(blob, "");
    if (!archive.ok()) continue;
    for (const ZipEntry& e : archive->entries) {
      if (absl::EndsWith(e.name, ".pkl")) {
        pickles.push_back(blob.substr(e.offset, e.size));
      }
    }
  }
  return CheckBlobs(pickles, heap, budget);
}

// The folder of the one data.pkl: "archive/".
absl::StatusOr<absl::string_view> FindRoot(const ZipArchive& archive) {
  const ZipEntry* found = nullptr;
  for (const ZipEntry& e : archive.entries) {
    absl::string_view folder = e.name;
    if (!absl::ConsumeSuffix(&folder, kObject) || folder.empty() ||
        folder.find('/') != folder.size() - 1) {
      continue;
    }
    if (found != nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("entries ", Quoted(found->name), " and ", Quoted(e.name),
                       " are there; a file of torch.save has "
                       "one ",
                       kObject));
    }
    found = &e;
  }
  if (found == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "is a zip, but not one of torch.save: it has no ", kObject));
  }
  const absl::string_view root =
      found->name.substr(0, found->name.size() - kObject.size());
  if (archive.Find(absl::StrCat(root, "constants.pkl")) != nullptr) {
    return absl::UnimplementedError(
        "is a TorchScript archive; save the model's state_dict() with "
        "torch.save");
  }
  return root;
}

absl::StatusOr<TorchContainer> ReadFromZip(absl::string_view file,
                                           const std::string& path,
                                           Heap& heap) {
  DS_ASSIGN_OR_RETURN(const ZipArchive archive, ReadZip(file, path));
  const absl::StatusOr<absl::string_view> root = FindRoot(archive);
  if (!root.ok()) return Annotate(root.status(), path);
  if (const ZipEntry* order = archive.Find(absl::StrCat(*root, "byteorder"))) {
    DS_RETURN_IF_ERROR(CheckCrc(file, path, *order));
    if (file.substr(order->offset, order->size) != "little") {
      return Annotate(BigEndian(), path);
    }
  }
  const ZipEntry& object = *archive.Find(absl::StrCat(*root, kObject));
  DS_RETURN_IF_ERROR(CheckCrc(file, path, object));
  const absl::string_view bytes = file.substr(object.offset, object.size);
  Budget budget;
  const absl::StatusOr<Pickle> read = ReadPickle(bytes, 0, heap, budget);
  if (!read.ok()) return Annotate(read.status(), path, ": ", kObject);
  if (read->end != bytes.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", kObject, ": ", bytes.size() - read->end,
                     " bytes follow the pickle; nothing may"));
  }
  TorchContainer out;
  out.root = read->root;
  std::vector<absl::string_view> hidden = read->blobs;
  const std::string data = absl::StrCat(*root, "data/");
  for (const ZipEntry& e : archive.entries) {
    absl::string_view key = e.name;
    if (absl::ConsumePrefix(&key, data)) {
      out.storages[key] = {e.offset, e.size};
    } else if (absl::EndsWith(key, ".pkl") && &e != &object) {
      hidden.push_back(file.substr(e.offset, e.size));
    }
  }
  DS_RETURN_IF_ERROR(Annotate(CheckHidden(hidden, heap, budget), path));
  return out;
}

// The storages of the older container: for each key a count and its elements.
absl::Status ReadLegacyStorages(absl::string_view file, size_t at,
                                const Value& keys, const Pickle& object,
                                TorchContainer* out) {
  if (keys.kind() != Kind::kList) {
    return absl::InvalidArgumentError(absl::StrCat(
        "keys of the storages: found ", keys.Describe(), "; must be a list"));
  }
  absl::flat_hash_map<absl::string_view, const Value*> used;
  for (const Value* s : object.storages) used[s->items()[1]->bytes()] = s;
  for (const Value* key : keys.items()) {
    if (!key->is_text()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "keys of the storages: found ", key->Describe(), "; must be text"));
    }
    const auto where = [&] {
      return absl::StrCat("storage ", Quoted(key->bytes()));
    };
    const auto it = used.find(key->bytes());
    if (it == used.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(where(), ": no tensor uses it, so its type is unknown"));
    }
    const absl::StatusOr<TorchType> type =
        TypeOfStorage(*it->second->items()[0]);
    if (!type.ok()) return Annotate(type.status(), where());
    int64_t count = 0;
    if (file.size() - at < sizeof(count)) {
      return absl::DataLossError(absl::StrCat(
          where(), ": the file ends before it; it is cut, copy it again"));
    }
    std::memcpy(&count, file.data() + at, sizeof(count));
    at += sizeof(count);
    uint64_t bytes = 0;
    if (count < 0 ||
        !CheckedMul(uint64_t(count), uint64_t(type->size), &bytes) ||
        bytes > file.size() - at) {
      return absl::DataLossError(absl::StrCat(
          where(), ": has ", count, " elements of ", type->size, " bytes, ",
          file.size() - at, " bytes follow; the file is cut, copy it again"));
    }
    if (!out->storages.emplace(key->bytes(), TorchContainer::Extent{at, bytes})
             .second) {
      return absl::InvalidArgumentError(
          absl::StrCat(where(), ": is there twice"));
    }
    at += bytes;
  }
  if (at != file.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("byte ", at, ": ", file.size() - at,
                     " bytes follow the last storage; nothing may"));
  }
  return absl::OkStatus();
}

absl::StatusOr<TorchContainer> ReadLegacy(absl::string_view file, Heap& heap) {
  Budget budget;
  DS_ASSIGN_OR_RETURN(const Pickle magic, ReadPickle(file, 0, heap, budget));
  if (magic.root->kind() != Kind::kBigInt || magic.root->bytes() != kMagic) {
    // It may be hostile all the same, and the message should then say that.
    DS_RETURN_IF_ERROR(CheckHidden(magic.blobs, heap, budget));
    return absl::InvalidArgumentError(absl::StrCat(
        "is a pickle of ", magic.root->Describe(),
        ", but none that torch.save "
        "wrote; save the tensors with safetensors.torch.save_file"));
  }
  DS_ASSIGN_OR_RETURN(const Pickle protocol,
                      ReadPickle(file, magic.end, heap, budget));
  if (!protocol.root->is_int() || protocol.root->as_int() != kProtocol) {
    return absl::UnimplementedError(
        absl::StrCat("protocol: found ", protocol.root->Describe(), "; only ",
                     kProtocol, " is read"));
  }
  DS_ASSIGN_OR_RETURN(const Pickle system,
                      ReadPickle(file, protocol.end, heap, budget));
  const Value* little = system.root->Find("little_endian");
  if (little != nullptr && little->kind() == Kind::kBool &&
      !little->as_bool()) {
    return BigEndian();
  }
  DS_ASSIGN_OR_RETURN(Pickle object,
                      ReadPickle(file, system.end, heap, budget));
  DS_ASSIGN_OR_RETURN(const Pickle keys,
                      ReadPickle(file, object.end, heap, budget));
  TorchContainer out;
  out.root = object.root;
  DS_RETURN_IF_ERROR(
      ReadLegacyStorages(file, keys.end, *keys.root, object, &out));
  std::vector<absl::string_view> hidden = std::move(object.blobs);
  for (const Pickle* p : {&magic, &protocol, &system, &keys}) {
    hidden.insert(hidden.end(), p->blobs.begin(), p->blobs.end());
  }
  DS_RETURN_IF_ERROR(CheckHidden(hidden, heap, budget));
  return out;
}

}  // namespace

bool LooksLikeTorchFile(absl::string_view file) {
  return absl::StartsWith(file, kZipStart) ||
         (file.size() > 2 && file[0] == '\x80' && file[1] >= 2 && file[1] <= 5);
}

absl::StatusOr<TorchContainer> ReadTorchContainer(absl::string_view file,
                                                  const std::string& path,
                                                  Heap& heap) {
  if (absl::StartsWith(file, kZipStart)) return ReadFromZip(file, path, heap);
  DS_RETURN_IF_ERROR(RefuseOtherKind(file, path, "PyTorch"));
  constexpr size_t kTarPlace = 257;  // of the word in a tar's first header
  if (file.size() > kTarPlace &&
      absl::StartsWith(file.substr(kTarPlace), "ustar")) {
    return absl::UnimplementedError(absl::StrCat(
        path,
        ": is a tar, as PyTorch before 0.1.1 saved; load it with torch and "
        "save it again"));
  }
  if (file.size() > 8 && file[8] == '{') {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        ": start of file: this looks like a safetensors file, not a PyTorch "
        "file; rename it to end in .safetensors"));
  }
  if (file.empty() || file[0] != '\x80') {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": start of file: found ", Quoted(file.substr(0, 4)),
        "; a file of torch.save is a zip or begins with a pickle"));
  }
  auto out = ReadLegacy(file, heap);
  if (!out.ok()) return Annotate(out.status(), path);
  return out;
}

}  // namespace deepslice
