// Walks a double array as the Darts-clone library lays it out.
#include "runtime/text/charsmap.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/text/utf8.h"
#include "schema/base/limits.h"

namespace deepslice {
namespace {

uint32_t LoadU32(const char* p) {
  uint32_t v = 0;
  for (int i = 0; i < 4; ++i) {
    v |= static_cast<uint32_t>(static_cast<uint8_t>(p[i])) << (8 * i);
  }
  return v;
}

// Fields of a unit of the double array.
bool HasLeaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t Label(uint32_t unit) { return unit & (1u << 31 | 0xFF); }
uint32_t Offset(uint32_t unit) {
  return (unit >> 10) << ((unit & (1u << 9)) >> 6);
}
uint32_t Value(uint32_t unit) { return unit & ~(1u << 31); }

}  // namespace

absl::StatusOr<Charsmap> Charsmap::Parse(absl::string_view blob) {
  if (blob.size() < 4) {
    return absl::InvalidArgumentError(
        absl::StrCat("the compiled character map has ", blob.size(),
                     " bytes; it needs at least 4: copy the file again"));
  }
  const uint64_t trie = LoadU32(blob.data());
  if (trie == 0 || trie % 4 != 0 || trie + 4 >= blob.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the compiled character map has a table of ", trie, " bytes in ",
        blob.size(), "; it is cut or damaged: copy the file again"));
  }
  if (blob.back() != '\0') {
    return absl::InvalidArgumentError(
        "the compiled character map does not end its last string; it is cut: "
        "copy the file again");
  }
  Charsmap map;
  map.units_.resize(trie / 4);
  for (size_t i = 0; i < map.units_.size(); ++i) {
    map.units_[i] = LoadU32(blob.data() + 4 + 4 * i);
  }
  const absl::string_view strings = blob.substr(4 + trie);
  if (!IsValidUtf8(strings)) {
    return absl::InvalidArgumentError(
        "the compiled character map gives text that is not UTF-8: copy the "
        "file again");
  }
  for (size_t begin = 0; begin < strings.size();) {
    const size_t end = strings.find('\0', begin);
    if (end - begin > static_cast<size_t>(limits::kTokenBytes)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the compiled character map gives a text of ", end - begin,
          " bytes; at most ", limits::kTokenBytes, " are allowed"));
    }
    begin = end + 1;
  }
  // Every unit that is marked as a value is one, or is never reached.
  map.strings_ = std::string(strings);
  return map;
}

bool Charsmap::Find(absl::string_view text, size_t pos, bool longest,
                    size_t* size, absl::string_view* replacement) const {
  bool found = false;
  uint32_t node = Offset(units_[0]);
  const size_t last =
      pos + std::min<size_t>(text.size() - pos, limits::kTokenBytes);
  for (size_t i = pos; i < last; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    node ^= byte;
    if (node >= units_.size()) break;
    const uint32_t unit = units_[node];
    if (Label(unit) != byte) break;
    node ^= Offset(unit);
    if (!HasLeaf(unit)) continue;
    if (node >= units_.size()) break;
    const uint32_t value = Value(units_[node]);
    // Nor into the middle of a character.
    if (value >= strings_.size() || (strings_[value] & 0xC0) == 0x80) break;
    found = true;
    *size = i + 1 - pos;
    *replacement = absl::string_view(strings_.data() + value);
    if (!longest) break;
  }
  return found;
}

}  // namespace deepslice
