// The operands of pickle opcodes: numbers, counted strings and lines of text.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_PICKLE_OPERANDS_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_PICKLE_OPERANDS_H_

#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "compiler/checkpoint/pickle_value.h"

namespace deepslice::pickle {

// A place in the bytes of a pickle, which must outlive it. DataLoss when the
// pickle ends inside an operand.
class Cursor {
 public:
  Cursor(absl::string_view bytes, size_t at) : bytes_(bytes), at_(at) {}

  size_t at() const { return at_; }
  size_t left() const { return bytes_.size() - at_; }

  // A little-endian number.
  template <typename T>
  absl::StatusOr<T> Number() {
    if (left() < sizeof(T)) return Ends();
    T v;
    std::memcpy(&v, bytes_.data() + at_, sizeof(v));
    at_ += sizeof(v);
    return v;
  }
  absl::StatusOr<absl::string_view> Take(uint64_t size);
  // A length of type T, which may be negative where T is, and so many bytes.
  template <typename T>
  absl::StatusOr<absl::string_view> Counted() {
    const absl::StatusOr<T> size = Number<T>();
    if (!size.ok()) return size.status();
    if (*size < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("has length ", *size, "; must not be negative"));
    }
    return Take(static_cast<uint64_t>(*size));
  }
  // The text up to the next line feed, which is skipped.
  absl::StatusOr<absl::string_view> Line();

 private:
  absl::Status Ends() const;

  absl::string_view bytes_;
  size_t at_;
};

// Values of operands. `text` as the opcode names it has them.
absl::StatusOr<Value*> IntOfLine(Heap& heap, absl::string_view text);   // INT
absl::StatusOr<Value*> LongOfLine(Heap& heap, absl::string_view text);  // LONG
absl::StatusOr<Value*> FloatOfLine(Heap& heap, absl::string_view text);
// Two's complement, little-endian: LONG1 and LONG4.
Value* LongOfBytes(Heap& heap, absl::string_view bytes);
// 8 bytes, big-endian.
Value* FloatOfBytes(Heap& heap, absl::string_view bytes);
// A quoted Python literal: STRING.
absl::StatusOr<Value*> StringOfLine(Heap& heap, absl::string_view text);
// Latin-1 with \uXXXX and \UXXXXXXXX: UNICODE.
absl::StatusOr<Value*> UnicodeOfLine(Heap& heap, absl::string_view text);
// UTF-8, which is checked.
absl::StatusOr<Value*> TextOfBytes(Heap& heap, absl::string_view bytes);
// A Python 2 string: text where it is UTF-8, else bytes.
Value* StringOfBytes(Heap& heap, absl::string_view bytes);
// The bytes that a text of code points below 256 stands for (_codecs.encode
// with "latin1").
absl::StatusOr<Value*> Latin1OfText(Heap& heap, absl::string_view text);

}  // namespace deepslice::pickle

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_PICKLE_OPERANDS_H_
