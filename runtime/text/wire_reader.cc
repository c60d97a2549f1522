// Reads tags, varints, fixed numbers and lengths within bounds.
#include "runtime/text/wire_reader.h"

#include "absl/strings/str_cat.h"
#include "schema/base/status_macros.h"

namespace deepslice {

absl::Status WireReader::Bad(absl::string_view what) const {
  return absl::DataLossError(
      absl::StrCat("byte ", base_ + pos_, ": ", what,
                   "; the file is cut or damaged: copy it again"));
}

absl::StatusOr<uint64_t> WireReader::Varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (pos_ >= bytes_.size()) return Bad("the file ends inside a number");
    const auto byte = static_cast<uint8_t>(bytes_[pos_]);
    // The tenth byte holds one bit.
    if (shift == 63 && byte > 1) return Bad("a number has more than 64 bits");
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    ++pos_;
    if (byte < 0x80) return value;
  }
  return Bad("a number has more than 64 bits");
}

absl::StatusOr<bool> WireReader::Next(Field* field) {
  if (pos_ == bytes_.size()) return false;
  const size_t start = pos_;
  DS_ASSIGN_OR_RETURN(const uint64_t tag, Varint());
  const uint64_t number = tag >> 3;
  if (number == 0 || number > (1u << 29) - 1) {
    pos_ = start;
    return Bad(
        absl::StrCat("field number ", number, " is outside 1 to 536870911"));
  }
  field->number = static_cast<uint32_t>(number);
  field->type = static_cast<Type>(tag & 7);
  field->value = 0;
  field->bytes = {};
  field->at = base_ + pos_;
  const size_t left = bytes_.size() - pos_;
  switch (tag & 7) {
    case kVarint: {
      DS_ASSIGN_OR_RETURN(field->value, Varint());
      return true;
    }
    case kFixed64:
    case kFixed32: {
      const size_t size = field->type == kFixed64 ? 8 : 4;
      if (left < size) return Bad("the file ends inside a number");
      for (size_t i = 0; i < size; ++i) {
        field->value |=
            static_cast<uint64_t>(static_cast<uint8_t>(bytes_[pos_ + i]))
            << (8 * i);
      }
      pos_ += size;
      return true;
    }
    case kBytes: {
      DS_ASSIGN_OR_RETURN(const uint64_t size, Varint());
      if (size > bytes_.size() - pos_) {
        return Bad(absl::StrCat("field ", number, " has ", size, " bytes, ",
                                bytes_.size() - pos_, " are left"));
      }
      field->bytes = bytes_.substr(pos_, size);
      field->at = base_ + pos_;
      pos_ += size;
      return true;
    }
    default:
      pos_ = start;
      return Bad(absl::StrCat("field ", number, " has wire type ", tag & 7,
                              "; 0, 1, 2 and 5 are known"));
  }
}

absl::Status WireReader::Expect(const Field& field, Type type,
                                absl::string_view name) {
  if (field.type == type) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("byte ", field.at, ": ", name, " has wire type ",
                   static_cast<int>(field.type), "; must be ",
                   static_cast<int>(type), ": copy the file again"));
}

}  // namespace deepslice
