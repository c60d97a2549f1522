// Corpora on disk: files of one input each, and packs of many small ones.
#ifndef DEEPSLICE_TESTS_FUZZ_CORPUS_H_
#define DEEPSLICE_TESTS_FUZZ_CORPUS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace deepslice {

struct CorpusInput {
  std::string name;  // of its file; in a pack with its number
  std::string bytes;
};

// All inputs of the folder, sorted by name. A file whose name ends in .pack
// holds many: the size in decimal digits, a line break, the bytes, another line
// break, and so on. DataLoss for a pack that is none.
absl::StatusOr<std::vector<CorpusInput>> ReadCorpus(const std::string& folder);

}  // namespace deepslice

#endif  // DEEPSLICE_TESTS_FUZZ_CORPUS_H_
