// Writes the inputs of fuzzing that only the project's own writers can make:
//   make_seeds plan FOLDER
//   make_seeds tokenizer_tables FOLDER INPUTS   (those of tokenizer_json)
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/text/tokenizer_tables.h"
#include "schema/base/file.h"
#include "schema/base/status_macros.h"
#include "tests/fuzz/corpus.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/plan_seeds.h"

namespace deepslice {
namespace {

absl::Status WritePlans(const std::string& folder) {
  for (const PlanSeed& seed : PlanSeeds()) {
    DS_RETURN_IF_ERROR(
        WriteFile(JoinPath(folder, seed.name + ".plan"), seed.bytes));
  }
  return absl::OkStatus();
}

absl::Status WriteTables(const std::string& folder, const std::string& from) {
  DS_ASSIGN_OR_RETURN(const std::vector<CorpusInput> inputs, ReadCorpus(from));
  for (const CorpusInput& input : inputs) {
    const auto parts = SplitParts(input.bytes, 3);
    const auto tables = ReadTokenizerJson(parts[2], {});
    if (!tables.ok()) continue;
    const absl::string_view text = parts[0].substr(0, 64);
    DS_RETURN_IF_ERROR(
        WriteFile(JoinPath(folder, input.name),
                  absl::StrCat(std::string(1, static_cast<char>(text.size())),
                               text, tables->bytes)));
  }
  return absl::OkStatus();
}

absl::Status Run(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "plan" && argc == 3) return WritePlans(argv[2]);
  if (what == "tokenizer_tables" && argc == 4) {
    return WriteTables(argv[2], argv[3]);
  }
  return absl::InvalidArgumentError(
      "usage: make_seeds plan FOLDER | tokenizer_tables FOLDER INPUTS");
}

}  // namespace
}  // namespace deepslice

int main(int argc, char** argv) {
  const absl::Status status = deepslice::Run(argc, argv);
  if (!status.ok()) {
    std::fprintf(stderr, "make_seeds: %s\n",
                 std::string(status.message()).c_str());
  }
  return status.ok() ? 0 : 1;
}
