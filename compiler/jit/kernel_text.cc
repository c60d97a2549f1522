#include "compiler/jit/kernel_text.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

const EmbeddedKernelFile* FindFile(absl::string_view name) {
  const EmbeddedKernelFile* end = kKernelFiles + kKernelFilesCount;
  const auto it =
      std::find_if(kKernelFiles, end,
                   [&](const EmbeddedKernelFile& f) { return name == f.name; });
  return it == end ? nullptr : it;
}

// The name in a line #include "name"; empty for any other line.
absl::string_view IncludedName(absl::string_view line) {
  if (!absl::StartsWith(line, "#include")) return "";
  const size_t begin = line.find('"'), end = line.rfind('"');
  return begin < end ? line.substr(begin + 1, end - begin - 1) : "";
}

absl::Status Visit(absl::string_view name, std::vector<absl::string_view>* seen,
                   std::vector<const EmbeddedKernelFile*>* out) {
  if (std::find(seen->begin(), seen->end(), name) != seen->end()) {
    return absl::OkStatus();
  }
  const EmbeddedKernelFile* file = FindFile(name);
  if (file == nullptr) {
    return absl::InternalError(
        absl::StrCat("kernels/cuda/", name,
                     ": not embedded; name it in kernels/cuda/meson.build"));
  }
  seen->push_back(file->name);
  for (const absl::string_view line : absl::StrSplit(file->text, '\n')) {
    const absl::string_view included = IncludedName(line);
    if (included.empty()) continue;
    DS_RETURN_IF_ERROR(Visit(included, seen, out));
  }
  out->push_back(file);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<const EmbeddedKernelFile*>> KernelFilesOf(
    absl::string_view source) {
  std::vector<absl::string_view> seen;
  std::vector<const EmbeddedKernelFile*> out;
  DS_RETURN_IF_ERROR(Visit(source, &seen, &out));
  return out;
}

std::string KernelTextOf(const std::vector<const EmbeddedKernelFile*>& files,
                         absl::string_view entry) {
  std::string out = absl::StrCat("// ", entry, " of ", files.back()->name,
                                 ", with all that it includes.\n");
  for (const EmbeddedKernelFile* file : files) {
    absl::StrAppend(&out, "\n// ==== ", file->name, "\n");
    for (const absl::string_view line : absl::StrSplit(file->text, '\n')) {
      const bool gone =
          !IncludedName(line).empty() || absl::StartsWith(line, "#pragma once");
      absl::StrAppend(&out, gone ? "// " : "", line, "\n");
    }
  }
  return out;
}

}  // namespace deepslice
