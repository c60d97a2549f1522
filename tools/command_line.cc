#include "tools/command_line.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace deepslice {
namespace {

// Insertions, removals and replacements between two words.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t corner = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = corner + (a[i - 1] == b[j - 1] ? 0 : 1);
      corner = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

// A negative number is none.
bool IsFlag(absl::string_view word) {
  return word.size() > 1 && word[0] == '-' && !absl::ascii_isdigit(word[1]);
}

}  // namespace

std::vector<std::string> NormalizedArguments(int argc,
                                             const char* const* argv) {
  std::vector<std::string> arguments(argv + std::min(1, argc), argv + argc);
  for (std::string& a : arguments) {
    if (a == "--") break;
    if (!absl::StartsWith(a, "--")) continue;
    const size_t end = std::min(a.find('='), a.size());
    std::replace(a.begin(), a.begin() + end, '_', '-');
  }
  return arguments;
}

std::optional<std::string> TakeFlag(absl::string_view flag,
                                    std::vector<std::string>* arguments) {
  std::optional<std::string> value;
  const std::string with_value = absl::StrCat(flag, "=");
  for (size_t i = 0; i < arguments->size() && (*arguments)[i] != "--";) {
    const std::string& a = (*arguments)[i];
    size_t taken = 1;
    if (a == flag) {
      value = "";
      if (i + 1 < arguments->size() && !IsFlag((*arguments)[i + 1])) {
        value = (*arguments)[i + 1];
        taken = 2;
      }
    } else if (absl::StartsWith(a, with_value)) {
      value = a.substr(with_value.size());
    } else {
      ++i;
      continue;
    }
    arguments->erase(arguments->begin() + i, arguments->begin() + i + taken);
  }
  return value;
}

std::string UnknownFlag(absl::string_view flag,
                        const std::vector<std::string>& names) {
  const absl::string_view name = flag.substr(0, flag.find('='));
  const std::string* best = nullptr;
  // More than a third of the letters wrong is another word.
  size_t best_distance = name.size() / 3 + 1;
  for (const std::string& n : names) {
    const size_t distance = EditDistance(name, n);
    if (distance < best_distance) {
      best = &n;
      best_distance = distance;
    }
  }
  if (best == nullptr && name.size() > 4) {  // the beginning of a longer one
    for (const std::string& n : names) {
      if (absl::StartsWith(n, name)) best = &n;
    }
  }
  std::string text = absl::StrCat("unknown flag ", name);
  if (best != nullptr) absl::StrAppend(&text, "; did you mean ", *best, "?");
  return text;
}

}  // namespace deepslice
