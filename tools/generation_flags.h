// The flags that say how tokens are chosen and when an answer ends.
#ifndef DEEPSLICE_TOOLS_GENERATION_FLAGS_H_
#define DEEPSLICE_TOOLS_GENERATION_FLAGS_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "runtime/generation_choice.h"

namespace deepslice {

class GenerationFlags {
 public:
  // Adds them to `app`; what is typed goes to `choice`. Both must outlive it.
  GenerationFlags(CLI::App* app, GenerationChoice* choice);

  // Before a line is parsed: forgets the one before, but for `choice`.
  void Clear();
  // After parsing: reads lists, checks what single flags can't tell, settles
  // the choice. InvalidArgument is a usage error.
  absl::Status Finish();
  // The first of them that was typed, with dashes; "": none.
  std::string Typed() const;

 private:
  void AddEnds(CLI::App& app);
  void AddSampling(CLI::App& app);
  void AddAnswers(CLI::App& app);
  absl::Status ReadLists();

  const CLI::App& app_;
  GenerationChoice& choice_;
  std::vector<const CLI::Option*> options_;
  // What CLI11 reads as texts and parses no further.
  std::vector<std::string> biases_, stop_ids_, stops_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_GENERATION_FLAGS_H_
