// Files of prompts: one a line.
#ifndef DEEPSLICE_TOOLS_PROMPT_FILE_H_
#define DEEPSLICE_TOOLS_PROMPT_FILE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/generation_choice.h"

namespace deepslice {

// A prompt, and what it asks for itself.
struct PromptJob {
  int64_t line = 0;  // of its file, from 1; 0: of no file
  std::string text;
  std::optional<std::vector<int32_t>> ids;  // instead of the text
  GenerationChoice choice;
};

// Reads a file of prompts. One whose name ends in .jsonl, or whose first line
// begins with {, has a JSON object on each line: "prompt", a text, or
// "prompt_ids", and fields of a request (see ReadChoice). Any other has a text
// on each line. Lines without text are left out. "-" is stdin.
// InvalidArgument, with file and line, for a line that is none of it.
absl::StatusOr<std::vector<PromptJob>> ReadPromptFile(const std::string& path);

// The same of text that was read; `name` stands in errors.
absl::StatusOr<std::vector<PromptJob>> ParsePrompts(absl::string_view text,
                                                    absl::string_view name);

// All of a file, or of stdin for "-".
absl::StatusOr<std::string> ReadText(const std::string& path);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_PROMPT_FILE_H_
