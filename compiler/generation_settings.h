// Generation defaults of a plan, from every file that names some.
#ifndef DEEPSLICE_COMPILER_GENERATION_SETTINGS_H_
#define DEEPSLICE_COMPILER_GENERATION_SETTINGS_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/checkpoint/checkpoint.h"
#include "compiler/plan_writer.h"

namespace deepslice {

// End-of-sequence ids are the union of config.json, generation_config.json and
// the tokenizer (an id or a list in each); the rest comes from the generation
// config, else config.json, else the tokenizer. Published files hold nonsense
// at times: a value that can't be meant (a top_p of 0, an id beyond
// `vocab_size`) is noted and left out, as is a setting that would change what
// is generated and that this program does not know (no_repeat_ngram_size).
absl::StatusOr<GenerationSettings> MakeGenerationSettings(
    const Checkpoint& checkpoint, absl::string_view tokenizer_bytes,
    int64_t vocab_size, const std::function<void(const std::string&)>& log);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_GENERATION_SETTINGS_H_
