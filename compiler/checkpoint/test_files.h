// Small checkpoint files for the tests of this folder; tests only.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_TEST_FILES_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_TEST_FILES_H_

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "schema/base/check.h"
#include "schema/base/file.h"

namespace deepslice {

template <typename T>
std::string Bytes(T v) {
  return std::string(reinterpret_cast<const char*>(&v), sizeof(v));
}
inline std::string FloatBytes(const std::vector<float>& v) {
  return std::string(reinterpret_cast<const char*>(v.data()), v.size() * 4);
}

// Length, header, data.
inline std::string SafetensorsBytes(absl::string_view header,
                                    absl::string_view data) {
  return absl::StrCat(Bytes<uint64_t>(header.size()), header, data);
}

// {"NAME": F32[shape]} of `values`.
inline std::string OneTensor(absl::string_view name, absl::string_view shape,
                             const std::vector<float>& values) {
  return SafetensorsBytes(
      absl::StrCat("{\"", name, "\":{\"dtype\":\"F32\",\"shape\":", shape,
                   ",\"data_offsets\":[0,", values.size() * 4, "]}}"),
      FloatBytes(values));
}

// A GGUF file, part by part; numbers of types as the format has them.
class GgufBuilder {
 public:
  uint32_t version = 3;
  uint64_t alignment = 32;

  static std::string Str(absl::string_view s) {
    return absl::StrCat(Bytes<uint64_t>(s.size()), s);
  }
  // A key with its value's bytes.
  GgufBuilder& Key(absl::string_view key, uint32_t type,
                   absl::string_view value) {
    absl::StrAppend(&pairs_, Str(key), Bytes(type), value);
    ++num_pairs_;
    return *this;
  }
  GgufBuilder& U32(absl::string_view key, uint32_t v) {
    return Key(key, 4, Bytes(v));
  }
  GgufBuilder& F32(absl::string_view key, float v) {
    return Key(key, 6, Bytes(v));
  }
  GgufBuilder& Text(absl::string_view key, absl::string_view v) {
    return Key(key, 8, Str(v));
  }
  GgufBuilder& U32s(absl::string_view key, const std::vector<uint32_t>& v) {
    std::string value = Bytes<uint32_t>(4) + Bytes<uint64_t>(v.size());
    for (uint32_t i : v) value += Bytes(i);
    return Key(key, 9, value);
  }
  GgufBuilder& Texts(absl::string_view key, const std::vector<std::string>& v) {
    std::string value = Bytes<uint32_t>(8) + Bytes<uint64_t>(v.size());
    for (const std::string& s : v) value += Str(s);
    return Key(key, 9, value);
  }
  // `dims` innermost first, as the file has them; `offset` -1: the next place.
  GgufBuilder& Tensor(absl::string_view name, const std::vector<uint64_t>& dims,
                      uint32_t type, absl::string_view data,
                      int64_t offset = -1) {
    data_.resize((data_.size() + alignment - 1) / alignment * alignment);
    absl::StrAppend(&tensors_, Str(name), Bytes<uint32_t>(dims.size()));
    for (uint64_t d : dims) absl::StrAppend(&tensors_, Bytes(d));
    absl::StrAppend(&tensors_, Bytes(type),
                    Bytes<uint64_t>(offset < 0 ? data_.size() : offset));
    absl::StrAppend(&data_, data);
    ++num_tensors_;
    return *this;
  }
  std::string Build() const {
    std::string out = absl::StrCat("GGUF", Bytes(version), Bytes(num_tensors_),
                                   Bytes(num_pairs_), pairs_, tensors_);
    out.resize((out.size() + alignment - 1) / alignment * alignment);
    return out + data_;
  }

 private:
  std::string pairs_, tensors_, data_;
  uint64_t num_pairs_ = 0, num_tensors_ = 0;
};

// A folder that is gone with the object.
class TempFolder {
 public:
  TempFolder() {
    path_ = JoinPath(testing::TempDir(), "checkpoint_XXXXXX");
    DS_CHECK(mkdtemp(path_.data()) != nullptr);
  }
  ~TempFolder() {
    const auto names = ListDirectory(path_);
    DS_CHECK(names.ok());
    for (const std::string& name : *names) unlink(Path(name).c_str());
    rmdir(path_.c_str());
  }
  const std::string& path() const { return path_; }
  std::string Path(absl::string_view name) const {
    return JoinPath(path_, name);
  }
  // Writes a file, and returns its path.
  std::string Write(absl::string_view name, absl::string_view bytes) const {
    DS_CHECK(WriteFile(Path(name), bytes).ok());
    return Path(name);
  }

 private:
  std::string path_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_TEST_FILES_H_
