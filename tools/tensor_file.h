// Named tensors in and out of dsrun, as safetensors files.
#ifndef DEEPSLICE_TOOLS_TENSOR_FILE_H_
#define DEEPSLICE_TOOLS_TENSOR_FILE_H_

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/base/dtype.h"
#include "schema/base/file.h"

namespace deepslice {

struct FileTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  absl::string_view data;  // inside the file; any alignment
};

// A small file of inputs, mapped. Untrusted: InvalidArgument with the tensor's
// name for a header that doesn't fit the file, shapes that don't fit their
// bytes, and types that are none.
class TensorFile {
 public:
  static absl::StatusOr<TensorFile> Open(const std::string& path);
  const std::vector<FileTensor>& tensors() const { return tensors_; }
  // nullptr when there is none of that name.
  const FileTensor* Find(absl::string_view name) const;

 private:
  MappedFile file_;
  std::vector<FileTensor> tensors_;
};

// The elements of an integer tensor; InvalidArgument for other types and for
// values beyond int32.
absl::StatusOr<std::vector<int32_t>> ReadIntegers(const FileTensor& tensor);

// The elements of an F32 tensor; InvalidArgument for other types and for NaN
// and infinity.
absl::StatusOr<std::vector<float>> ReadFloats(const FileTensor& tensor);

struct NamedShape {
  std::string name;
  std::vector<int64_t> shape;
};

// Writes float tensors, one after the other, front to back, into a file that
// appears under its name only when whole.
class TensorWriter {
 public:
  static absl::StatusOr<std::unique_ptr<TensorWriter>> Create(
      const std::string& path, const std::vector<NamedShape>& tensors);
  ~TensorWriter();  // without Finish: removes what was written
  absl::Status Append(const float* values, int64_t count);
  absl::Status AppendZeros(int64_t count);
  // All elements of the shapes have been appended.
  absl::Status Finish();

  // For a signal handler, which may call unlink: the unfinished file of the one
  // writer that is alive, or nullptr.
  static const char* UnfinishedPath();

 private:
  TensorWriter(std::string path, int64_t count)
      : path_(std::move(path)), part_(path_ + ".part"), left_(count) {}
  absl::Status Write(const void* data, size_t bytes);

  const std::string path_, part_;
  int64_t left_;
  FILE* file_ = nullptr;
};

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_TENSOR_FILE_H_
