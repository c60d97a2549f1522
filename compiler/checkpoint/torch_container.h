// The two containers of torch.save: which pickle is the object, and where the
// elements of its tensors lie.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_TORCH_CONTAINER_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_TORCH_CONTAINER_H_

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/checkpoint/pickle_value.h"

namespace deepslice {

struct TorchContainer {
  struct Extent {
    uint64_t offset = 0, size = 0;  // bytes of the file
  };
  const pickle::Value* root = nullptr;                // in the heap
  absl::flat_hash_map<std::string, Extent> storages;  // by key; inside `file`
};

// `file` is the whole file, which must outlive `heap`; `path` its name in
// errors. Reads the zip of PyTorch 1.6 and later, and the pickles in a row of
// 0.1.1 to 1.5. Refused: the tar before that, TorchScript, plain pickles, files
// of big-endian machines, and what ReadZip and ReadPickle refuse, in parts that
// nothing uses and in pickles inside strings too. Of a zip's checksums that of
// the pickle is checked; those of the storages are not, as in PyTorch.
absl::StatusOr<TorchContainer> ReadTorchContainer(absl::string_view file,
                                                  const std::string& path,
                                                  pickle::Heap& heap);

// Whether a file that starts so may be one of torch.save.
bool LooksLikeTorchFile(absl::string_view file);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_TORCH_CONTAINER_H_
