// Lists of passes as people write them in flags and goldens.
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "passes/pass.h"
#include "schema/base/nearest.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// Up to the next of `stops`, without space around it; `text` goes on there.
absl::string_view TakeUntil(absl::string_view* text, absl::string_view stops) {
  const size_t end = std::min(text->find_first_of(stops), text->size());
  const absl::string_view taken = text->substr(0, end);
  text->remove_prefix(end);
  return absl::StripAsciiWhitespace(taken);
}

// "tp=2, rank=1)", its '(' already taken.
absl::StatusOr<PassArguments> TakeArguments(absl::string_view* text) {
  PassArguments arguments;
  while (true) {
    const absl::string_view argument = TakeUntil(text, ",)");
    if (text->empty()) {
      return absl::InvalidArgumentError(
          "expected ')' after the arguments, got end of text");
    }
    const bool last = text->front() == ')';
    text->remove_prefix(1);
    if (last && argument.empty() && arguments.empty()) return arguments;
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(argument, absl::MaxSplits('=', 1));
    const std::string key(absl::StripAsciiWhitespace(parts.first));
    const std::string value(absl::StripAsciiWhitespace(parts.second));
    if (key.empty() || value.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected name=value, got \"", argument, "\""));
    }
    for (const auto& [other, unused] : arguments) {
      if (other == key) {
        return absl::InvalidArgumentError(
            absl::StrCat("argument ", key, " is given twice"));
      }
    }
    arguments.emplace_back(key, value);
    if (last) return arguments;
  }
}

absl::StatusOr<std::unique_ptr<Pass>> MakePass(absl::string_view given,
                                               const PassArguments& arguments) {
  const std::string name = absl::StrReplaceAll(given, {{"_", "-"}});
  std::vector<absl::string_view> names;
  for (const PassInfo& info : AllPasses()) {
    names.push_back(info.name);
    if (info.name != name) continue;
    absl::StatusOr<std::unique_ptr<Pass>> pass = info.make(arguments);
    if (!pass.ok()) return Annotate(pass.status(), "pass ", name);
    return pass;
  }
  const std::string nearest = NearestName(name, names);
  return absl::InvalidArgumentError(absl::StrCat(
      "found pass \"", given, "\"; allowed: ", absl::StrJoin(names, ", "),
      nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?")));
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Pass>>> ParsePasses(
    absl::string_view text) {
  std::vector<std::unique_ptr<Pass>> passes;
  if (absl::StripAsciiWhitespace(text).empty()) return passes;
  while (true) {
    const absl::string_view name = TakeUntil(&text, ",(");
    if (name.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "expected a pass, got ",
          text.empty() ? "end of text"
                       : "'" + std::string(1, text.front()) + "'"));
    }
    PassArguments arguments;
    if (!text.empty() && text.front() == '(') {
      text.remove_prefix(1);
      absl::StatusOr<PassArguments> taken = TakeArguments(&text);
      if (!taken.ok()) return Annotate(taken.status(), "pass ", name);
      arguments = *std::move(taken);
      const absl::string_view rest = TakeUntil(&text, ",");
      if (!rest.empty()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "pass ", name, ": expected ',' after ')', got \"", rest, "\""));
      }
    }
    DS_ASSIGN_OR_RETURN(std::unique_ptr<Pass> pass, MakePass(name, arguments));
    passes.push_back(std::move(pass));
    if (text.empty()) return passes;
    text.remove_prefix(1);
  }
}

}  // namespace deepslice
