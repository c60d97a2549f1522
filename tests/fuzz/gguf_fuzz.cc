// GGUF files: container, checkpoint, rows of every block type, vocabulary.
#include "compiler/checkpoint/gguf.h"
#include "compiler/checkpoint/gguf_checkpoint.h"
#include "runtime/text/tokenizer_tables.h"
#include "tests/fuzz/checkpoint_rows.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/tokenizer_use.h"

namespace deepslice {
namespace {

FUZZ_TARGET(gguf) {
  auto file = ReadGguf(input, "model.gguf");
  if (!file.ok()) return CheckRefusal(file.status());
  if (file->metadata.Find("tokenizer.ggml.model") != nullptr) {
    const auto tables = ReadTokenizerGguf(file->metadata);
    // One that says that it has no vocabulary gives no tables.
    if (!tables.ok() || !tables->bytes.empty()) {
      UseTokenizer(tables, " a<s>b\xE2\x96\x81");
    }
  }
  // By its name it is whole, so no other file is looked for.
  const auto checkpoint = OpenGguf({"model.gguf", input, {}});
  if (!checkpoint.ok()) return CheckRefusal(checkpoint.status());
  ReadAllRows(**checkpoint);
}

}  // namespace
}  // namespace deepslice
