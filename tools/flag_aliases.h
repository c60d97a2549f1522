// The names that other programs have for our flags.
#ifndef DEEPSLICE_TOOLS_FLAG_ALIASES_H_
#define DEEPSLICE_TOOLS_FLAG_ALIASES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace deepslice {

struct FlagAlias {
  absl::string_view flag;   // ours, without dashes
  absl::string_view alias;  // theirs, with dashes: "--num-shard", "-tp"
};

// Sorted by flag. Only what means the same: a value that goes with the alias
// does the same here.
absl::Span<const FlagAlias> FlagAliases();

// Renames aliases in `arguments`, up to a `--`, when `has_flag` says that the
// command has our flag and not theirs. "-tp 4", "-tp=4" and "--num_shard=4"
// become "--tp 4", "--tp=4" and "--tp=4".
template <typename HasFlag>
void ReplaceAliases(const HasFlag& has_flag,
                    std::vector<std::string>* arguments) {
  for (std::string& word : *arguments) {
    if (word == "--") return;
    const size_t end = word.find('=');
    const std::string name = word.substr(0, end);
    for (const FlagAlias& a : FlagAliases()) {
      if (a.alias != name || !has_flag(std::string(a.flag)) ||
          (name[1] == '-' && has_flag(name.substr(2)))) {
        continue;
      }
      word = "--" + std::string(a.flag) +
             (end == std::string::npos ? "" : word.substr(end));
      break;
    }
  }
}

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_FLAG_ALIASES_H_
