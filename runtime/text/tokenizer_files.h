// Finds and reads a tokenizer, whatever kind of file it lies in.
#ifndef DEEPSLICE_RUNTIME_TEXT_TOKENIZER_FILES_H_
#define DEEPSLICE_RUNTIME_TEXT_TOKENIZER_FILES_H_

#include <string>

#include "absl/status/statusor.h"
#include "runtime/text/tokenizer_tables.h"

namespace deepslice {

// Names of tokenizer files in a model's folder, the preferred one first.
inline constexpr const char* kTokenizerFileNames[] = {
    "tokenizer.json", "tokenizer.model", "spiece.model", "qwen.tiktoken"};

struct TokenizerFileOptions {
  // Name of the pattern by which a file of ranks cuts its text; empty: by the
  // names of file and folder, see ReadTokenizerRanks.
  std::string pattern;
  // As config.json has it, where none lies beside the tokenizer.
  std::string model_type;
};

// `path`: a tokenizer.json, a sentencepiece model (tokenizer.model,
// spiece.model), a file of ranks (*.tiktoken, tokenizer.model), or a folder
// that holds one of them. tokenizer_config.json and config.json that lie beside
// it count. Errors begin with the file.
absl::StatusOr<TokenizerTables> ReadTokenizerFiles(
    const std::string& path, const TokenizerFileOptions& options);

// The tokenizer file of a folder; empty when there is none.
std::string FindTokenizerFile(const std::string& folder);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_TOKENIZER_FILES_H_
