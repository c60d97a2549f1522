#include "tools/prompt_file.h"

#include <iostream>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "schema/base/file.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// Far more than a batch of prompts.
constexpr int64_t kMostTextBytes = int64_t{1} << 30;

absl::StatusOr<PromptJob> ParseObject(absl::string_view line) {
  DS_ASSIGN_OR_RETURN(const json::Value object, json::Parse(line));
  PromptJob job;
  DS_ASSIGN_OR_RETURN(job.choice, ReadChoice(object, {"prompt", "prompt_ids",
                                                      "prompt_token_ids"}));
  int prompts = 0;
  for (const auto& [key, value] : object.members()) {
    if (key == "prompt" && value.is_string()) {
      job.text = value.as_string();
      ++prompts;
    } else if (key == "prompt" || key == "prompt_ids" ||
               key == "prompt_token_ids") {
      if (!value.is_array()) {
        return absl::InvalidArgumentError(
            absl::StrCat("\"", key, "\": found ", json::KindName(value.kind()),
                         key == "prompt" ? "; a string or" : ";",
                         " an array of token ids is needed"));
      }
      job.ids.emplace();
      ++prompts;
      for (const json::Value& id : value.items()) {
        if (!id.is_int() || id.as_int() < 0 || id.as_int() > INT32_MAX) {
          return absl::InvalidArgumentError(absl::StrCat(
              "\"", key, "\": ", json::Write(id), " is no token id"));
        }
        job.ids->push_back(static_cast<int32_t>(id.as_int()));
      }
    }
  }
  if (prompts != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        prompts, " prompts; one of \"prompt\" and \"prompt_ids\" is needed"));
  }
  return job;
}

}  // namespace

absl::StatusOr<std::string> ReadText(const std::string& path) {
  if (path != "-") return ReadFile(path, kMostTextBytes);
  return std::string(std::istreambuf_iterator<char>(std::cin), {});
}

absl::StatusOr<std::vector<PromptJob>> ParsePrompts(absl::string_view text,
                                                    absl::string_view name) {
  const bool objects = absl::EndsWith(name, ".jsonl") ||
                       absl::StartsWith(absl::StripAsciiWhitespace(text), "{");
  std::vector<PromptJob> jobs;
  int64_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (absl::EndsWith(line, "\r")) line.remove_suffix(1);
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    if (objects) {
      auto job = ParseObject(line);
      DS_RETURN_IF_ERROR(Annotate(job.status(), name, ":", number));
      jobs.push_back(*std::move(job));
    } else {
      jobs.emplace_back().text = std::string(line);
    }
    jobs.back().line = number;
  }
  if (jobs.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": no line holds a prompt"));
  }
  return jobs;
}

absl::StatusOr<std::vector<PromptJob>> ReadPromptFile(const std::string& path) {
  DS_ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  return ParsePrompts(text, path == "-" ? "stdin" : path);
}

}  // namespace deepslice
