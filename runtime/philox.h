// Philox4x32-10: random numbers as a pure function of a key and a counter, so
// that a sequence draws the same ones whatever else is in its batch.
#ifndef DEEPSLICE_RUNTIME_PHILOX_H_
#define DEEPSLICE_RUNTIME_PHILOX_H_

#include <array>
#include <cstdint>

namespace deepslice {

// Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3"
// (2011). The four words of counter block `counter` under `key`.
constexpr std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter,
                                             std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(p0)};
    key[0] += 0x9E3779B9;  // the golden ratio
    key[1] += 0xBB67AE85;  // sqrt(3) - 1
  }
  return counter;
}

// A number in [0, 1) with 53 random bits, for a token's place in its sequence.
constexpr double PhiloxUniform(uint64_t seed, uint64_t position) {
  const std::array<uint32_t, 4> words = Philox4x32(
      {static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32),
       0, 0},
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const uint64_t bits = (uint64_t{words[0]} << 32 | words[1]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

// The seed of the request's answer number `answer`: the first one's is the
// request's own, so that one answer is the same whether others are asked for.
constexpr uint64_t SeedOfAnswer(uint64_t seed, uint32_t answer) {
  if (answer == 0) return seed;
  // A counter that no position of a sequence has.
  const std::array<uint32_t, 4> words = Philox4x32(
      {answer, 0, 0x616e7377, 1},  // "answ"
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return uint64_t{words[0]} << 32 | words[1];
}

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_PHILOX_H_
