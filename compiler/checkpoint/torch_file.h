// A file of torch.save: the object as a tree of values, its tensors unread.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_TORCH_FILE_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_TORCH_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/checkpoint/checkpoint.h"
#include "compiler/checkpoint/pickle_value.h"
#include "compiler/checkpoint/torch_container.h"

namespace deepslice {

// The tensors below a value, each named by its path.
struct TorchTensors {
  std::vector<TensorInfo> tensors;  // in file order, names unique
  // Leaves that are no tensors, and the first few of them as "PATH (an object
  // of a.B)". Numbers, texts and None are not told.
  int64_t num_others = 0;
  std::vector<std::string> others;
};

class TorchFile {
 public:
  // `bytes` is the whole file, which must outlive the object; `path` its name
  // in errors. See ReadTorchContainer for what is refused.
  static absl::StatusOr<std::unique_ptr<TorchFile>> Open(
      absl::string_view bytes, const std::string& path);

  const std::string& path() const { return path_; }
  // What was saved; lives as long as this.
  const pickle::Value& root() const { return *container_.root; }

  // Where the elements of a kTensor lie: all of a TensorInfo but the name and
  // `file`. One that cannot be read (quantised, sparse, on the meta device, a
  // type such as float8) is `unreadable` and no error. Errors are of what the
  // pickle says of it: a storage that is not there or of another size, elements
  // beyond it, strides that overlap.
  absl::StatusOr<TensorInfo> Tensor(const pickle::Value& tensor) const;

  // Every tensor below `value`, through dicts (and objects that are dicts),
  // lists and tuples; keys and indexes joined by dots are its name. The same
  // tensor may have several. Errors have the path and the name.
  absl::StatusOr<TorchTensors> ListTensors(const pickle::Value& value) const;

 private:
  explicit TorchFile(std::string path) : path_(std::move(path)) {}

  std::string path_;
  pickle::Heap heap_;
  TorchContainer container_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_TORCH_FILE_H_
