#include "compiler/checkpoint/file_kind.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace deepslice {
namespace {

struct Kind {
  absl::string_view start;
  absl::string_view name;
  absl::string_view wanted;  // the reader whose own files start like this
  absl::string_view remedy;
};

constexpr absl::string_view kSaveAgain =
    "load it with torch and save it with safetensors.torch.save_file";

constexpr Kind kKinds[] = {
    {"PK\x03\x04", "a PyTorch zip (.pt, .bin)", "PyTorch", kSaveAgain},
    {"PK\x05\x06", "an empty zip", "", "download it again"},
    // Protocol and first opcode: two bytes alone may be a header length.
    {"\x80\x02\x8a\x0a", "a Python pickle (.pt, .bin)", "PyTorch", kSaveAgain},
    {"\x80\x02}", "a Python pickle (.pt, .bin)", "PyTorch", kSaveAgain},
    {"\x80\x02"
     "c",
     "a Python pickle (.pt, .bin)", "PyTorch", kSaveAgain},
    {"\x80\x03}", "a Python pickle (.pt, .bin)", "PyTorch", kSaveAgain},
    {"\x80\x03"
     "c",
     "a Python pickle (.pt, .bin)", "PyTorch", kSaveAgain},
    {"\x80\x04\x95", "a Python pickle (.pt, .bin)", "PyTorch", kSaveAgain},
    {"\x80\x05\x95", "a Python pickle (.pt, .bin)", "PyTorch", kSaveAgain},
    {"GGUF", "a GGUF file", "GGUF", "rename it to end in .gguf"},
    {"\x89HDF\r\n", "an HDF5 file (Keras)", "",
     "use the PyTorch weights of the model"},
    {"\x1f\x8b", "a gzip file", "", "unpack it first"},
    {"<!DOCTYPE", "an HTML page", "", "the download failed; repeat it"},
    {"<html", "an HTML page", "", "the download failed; repeat it"},
};

}  // namespace

absl::Status RefuseLfsPointer(absl::string_view bytes,
                              const std::string& path) {
  if (!absl::StartsWith(bytes, "version https://git-lfs")) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat(
      path,
      ": start of file: this is a Git LFS pointer, not the file itself; run "
      "'git lfs pull' in its folder"));
}

absl::Status RefuseOtherKind(absl::string_view bytes, const std::string& path,
                             absl::string_view wanted) {
  if (absl::Status s = RefuseLfsPointer(bytes, path); !s.ok()) return s;
  for (const Kind& kind : kKinds) {
    if (kind.wanted != wanted && absl::StartsWith(bytes, kind.start)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": start of file: this is ", kind.name, ", not a ",
                       wanted, " file; ", kind.remedy));
    }
  }
  return absl::OkStatus();
}

}  // namespace deepslice
