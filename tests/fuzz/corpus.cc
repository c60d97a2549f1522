#include "tests/fuzz/corpus.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "schema/base/file.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

constexpr int64_t kMostBytes = 64 << 20;  // of one file

absl::Status Unpack(const std::string& name, absl::string_view pack,
                    std::vector<CorpusInput>* out) {
  for (int number = 0; !pack.empty(); ++number) {
    const size_t line = pack.find('\n');
    uint64_t size = 0;
    if (line == pack.npos || !absl::SimpleAtoi(pack.substr(0, line), &size) ||
        size >= pack.size() - line - 1 || pack[line + 1 + size] != '\n') {
      return absl::DataLossError(
          absl::StrCat(name, ": input ", number, ": is cut or has no size"));
    }
    out->push_back({absl::StrCat(name, " ", number),
                    std::string(pack.substr(line + 1, size))});
    pack.remove_prefix(line + 1 + size + 1);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<CorpusInput>> ReadCorpus(const std::string& folder) {
  std::vector<CorpusInput> out;
  DS_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListDirectory(folder));
  for (const std::string& name : names) {
    DS_ASSIGN_OR_RETURN(std::string bytes,
                        ReadFile(JoinPath(folder, name), kMostBytes));
    if (absl::EndsWith(name, ".pack")) {
      DS_RETURN_IF_ERROR(Unpack(name, bytes, &out));
    } else {
      out.push_back({name, std::move(bytes)});
    }
  }
  return out;
}

}  // namespace deepslice
