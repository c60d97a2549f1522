#include "compiler/checkpoint/dequantize.h"

#include <cmath>
#include <cstdlib>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "schema/base/file.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

struct Golden {
  Storage storage;
  std::string block;
  std::vector<uint32_t> bits;
};

std::vector<Golden> ReadGoldens() {
  const char* folder = std::getenv("DS_CHECKPOINT_TESTDATA");
  if (folder == nullptr) return {};
  const auto text = ReadFile(JoinPath(folder, "dequantize.golden"), 1 << 20);
  if (!text.ok()) return {};
  std::vector<Golden> out;
  for (absl::string_view line :
       absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    Golden g;
    g.storage = Storage::kPlain;
    for (int s = 1; s <= static_cast<int>(Storage::kQ6_K); ++s) {
      if (StorageName(static_cast<Storage>(s)) == words[0]) {
        g.storage = static_cast<Storage>(s);
      }
    }
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
  ASSERT_EQ(goldens.size(), 20u) << "DS_CHECKPOINT_TESTDATA names the folder";
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
