// Opens a checkpoint and says what came of it: the test program of the bad-file
// suite. checkpoint_check [--ignore-index] PATH
#include <cstdio>
#include <cstring>
#include <string>

#include "compiler/checkpoint/checkpoint.h"
#include "schema/base/exit_code.h"

int main(int argc, char** argv) {
  deepslice::OpenOptions options;
  std::string path;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--ignore-index") == 0) {
      options.ignore_index = true;
    } else {
      path = argv[i];
    }
  }
  if (path.empty()) {
    std::fprintf(stderr, "usage: checkpoint_check [--ignore-index] PATH\n");
    return deepslice::kExitUsage;
  }
  const auto checkpoint = deepslice::OpenCheckpoint(path, options);
  if (!checkpoint.ok()) {
    std::fprintf(stderr, "%s\n", checkpoint.status().ToString().c_str());
    return deepslice::ExitCodeOf(checkpoint.status());
  }
  for (const std::string& note : (*checkpoint)->notes()) {
    std::fprintf(stderr, "note: %s\n", note.c_str());
  }
  std::printf("%zu tensors\n", (*checkpoint)->tensors().size());
  return deepslice::kExitDone;
}
