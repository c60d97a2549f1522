#include "compiler/checkpoint/dequantize.h"

#include <cmath>
#include <cstdlib>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "schema/base/digest.h"
#include "schema/base/file.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

struct Golden {
  Storage storage;
  std::string block;
  std::vector<uint32_t> bits;
};

constexpr Storage kLast = Storage::kNVFP4;

Storage StorageOf(absl::string_view name) {
  for (int s = 1; s <= static_cast<int>(kLast); ++s) {
    if (StorageName(static_cast<Storage>(s)) == name) {
      return static_cast<Storage>(s);
    }
  }
  return Storage::kPlain;
}

// The words of each line of a golden file.
std::vector<std::vector<std::string>> ReadLines(absl::string_view name) {
  const char* folder = std::getenv("DS_CHECKPOINT_TESTDATA");
  if (folder == nullptr) return {};
  const auto text = ReadFile(JoinPath(folder, name), 1 << 20);
  if (!text.ok()) return {};
  std::vector<std::vector<std::string>> out;
  for (absl::string_view line :
       absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
    out.push_back(absl::StrSplit(line, ' '));
  }
  return out;
}

std::vector<Golden> ReadGoldens() {
  std::vector<Golden> out;
  for (const std::vector<std::string>& words : ReadLines("dequantize.golden")) {
    Golden g;
    g.storage = StorageOf(words[0]);
    g.block = absl::HexStringToBytes(words[1]);
    for (size_t i = 2; i < words.size(); ++i) {
      g.bits.push_back(std::stoul(words[i], nullptr, 16));
    }
    out.push_back(std::move(g));
  }
  return out;
}

uint32_t BitsOf(float f) {
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  return bits;
}

const uint8_t* Data(const std::string& s) {
  return reinterpret_cast<const uint8_t*>(s.data());
}

TEST(Dequantize, EveryBlockTypeEqualsTheGoldenBitForBit) {
  const std::vector<Golden> goldens = ReadGoldens();
  ASSERT_EQ(goldens.size(), 33u) << "DS_CHECKPOINT_TESTDATA names the folder";
  for (const Golden& g : goldens) {
    ASSERT_NE(g.storage, Storage::kPlain);
    ASSERT_EQ(BlockBytes(g.storage), static_cast<int64_t>(g.block.size()));
    ASSERT_EQ(BlockElements(g.storage), static_cast<int64_t>(g.bits.size()));
    std::vector<float> out(g.bits.size());
    DequantizeBlocks(g.storage, Data(g.block), 0, out.size(), out.data());
    for (size_t i = 0; i < out.size(); ++i) {
      ASSERT_EQ(BitsOf(out[i]), g.bits[i])
          << StorageName(g.storage) << " element " << i << ": " << out[i];
    }
  }
}

// make_dequantize_golden.py has the same generator.
std::string RandomBlocks(Storage s, int64_t count) {
  std::string out;
  uint64_t state = 1;
  for (int64_t i = 0; i < count * BlockBytes(s); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    out.push_back(static_cast<char>(state >> 56));
  }
  return out;
}

// Where the second byte of an fp16 scale lies, or the fourth of Q8_K's float.
std::vector<int> Exponents(Storage s) {
  switch (s) {
    case Storage::kQ4_1:
    case Storage::kQ5_1:
    case Storage::kQ4_K:
    case Storage::kQ5_K:
      return {1, 3};
    case Storage::kQ2_K:
      return {81, 83};
    case Storage::kQ3_K:
      return {109};
    case Storage::kQ6_K:
      return {209};
    case Storage::kQ8_K:
      return {3};
    case Storage::kTQ1_0:
      return {53};
    case Storage::kTQ2_0:
      return {65};
    case Storage::kMXFP4:
    case Storage::kNVFP4:
      return {};
    default:
      return {1};
  }
}

TEST(Dequantize, ManyRandomBlocksOfEveryTypeEqualTheGoldenBitForBit) {
  constexpr int64_t kMany = 500;
  int types = 0;
  for (const std::vector<std::string>& words :
       ReadLines("dequantize_many.golden")) {
    const Storage s = StorageOf(words[0]);
    ASSERT_NE(s, Storage::kPlain) << words[0];
    std::string blocks = RandomBlocks(s, kMany);
    for (int64_t b = 0; b < kMany; ++b) {
      for (const int at : Exponents(s)) {
        blocks[b * BlockBytes(s) + at] &= static_cast<char>(0xbf);
      }
    }
    ASSERT_EQ(Sha256Hex(blocks), words[1]) << words[0];
    std::vector<float> out(kMany * BlockElements(s));
    DequantizeBlocks(s, Data(blocks), 0, out.size(), out.data());
    EXPECT_EQ(Sha256Hex({reinterpret_cast<const char*>(out.data()),
                         out.size() * sizeof(float)}),
              words[2])
        << words[0];
    ++types;
  }
  EXPECT_EQ(types, static_cast<int>(kLast));
}

TEST(Dequantize, RangesMayBeginAndEndInsideABlock) {
  const std::vector<Golden> goldens = ReadGoldens();
  ASSERT_FALSE(goldens.empty());
  for (const Golden& g : goldens) {
    const int64_t n = BlockElements(g.storage);
    const std::string three = g.block + g.block + g.block;
    std::vector<float> all(3 * n);
    DequantizeBlocks(g.storage, Data(three), 0, 3 * n, all.data());
    for (const auto& [first, count] :
         {std::pair<int64_t, int64_t>{n - 3, n + 7},
          {5, 9},
          {n, 2 * n},
          {1, 3 * n - 1},
          {2 * n, 0}}) {
      std::vector<float> part(count);
      DequantizeBlocks(g.storage, Data(three), first, count, part.data());
      for (int64_t i = 0; i < count; ++i) {
        ASSERT_EQ(BitsOf(part[i]), BitsOf(all[first + i]))
            << StorageName(g.storage) << " from " << first << " at " << i;
      }
    }
  }
}

TEST(Dequantize, HalvesWidenExactlyInAllTheirValues) {
  std::vector<uint16_t> halves(65536);
  for (int i = 0; i < 65536; ++i) halves[i] = i;
  std::vector<float> out(halves.size());
  WidenToFloat(DType::kF16, reinterpret_cast<const uint8_t*>(halves.data()),
               halves.size(), out.data());
  for (int i = 0; i < 65536; ++i) {
    const float want = F16ToFloat(i);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(out[i])) << i;
    } else {
      ASSERT_EQ(BitsOf(out[i]), BitsOf(want)) << i;
    }
  }
}

TEST(Dequantize, PlainTypesWiden) {
  const uint16_t bf16[] = {0x3f80, 0xc040, 0x7f80};
  float out[3];
  WidenToFloat(DType::kBF16, reinterpret_cast<const uint8_t*>(bf16), 3, out);
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_EQ(out[1], -3.0f);
  EXPECT_TRUE(std::isinf(out[2]));
  const double f64[] = {0.1, -2.5};
  WidenToFloat(DType::kF64, reinterpret_cast<const uint8_t*>(f64), 2, out);
  EXPECT_EQ(out[0], 0.1f);
  EXPECT_EQ(out[1], -2.5f);
}

}  // namespace
}  // namespace deepslice
