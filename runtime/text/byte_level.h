// GPT-2's alphabet: each byte is written as one printable character, so that a
// vocabulary of byte strings is a vocabulary of texts.
#ifndef DEEPSLICE_RUNTIME_TEXT_BYTE_LEVEL_H_
#define DEEPSLICE_RUNTIME_TEXT_BYTE_LEVEL_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace deepslice {

// The code point that stands for `byte`; below U+0144.
uint32_t ByteLevelCharacter(uint8_t byte);

// Appends the characters of `bytes` as UTF-8.
void AppendByteLevel(absl::string_view bytes, std::string* out);

// Appends the bytes that the characters of `token` stand for; a token with any
// other character is taken as it is.
void AppendFromByteLevel(absl::string_view token, std::string* out);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_BYTE_LEVEL_H_
