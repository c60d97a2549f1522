// Zips and files of torch.save for the tests of this folder; tests only.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_TORCH_TEST_FILES_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_TORCH_TEST_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "compiler/checkpoint/test_files.h"

namespace deepslice {

// The checksum of a zip, bit by bit.
inline uint32_t SlowCrc32(absl::string_view bytes) {
  uint32_t c = 0xffffffff;
  for (const char b : bytes) {
    c ^= static_cast<uint8_t>(b);
    for (int k = 0; k < 8; ++k) c = (c >> 1) ^ (c & 1 ? 0xedb88320u : 0);
  }
  return ~c;
}

// A zip, entry by entry; the fields go into the entries added after them.
class ZipBuilder {
 public:
  uint16_t flags = 0, method = 0;
  bool zip64 = false;  // a record at the end that holds the true numbers
  std::string comment;

  ZipBuilder& Add(absl::string_view name, absl::string_view data) {
    const uint64_t at = body_.size();
    const std::string fields = absl::StrCat(
        Bytes(flags), Bytes(method), Bytes<uint32_t>(0), Bytes(SlowCrc32(data)),
        Bytes<uint32_t>(data.size()), Bytes<uint32_t>(data.size()),
        Bytes<uint16_t>(name.size()));
    absl::StrAppend(&body_, "PK\x03\x04", Bytes<uint16_t>(20), fields,
                    Bytes<uint16_t>(0), name, data);
    // The directory's entry has its place in a zip64 field.
    absl::StrAppend(&directory_, "PK\x01\x02", Bytes<uint32_t>(20 | 20 << 16));
    absl::StrAppend(&directory_, fields, Bytes<uint16_t>(12),
                    Bytes<uint16_t>(0), Bytes<uint16_t>(0),
                    std::string(6, '\0'), Bytes<uint32_t>(0xffffffff), name,
                    Bytes<uint16_t>(1), Bytes<uint16_t>(8), Bytes(at));
    ++count_;
    return *this;
  }

  std::string Build() const {
    std::string out = body_ + directory_;
    if (zip64) {
      absl::StrAppend(&out, "PK\x06\x06", Bytes<uint64_t>(44),
                      std::string(12, '\0'), Bytes(count_), Bytes(count_),
                      Bytes<uint64_t>(directory_.size()),
                      Bytes<uint64_t>(body_.size()));
      absl::StrAppend(&out, "PK\x06\x07", Bytes<uint32_t>(0),
                      Bytes<uint64_t>(body_.size() + directory_.size()),
                      Bytes<uint32_t>(1));
    }
    const auto small = [&](uint64_t v) {
      return Bytes<uint32_t>(zip64 ? 0xffffffff : v);
    };
    const std::string count = Bytes<uint16_t>(zip64 ? 0xffff : count_);
    absl::StrAppend(&out, "PK\x05\x06", Bytes<uint32_t>(0), count, count,
                    small(directory_.size()), small(body_.size()),
                    Bytes<uint16_t>(comment.size()), comment);
    return out;
  }

 private:
  std::string body_, directory_;
  uint64_t count_ = 0;
};

// Opcodes of protocol 2, as torch.save writes them.
inline std::string PickleText(absl::string_view s) {
  return absl::StrCat("X", Bytes<uint32_t>(s.size()), s);
}
inline std::string PickleInt(int32_t v) { return absl::StrCat("J", Bytes(v)); }
inline std::string PickleInts(const std::vector<int32_t>& v) {
  std::string out = "(";
  for (const int32_t i : v) out += PickleInt(i);
  return out + "t";
}
inline std::string PickleGlobal(absl::string_view module,
                                absl::string_view name) {
  return absl::StrCat("c", module, "\n", name, "\n");
}
// A tensor of float32 in storage `key` of `count` elements.
inline std::string PickleTensor(absl::string_view key, int32_t count,
                                int32_t offset,
                                const std::vector<int32_t>& shape,
                                const std::vector<int32_t>& strides,
                                absl::string_view storage = "FloatStorage") {
  return absl::StrCat(PickleGlobal("torch._utils", "_rebuild_tensor_v2"), "((",
                      PickleText("storage"), PickleGlobal("torch", storage),
                      PickleText(key), PickleText("cpu"), PickleInt(count),
                      "tQ", PickleInt(offset), PickleInts(shape),
                      PickleInts(strides), "\x89",
                      PickleGlobal("collections", "OrderedDict"), ")RtR");
}
// {name: object, ...} of pairs that are opcodes already, and STOP.
inline std::string PickleDict(
    const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::string out = "\x80\x02}(";
  for (const auto& [name, opcodes] : pairs) {
    absl::StrAppend(&out, PickleText(name), opcodes);
  }
  return out + "u.";
}
// The zip of torch.save around a pickle and storages 0, 1, ...
inline std::string TorchZip(absl::string_view pickle,
                            const std::vector<std::string>& storages) {
  ZipBuilder zip;
  zip.Add("archive/data.pkl", pickle).Add("archive/byteorder", "little");
  for (size_t i = 0; i < storages.size(); ++i) {
    zip.Add(absl::StrCat("archive/data/", i), storages[i]);
  }
  return zip.Build();
}

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_TORCH_TEST_FILES_H_
