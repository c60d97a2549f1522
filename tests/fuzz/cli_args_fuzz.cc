// Command lines: a word on each line.
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "tests/fuzz/fuzz_target.h"
#include "tools/cli_values.h"
#include "tools/dsrun_options.h"

namespace deepslice {
namespace {

FUZZ_TARGET(cli_args) {
  // A word ends at its first zero byte, as the system hands them over.
  std::vector<std::string> words;
  for (const absl::string_view line : absl::StrSplit(input, '\n')) {
    words.emplace_back(line.substr(0, line.find('\0')));
  }
  std::vector<const char*> argv = {"dsrun"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  // Its flags are made once: that takes longer than to read a line.
  static DsrunCommandLine* const line = new DsrunCommandLine;
  const auto options = line->Parse(static_cast<int>(argv.size()), argv.data());
  if (!options.ok()) CheckRefusal(options.status());

  const auto bytes = ParseByteSize(words[0]);
  FUZZ_CHECK(!bytes.ok() || (*bytes >= 0 && *bytes <= int64_t{1} << 62));
  const auto duration = ParseDurationText(words[0]);
  FUZZ_CHECK(!duration.ok() || *duration >= absl::ZeroDuration());
}

}  // namespace
}  // namespace deepslice
