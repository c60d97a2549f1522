// Every bound on untrusted input, in one place.
#ifndef DEEPSLICE_SCHEMA_BASE_LIMITS_H_
#define DEEPSLICE_SCHEMA_BASE_LIMITS_H_

#include <cstdint>

namespace deepslice::limits {

inline constexpr int64_t kSafetensorsHeaderBytes = 100'000'000;
inline constexpr int64_t kTensorsPerCheckpoint = 1'000'000;
inline constexpr int64_t kTensorNameBytes = 4096;
inline constexpr int kTensorRank = 8;
inline constexpr int64_t kTensorBytes = int64_t{1} << 46;
inline constexpr int kJsonDepth = 64;
inline constexpr int64_t kJsonFileBytes = 256 << 20;
inline constexpr int64_t kConfigFileBytes = 16 << 20;  // config.json and kin
inline constexpr int64_t kShards = 65'536;
inline constexpr int64_t kHiddenSize = 1 << 20;
inline constexpr int64_t kLayers = 4096;
inline constexpr int64_t kHeads = 65'536;
inline constexpr int64_t kVocab = 1 << 24;
inline constexpr int64_t kExperts = 65'536;
inline constexpr int64_t kPositions = 1 << 26;
inline constexpr int64_t kGgufKeyValues = 1'000'000;
inline constexpr int64_t kGgufStringBytes = 16 << 20;
inline constexpr int64_t kGgufArrayItems = 64 << 20;
inline constexpr int64_t kTokenizerMerges = 1 << 24;
inline constexpr int64_t kAddedTokens = 1 << 20;
inline constexpr int64_t kAddedTokenBytes = 4096;
inline constexpr int64_t kTemplateBytes = 1 << 20;
inline constexpr int64_t kTemplateSteps = 1'000'000;
inline constexpr int64_t kTemplateOutputBytes = 4 << 20;
inline constexpr int64_t kPlanBytes = 1 << 30;
inline constexpr int64_t kPlanSetIdBytes = 128;
inline constexpr int kPlanDepth = 32;
inline constexpr int64_t kPlanTables = 16'000'000;
inline constexpr int64_t kIrTextBytes = 256 << 20;
inline constexpr int kWorldSize = 4096;

}  // namespace deepslice::limits

#endif  // DEEPSLICE_SCHEMA_BASE_LIMITS_H_
