#include "compiler/checkpoint/safetensors_writer.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "schema/base/checked_math.h"
#include "schema/base/json.h"

namespace deepslice {

uint64_t WrittenTensor::bytes() const {
  uint64_t n = DTypeSize(dtype);
  for (const int64_t d : shape) n *= d;
  return n;
}

std::string SafetensorsHead(const std::vector<WrittenTensor>& tensors) {
  json::Value head = json::Value::Object();
  head.Set("__metadata__", json::Value::Object()).Set("format", "pt");
  int64_t at = 0;
  for (const WrittenTensor& t : tensors) {
    json::Value entry = json::Value::Object();
    entry.Set("dtype", absl::AsciiStrToUpper(DTypeName(t.dtype)));
    json::Value& shape = entry.Set("shape", json::Value::Array());
    for (const int64_t d : t.shape) shape.Add(d);
    json::Value& offsets = entry.Set("data_offsets", json::Value::Array());
    offsets.Add(at);
    at += static_cast<int64_t>(t.bytes());
    offsets.Add(at);
    // Not Set, which would look for the name among all.
    head.members().emplace_back(t.name, std::move(entry));
  }
  std::string text = json::Write(head);
  text.resize(RoundUp(text.size(), 8), ' ');
  const uint64_t size = text.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + text;
}

}  // namespace deepslice
