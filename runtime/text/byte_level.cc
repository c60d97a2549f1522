// The byte alphabet and its inverse.
#include "runtime/text/byte_level.h"

#include <array>

#include "runtime/text/utf8.h"

namespace deepslice {
namespace {

constexpr uint32_t kCharacters = 0x144;

struct Alphabet {
  std::array<uint32_t, 256> character{};
  std::array<int16_t, kCharacters> byte{};  // -1: no byte
};

constexpr Alphabet MakeAlphabet() {
  Alphabet a;
  for (auto& b : a.byte) b = -1;
  uint32_t next = 256;  // bytes that do not print get U+0100, U+0101, ...
  for (uint32_t b = 0; b < 256; ++b) {
    const bool prints = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) ||
                        (b >= 0xAE && b <= 0xFF);
    a.character[b] = prints ? b : next++;
    a.byte[a.character[b]] = static_cast<int16_t>(b);
  }
  return a;
}

constexpr Alphabet kAlphabet = MakeAlphabet();

}  // namespace

uint32_t ByteLevelCharacter(uint8_t byte) { return kAlphabet.character[byte]; }

void AppendByteLevel(absl::string_view bytes, std::string* out) {
  for (char c : bytes) {
    const uint32_t cp = kAlphabet.character[static_cast<uint8_t>(c)];
    if (cp < 0x80) {
      out->push_back(static_cast<char>(cp));
    } else {
      out->push_back(static_cast<char>(0xC0 | cp >> 6));
      out->push_back(static_cast<char>(0x80 | (cp & 0x3F)));
    }
  }
}

void AppendFromByteLevel(absl::string_view token, std::string* out) {
  const size_t start = out->size();
  for (size_t pos = 0; pos < token.size();) {
    const CodePoint c = DecodeUtf8(token, pos);
    if (!c.valid || c.value >= kCharacters || kAlphabet.byte[c.value] < 0) {
      out->resize(start);
      out->append(token.data(), token.size());
      return;
    }
    out->push_back(static_cast<char>(kAlphabet.byte[c.value]));
    pos += c.size;
  }
}

}  // namespace deepslice
