// Protocol buffers' wire format, one field at a time.
#ifndef DEEPSLICE_RUNTIME_TEXT_WIRE_READER_H_
#define DEEPSLICE_RUNTIME_TEXT_WIRE_READER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace deepslice {

// Walks the fields of one message in place. Bytes are untrusted: every error is
// DataLoss with the byte's offset in the file.
class WireReader {
 public:
  enum Type : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

  struct Field {
    uint32_t number = 0;
    Type type = kVarint;
    uint64_t value = 0;       // kVarint, kFixed32, kFixed64
    absl::string_view bytes;  // kBytes
    size_t at = 0;            // offset of `bytes` or of the value
  };

  // `base`: where the message starts in its file.
  explicit WireReader(absl::string_view bytes, size_t base = 0)
      : bytes_(bytes), base_(base) {}

  // False at the end of the message.
  absl::StatusOr<bool> Next(Field* field);

  // DataLoss for a field that has another type.
  static absl::Status Expect(const Field& field, Type type,
                             absl::string_view name);

 private:
  absl::Status Bad(absl::string_view what) const;
  absl::StatusOr<uint64_t> Varint();

  absl::string_view bytes_;
  size_t base_;
  size_t pos_ = 0;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_WIRE_READER_H_
