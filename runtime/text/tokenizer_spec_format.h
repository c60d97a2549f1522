// What writer and parser of the serialised tokenizer share: little-endian,
// sections in the order of TokenizerSpec, each array led by its length.
#ifndef DEEPSLICE_RUNTIME_TEXT_TOKENIZER_SPEC_FORMAT_H_
#define DEEPSLICE_RUNTIME_TEXT_TOKENIZER_SPEC_FORMAT_H_

#include <cstddef>
#include <cstdint>

namespace deepslice::tokenizer_format {

// The last byte is the version.
inline constexpr char kMagic[] = "DSTOKEN\x02";
inline constexpr size_t kMagicSize = 8;

inline constexpr uint8_t kIgnoreMerges = 1, kFuseUnk = 2, kByteFallback = 4,
                         kSentencePiece = 8;
inline constexpr uint8_t kSingleWord = 1, kLstrip = 2, kRstrip = 4,
                         kNormalized = 8, kSpecial = 16;
inline constexpr uint8_t kRegex = 1, kInvert = 2, kIndividual = 4,
                         kPrefixSpace = 8, kUseRegex = 16, kSplit = 32;
// Of the left id of a merge.
inline constexpr uint32_t kSameRank = 1u << 31;

}  // namespace deepslice::tokenizer_format

#endif  // DEEPSLICE_RUNTIME_TEXT_TOKENIZER_SPEC_FORMAT_H_
