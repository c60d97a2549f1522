// Inputs of dsrun --feed: safetensors files of integers.
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/memory_file.h"
#include "tools/tensor_file.h"

namespace deepslice {
namespace {

FUZZ_TARGET(tensor_file) {
  static MemoryFile on_disk("feed.safetensors");
  on_disk.Write(input);
  const auto file = TensorFile::Open(on_disk.path());
  if (!file.ok()) return CheckRefusal(file.status());
  for (const FileTensor& tensor : file->tensors()) {
    FUZZ_CHECK(file->Find(tensor.name) == &tensor);
    FUZZ_CHECK(tensor.data.size() <= input.size());
    const auto integers = ReadIntegers(tensor);
    if (!integers.ok()) CheckRefusal(integers.status());
  }
}

}  // namespace
}  // namespace deepslice
