// Both attention kernels against the reference, over steps that mix prefill and
// decode of several sequences, and the promise that neither batch mates nor
// threads change a bit.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/cpu.h"
#include "kernels/kernel_testing.h"
#include "kernels/reference.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

constexpr int64_t kSlots = 5;
constexpr int64_t kBlocksPerSlot = 21;
constexpr int64_t kPadBytes = 64;

// Heads as one rank has them.
struct Heads {
  int64_t heads, kv_heads, group, offset, dim, window;

  std::string text() const {
    return absl::StrCat(heads, " heads, ", kv_heads, " KV, group ", group,
                        ", offset ", offset, ", dim ", dim, ", window ",
                        window);
  }
};

// `count` tokens of a sequence from position `first`.
struct Piece {
  int32_t slot, first, count;
};
using Step = std::vector<Piece>;

// Contexts cross block, tile and chunk borders, and end at 300.
const std::vector<Step> kSteps = {
    {{0, 0, 37}, {2, 0, 70}, {4, 0, 1}},
    {{2, 70, 1}, {0, 37, 1}, {4, 1, 3}, {3, 0, 130}},
    {{2, 71, 59}, {1, 0, 5}, {0, 38, 1}, {3, 130, 1}, {4, 4, 1}},
    {{3, 131, 168}, {2, 130, 1}, {0, 39, 4}},
    {{3, 299, 1}, {2, 131, 1}, {1, 5, 1}, {0, 43, 1}, {4, 5, 1}},
};

// Blocks of 16 tokens in shuffled order, all NaN at first: what is read before
// it was written shows. Between blocks lie bytes that nobody may touch.
class Cache {
 public:
  Cache(const Heads& h, Encoding encoding, std::mt19937* rng)
      : used_(2 * h.kv_heads * 16 * h.dim * EncodingBits(encoding) / 8) {
    state_.encoding = encoding;
    state_.block_tokens = 16;
    state_.block_bytes = used_ + kPadBytes;
    state_.num_blocks = kSlots * kBlocksPerSlot + 3;
    data_.assign(state_.num_blocks * state_.block_bytes, '\xff');
    std::vector<int32_t> ids(state_.num_blocks);
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), *rng);
    ids.resize(kSlots * kBlocksPerSlot);
    blocks_ = ids;
  }

  const CpuState* state() {
    state_.data = data_.data();
    return &state_;
  }
  const std::vector<int32_t>& blocks() const { return blocks_; }
  const std::vector<char>& data() const { return data_; }
  bool intact() const {
    for (int64_t b = 0; b < state_.num_blocks; ++b) {
      for (int64_t i = used_; i < state_.block_bytes; ++i) {
        if (data_[b * state_.block_bytes + i] != '\xff') return false;
      }
    }
    return true;
  }

 private:
  int64_t used_;
  CpuState state_;
  std::vector<char> data_;
  std::vector<int32_t> blocks_;
};

// The integer operands of a step.
struct Batch {
  std::vector<int32_t> positions, slots;

  explicit Batch(const Step& step) {
    for (const Piece& piece : step) {
      for (int32_t i = 0; i < piece.count; ++i) {
        positions.push_back(piece.first + i);
        slots.push_back(piece.slot);
      }
    }
  }
  int64_t tokens() const { return static_cast<int64_t>(slots.size()); }
};

// One of the two ops with its attributes.
struct Op {
  OpKind kind;
  Heads heads;
  std::vector<Attr> attrs;
  std::shared_ptr<TestOperand> slopes, rel_bias;

  int64_t QueryCols() const { return heads.heads * heads.dim; }
  int64_t KvCols() const { return heads.kv_heads * heads.dim; }
};

template <typename A>
void SetHeads(const Heads& h, double scale, std::vector<Attr>* attrs) {
  (*attrs)[A::heads].i = h.heads;
  (*attrs)[A::kv_heads].i = h.kv_heads;
  (*attrs)[A::group].i = h.group;
  (*attrs)[A::head_offset].i = h.offset;
  (*attrs)[A::head_dim].i = h.dim;
  (*attrs)[A::scale].f = scale;
  (*attrs)[A::window].i = h.window;
}

Op MakeOp(OpKind kind, const Heads& h, double scale, int64_t rotary_dim = 0,
          RopeStyle style = RopeStyle::kHalf) {
  Op op;
  op.kind = kind;
  op.heads = h;
  if (kind == OpKind::kAttention) {
    op.attrs.resize(attr::Attention::kCount);
    SetHeads<attr::Attention>(h, scale, &op.attrs);
    return op;
  }
  using A = attr::QkvAttention;
  op.attrs.resize(A::kCount);
  SetHeads<A>(h, scale, &op.attrs);
  op.attrs[A::rotary_dim].i = rotary_dim;
  op.attrs[A::style].i = static_cast<int64_t>(style);
  op.attrs[A::rope_scale].f = 1.25;
  return op;
}

// The op with ALiBi's slopes and, when > 0, a softcap.
Op Shaped(Op op, double softcap, Alibi alibi, std::mt19937* rng) {
  const bool plain = op.kind == OpKind::kAttention;
  op.attrs[plain ? +attr::Attention::softcap : +attr::QkvAttention::softcap].f =
      softcap;
  op.attrs[plain ? +attr::Attention::alibi : +attr::QkvAttention::alibi].i =
      static_cast<int64_t>(alibi);
  op.slopes = std::make_shared<TestOperand>(
      TestOperand::Random(rng, -1, op.heads.heads, Encoding::kF32, 0.2f));
  return op;
}

// All operands in table order; activations come first.
std::vector<const TestOperand*> Order(const Op& op,
                                      const std::vector<TestOperand>& x,
                                      const TestOperand& positions,
                                      const TestOperand& slots,
                                      const TestOperand& blocks,
                                      const TestOperand* freqs) {
  if (op.kind == OpKind::kAttention) {
    return {&x[0],   &x[1],  &x[2], &positions,
            &slots, &blocks, op.slopes.get(), op.rel_bias.get()};
  }
  return {&x[0], &positions, &slots, &blocks, freqs, op.slopes.get()};
}

std::vector<float> RunCpu(const Op& op, const std::vector<TestOperand>& x,
                          const Batch& batch, const TestOperand* freqs,
                          Cache* cache, int threads) {
  const TestOperand positions = TestOperand::Ints(batch.positions);
  const TestOperand slots = TestOperand::Ints(batch.slots);
  const TestOperand blocks =
      TestOperand::IntMatrix(kSlots, kBlocksPerSlot, cache->blocks());
  const auto operands = Order(op, x, positions, slots, blocks, freqs);
  ThreadPool pool(threads);
  CpuShape shape;
  shape.max_rows = batch.tokens();
  shape.in_cols = x[0].cols();
  shape.out_cols = op.QueryCols();
  for (int32_t p : batch.positions) {
    shape.max_context = std::max<int64_t>(shape.max_context, p + 1);
  }
  shape.attrs = op.attrs.data();
  shape.num_threads = threads;
  TestScratch scratch(CpuScratchBytes(op.kind, shape));
  GuardedOutput out(batch.tokens() * op.QueryCols());
  CpuCall call;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i] != nullptr) call.in[i] = operands[i]->cpu();
  }
  call.out = out.data();
  call.out_rows = batch.tokens();
  call.out_cols = op.QueryCols();
  call.attrs = op.attrs.data();
  call.state = cache->state();
  call.pool = &pool;
  call.scratch = scratch.data();
  FindCpuKernel(op.kind)(call);
  EXPECT_TRUE(out.intact()) << "wrote beyond its output";
  EXPECT_TRUE(scratch.intact()) << "wrote beyond its scratch";
  EXPECT_TRUE(cache->intact()) << "wrote between blocks";
  return out.values();
}

// Rows [begin, end) of an operand.
TestOperand Rows(const TestOperand& x, int64_t begin, int64_t end) {
  const CpuOperand o = x.cpu();
  return TestOperand::Floats(
      end - begin, o.cols,
      std::vector<float>(o.f32() + begin * o.cols, o.f32() + end * o.cols));
}

// Random activations of a step; k and v of Attention hold values that survive
// rounding to the cache's encoding, so that the reference needs no cache.
std::vector<TestOperand> RandomInputs(const Op& op, int64_t tokens,
                                      Encoding encoding, std::mt19937* rng) {
  if (op.kind == OpKind::kQkvAttention) {
    return {TestOperand::Random(rng, tokens, op.QueryCols() + 2 * op.KvCols())};
  }
  std::vector<TestOperand> x = {
      TestOperand::Random(rng, tokens, op.QueryCols())};
  for (int i = 0; i < 2; ++i) {
    const TestOperand rounded =
        TestOperand::Random(rng, tokens, op.KvCols(), encoding);
    const std::vector<double>& values = rounded.truth().data;
    x.push_back(TestOperand::Floats(
        tokens, op.KvCols(), std::vector<float>(values.begin(), values.end())));
  }
  return x;
}

// Runs all steps; compares with the reference, with other thread counts and
// with each sequence alone.
void CheckSteps(const Op& op, Encoding encoding, const TestOperand* freqs,
                double tolerance, uint32_t seed) {
  std::mt19937 rng(seed);
  Cache cache(op.heads, encoding, &rng);
  RefState state;
  const std::string name =
      absl::StrCat(GetOp(op.kind).spelling, " ", op.heads.text(), ", ",
                   std::string(EncodingName(encoding)));
  for (size_t s = 0; s < kSteps.size(); ++s) {
    const Batch batch(kSteps[s]);
    const std::vector<TestOperand> x =
        RandomInputs(op, batch.tokens(), encoding, &rng);
    const std::string where = absl::StrCat(name, ", step ", s);

    const TestOperand positions = TestOperand::Ints(batch.positions);
    const TestOperand slots = TestOperand::Ints(batch.slots);
    const TestOperand blocks =
        TestOperand::IntMatrix(kSlots, kBlocksPerSlot, cache.blocks());
    const auto operands = Order(op, x, positions, slots, blocks, freqs);
    RefCall ref;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i] != nullptr) ref.operands[i] = &operands[i]->truth();
    }
    ref.attrs = op.attrs.data();
    ref.state = &state;
    RefTensor want;
    DS_ASSERT_OK(RunReference(op.kind, ref, &want));

    Cache alone = cache, two = cache, five = cache;
    const std::vector<float> got = RunCpu(op, x, batch, freqs, &cache, 1);
    EXPECT_TRUE(Close(got, want, tolerance, tolerance, where, seed));
    EXPECT_EQ(RunCpu(op, x, batch, freqs, &two, 2), got) << where;
    EXPECT_EQ(RunCpu(op, x, batch, freqs, &five, 5), got) << where;
    EXPECT_EQ(two.data(), cache.data()) << where;
    EXPECT_EQ(five.data(), cache.data()) << where;
    int64_t row = 0;
    for (const Piece& piece : kSteps[s]) {
      std::vector<TestOperand> part;
      for (const TestOperand& o : x) {
        part.push_back(Rows(o, row, row + piece.count));
      }
      const std::vector<float> mine =
          RunCpu(op, part, Batch({piece}), freqs, &alone, 2);
      const auto begin = got.begin() + row * op.QueryCols();
      EXPECT_EQ(mine, std::vector<float>(begin, begin + mine.size()))
          << where << ", slot " << piece.slot << " alone";
      row += piece.count;
    }
    EXPECT_EQ(alone.data(), cache.data()) << where;
    if (testing::Test::HasFailure()) return;
  }
}

const Heads kHeadCases[] = {
    {9, 3, 3, 0, 64, 0},  // one whole small model
    {3, 2, 2, 1, 16, 0},  // a rank that starts inside a group
    {6, 2, 3, 0, 10, 0},  // no whole vector
    {7, 1, 7, 0, 80, 0},  // many heads on one KV head
    {5, 5, 1, 0, 32, 0},  // no groups
    {4, 1, 4, 0, 24, 0},   {1, 1, 1, 0, 128, 0},
    {6, 2, 3, 0, 16, 5},  // windows below, at and across tiles
    {2, 1, 4, 1, 32, 64},  {3, 3, 1, 0, 10, 100},
    {71, 1, 71, 0, 16, 0},  // more heads than rows of a tile
};

TEST(CpuAttention, MatchesReferenceOverMixedSteps) {
  uint32_t seed = 400;
  for (const Heads& h : kHeadCases) {
    for (Encoding e : {Encoding::kF32, Encoding::kF16, Encoding::kBF16}) {
      const Op op = MakeOp(OpKind::kAttention, h, 1 / std::sqrt(h.dim));
      CheckSteps(op, e, nullptr, 4e-6, ++seed);
    }
  }
}

TEST(CpuAttention, EveryInstructionSetMatchesReference) {
  ForEachTarget([](const std::string& target) {
    SCOPED_TRACE(target);
    uint32_t seed = 450;
    for (const Heads& h :
         {kHeadCases[0], kHeadCases[1], kHeadCases[2], kHeadCases[8]}) {
      for (Encoding e : {Encoding::kF32, Encoding::kF16, Encoding::kBF16}) {
        const Op op = MakeOp(OpKind::kAttention, h, 1 / std::sqrt(h.dim));
        CheckSteps(op, e, nullptr, 4e-6, ++seed);
      }
    }
  });
}

TEST(CpuLatentAttention, MatchesReferenceOverMixedSteps) {
  using A = attr::LatentAttention;
  const int64_t heads = 5, dim = 40, value_dim = 24;
  std::vector<Attr> attrs(A::kCount);
  attrs[A::heads].i = heads;
  attrs[A::head_dim].i = dim;
  attrs[A::value_dim].i = value_dim;
  attrs[A::scale].f = 0.2;
  for (const Encoding e : {Encoding::kF32, Encoding::kBF16}) {
    std::mt19937 rng(460);
    Cache cache({heads, 1, heads, 0, dim, 0}, e, &rng);
    RefState state;
    for (const Step& step : kSteps) {
      const Batch batch(step);
      const TestOperand q =
          TestOperand::Random(&rng, batch.tokens(), heads * dim);
      const std::vector<double> rounded =
          TestOperand::Random(&rng, batch.tokens(), dim, e).truth().data;
      const TestOperand k = TestOperand::Floats(
          batch.tokens(), dim,
          std::vector<float>(rounded.begin(), rounded.end()));
      const TestOperand positions = TestOperand::Ints(batch.positions);
      const TestOperand slots = TestOperand::Ints(batch.slots);
      const TestOperand blocks =
          TestOperand::IntMatrix(kSlots, kBlocksPerSlot, cache.blocks());
      const std::vector<const TestOperand*> operands = {&q, &k, &positions,
                                                        &slots, &blocks};
      RefCall ref;
      CpuCall call;
      for (size_t i = 0; i < operands.size(); ++i) {
        ref.operands[i] = &operands[i]->truth();
        call.in[i] = operands[i]->cpu();
      }
      ref.attrs = call.attrs = attrs.data();
      ref.state = &state;
      RefTensor want;
      DS_ASSERT_OK(RunReference(OpKind::kLatentAttention, ref, &want));

      CpuShape shape;
      shape.max_rows = batch.tokens();
      shape.max_context = kBlocksPerSlot * 16;
      shape.attrs = attrs.data();
      shape.num_threads = 2;
      ThreadPool pool(2);
      TestScratch scratch(CpuScratchBytes(OpKind::kLatentAttention, shape));
      GuardedOutput out(batch.tokens() * heads * value_dim);
      call.out = out.data();
      call.out_rows = batch.tokens();
      call.out_cols = heads * value_dim;
      call.state = cache.state();
      call.pool = &pool;
      call.scratch = scratch.data();
      CpuLatentAttention(call);
      EXPECT_TRUE(out.intact() && scratch.intact() && cache.intact());
      EXPECT_TRUE(Close(out.values(), want, 4e-6, 4e-6, "latent", 460));
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(CpuAttention, ShapesScoresAsTheReferenceDoes) {
  uint32_t seed = 480;
  for (const Heads& h : {kHeadCases[1], kHeadCases[2], kHeadCases[7]}) {
    for (const double softcap : {0.0, 0.7, 30.0}) {
      for (const Alibi alibi : {Alibi::kPlain, Alibi::kScaledBf16}) {
        std::mt19937 rng(++seed);
        Op op = Shaped(MakeOp(OpKind::kAttention, h, 1 / std::sqrt(h.dim)),
                       softcap, alibi, &rng);
        CheckSteps(op, Encoding::kF32, nullptr, 2e-5, seed);
        if (alibi == Alibi::kPlain) {
          op.slopes = nullptr;
          CheckSteps(op, Encoding::kBF16, nullptr, 8e-6, seed);
        }
        const TestOperand freqs =
            TestOperand::Random(&rng, -1, h.dim / 2, Encoding::kF32, 0.1f);
        op = Shaped(MakeOp(OpKind::kQkvAttention, h, 1 / std::sqrt(h.dim),
                           h.dim / 2 * 2),
                    softcap, alibi, &rng);
        CheckSteps(op, Encoding::kF32, &freqs, 8e-5, seed);
      }
    }
    if (testing::Test::HasFailure()) return;
  }
}

TEST(CpuAttention, AddsBiasesByRelativePosition) {
  uint32_t seed = 490;
  for (const Heads& h : {kHeadCases[1], kHeadCases[2], kHeadCases[4]}) {
    for (const int64_t max_distance : {7, 20, 128, 1000}) {
      std::mt19937 rng(++seed);
      Op op = MakeOp(OpKind::kAttention, h, 1 / std::sqrt(h.dim));
      op.attrs[attr::Attention::max_distance].i = max_distance;
      op.rel_bias = std::make_shared<TestOperand>(
          TestOperand::Random(&rng, h.heads, 12, Encoding::kBF16));
      CheckSteps(op, Encoding::kF32, nullptr, 8e-6, seed);
    }
  }
}

TEST(CpuAttention, StaysAccurateWhenOneKeyWins) {
  // Scores around +-80: nearly all weights vanish against the largest.
  const Op op = MakeOp(OpKind::kAttention, {6, 2, 3, 0, 64, 0}, 5.0);
  CheckSteps(op, Encoding::kF32, nullptr, 2e-4, 500);
}

TEST(CpuAttention, OwnsNothingWhenThereAreNoHeads) {
  // No rank-local heads at all, and KV heads that only others query.
  for (const Heads& h : {Heads{0, 0, 3, 0, 64, 0}, {0, 2, 3, 0, 10, 0}}) {
    CheckSteps(MakeOp(OpKind::kAttention, h, 1), Encoding::kF32, nullptr, 0,
               501);
    CheckSteps(MakeOp(OpKind::kQkvAttention, h, 1), Encoding::kF32, nullptr, 0,
               502);
  }
}

TEST(CpuAttention, AStepWithoutTokensDoesNothing) {
  const Op op = MakeOp(OpKind::kAttention, {6, 2, 3, 0, 10, 0}, 1);
  std::mt19937 rng(503);
  Cache cache(op.heads, Encoding::kF32, &rng);
  const std::vector<char> before = cache.data();
  const std::vector<TestOperand> x = RandomInputs(op, 0, Encoding::kF32, &rng);
  EXPECT_TRUE(RunCpu(op, x, Batch({}), nullptr, &cache, 2).empty());
  EXPECT_EQ(cache.data(), before);
}

TEST(CpuAttention, PrefillAgreesWithDecode) {
  const Op op = MakeOp(OpKind::kAttention, {6, 2, 3, 0, 64, 0}, 0.125);
  std::mt19937 rng(504);
  Cache whole(op.heads, Encoding::kBF16, &rng);
  Cache single = whole;
  const int64_t tokens = 200;
  const std::vector<TestOperand> x =
      RandomInputs(op, tokens, Encoding::kBF16, &rng);
  const std::vector<float> prefill =
      RunCpu(op, x, Batch({{1, 0, 200}}), nullptr, &whole, 2);
  for (int32_t t = 0; t < tokens; ++t) {
    const std::vector<TestOperand> row = {
        Rows(x[0], t, t + 1), Rows(x[1], t, t + 1), Rows(x[2], t, t + 1)};
    const std::vector<float> decode =
        RunCpu(op, row, Batch({{1, t, 1}}), nullptr, &single, 2);
    for (int64_t c = 0; c < op.QueryCols(); ++c) {
      ASSERT_NEAR(decode[c], prefill[t * op.QueryCols() + c], 1e-5)
          << "token " << t << ", column " << c;
    }
  }
  EXPECT_EQ(single.data(), whole.data());
}

TEST(CpuAttention, NanInOneKeyReachesTheTokensThatSeeIt) {
  const Op op = MakeOp(OpKind::kAttention, {1, 1, 1, 0, 16, 0}, 0.25);
  for (int32_t tokens : {1, 40}) {
    std::mt19937 rng(505);
    Cache cache(op.heads, Encoding::kF32, &rng);
    std::vector<TestOperand> x = RandomInputs(op, 20, Encoding::kF32, &rng);
    std::vector<float> k(20 * 16, 0.5f);
    k[7 * 16] = std::nanf("");
    x[1] = TestOperand::Floats(20, 16, k);
    RunCpu(op, x, Batch({{0, 0, 20}}), nullptr, &cache, 1);
    x = RandomInputs(op, tokens, Encoding::kF32, &rng);
    for (float y :
         RunCpu(op, x, Batch({{0, 20, tokens}}), nullptr, &cache, 1)) {
      EXPECT_TRUE(std::isnan(y));
    }
  }
}

TEST(CpuQkvAttention, MatchesReferenceOverMixedSteps) {
  uint32_t seed = 600;
  for (const Heads& h : kHeadCases) {
    for (RopeStyle style : {RopeStyle::kHalf, RopeStyle::kInterleaved}) {
      std::mt19937 rng(++seed);
      const int64_t rotary = style == RopeStyle::kHalf ? h.dim : h.dim / 4 * 2;
      const TestOperand freqs =
          TestOperand::Random(&rng, -1, rotary / 2, Encoding::kF32, 0.1f);
      const Op op =
          MakeOp(OpKind::kQkvAttention, h, 1 / std::sqrt(h.dim), rotary, style);
      // Angles up to 90 are rounded to float: 4e-6 a score.
      CheckSteps(op, Encoding::kF32, &freqs, 4e-5, seed);
    }
  }
}

TEST(CpuQkvAttention, RoundsTheCacheOnly) {
  const Heads h = {9, 3, 3, 0, 64, 0};
  std::mt19937 rng(700);
  const TestOperand freqs =
      TestOperand::Random(&rng, -1, 32, Encoding::kBF16, 0.1f);
  const Op op = MakeOp(OpKind::kQkvAttention, h, 0.125, 64);
  // Keys and values off by 2^-9 (bf16) and 2^-12 (f16) of themselves.
  CheckSteps(op, Encoding::kBF16, &freqs, 4e-2, 701);
  CheckSteps(op, Encoding::kF16, &freqs, 5e-3, 702);
}

TEST(CpuQkvAttention, NeedsNoFreqs) {
  const Op op = MakeOp(OpKind::kQkvAttention, {3, 2, 2, 1, 10, 0}, 0.3);
  CheckSteps(op, Encoding::kF32, nullptr, 4e-6, 703);
}

TEST(CpuQkvAttention, EqualsItsParts) {
  // Rope and Attention apart give the same bits.
  const Heads h = {6, 2, 3, 0, 24, 0};
  std::mt19937 rng(704);
  const TestOperand freqs =
      TestOperand::Random(&rng, -1, 12, Encoding::kF32, 0.1f);
  const Op fused = MakeOp(OpKind::kQkvAttention, h, 0.2, 24);
  const Op plain = MakeOp(OpKind::kAttention, h, 0.2);
  Cache a(h, Encoding::kF16, &rng);
  Cache b = a;
  const Batch batch({{3, 0, 21}, {1, 0, 1}});
  const auto x = RandomInputs(fused, batch.tokens(), Encoding::kF16, &rng);
  const std::vector<float> want = RunCpu(fused, x, batch, &freqs, &a, 2);

  const int64_t cols = fused.QueryCols() + 2 * fused.KvCols();
  const auto columns = [&](int64_t begin, int64_t n, bool rotate) {
    std::vector<float> out;
    for (int64_t t = 0; t < batch.tokens(); ++t) {
      const float* row = x[0].cpu().f32() + t * cols + begin;
      out.insert(out.end(), row, row + n);
    }
    if (!rotate) return TestOperand::Floats(batch.tokens(), n, out);
    const TestOperand positions = TestOperand::Ints(batch.positions);
    std::vector<Attr> attrs(attr::Rope::kCount);
    attrs[attr::Rope::heads].i = n / h.dim;
    attrs[attr::Rope::head_dim].i = h.dim;
    attrs[attr::Rope::rotary_dim].i = 24;
    attrs[attr::Rope::scale].f = 1.25;
    ThreadPool pool(1);
    CpuShape shape;
    shape.attrs = attrs.data();
    TestScratch scratch(CpuScratchBytes(OpKind::kRope, shape));
    CpuCall call;
    call.in[0] = {out.data(), Encoding::kF32, nullptr, batch.tokens(), n};
    call.in[1] = positions.cpu();
    call.in[2] = freqs.cpu();
    call.out = out.data();
    call.out_rows = batch.tokens();
    call.out_cols = n;
    call.attrs = attrs.data();
    call.pool = &pool;
    call.scratch = scratch.data();
    CpuRope(call);
    return TestOperand::Floats(batch.tokens(), n, out);
  };
  const std::vector<TestOperand> parts = {
      columns(0, fused.QueryCols(), true),
      columns(fused.QueryCols(), fused.KvCols(), true),
      columns(fused.QueryCols() + fused.KvCols(), fused.KvCols(), false)};
  EXPECT_EQ(RunCpu(plain, parts, batch, nullptr, &b, 2), want);
  EXPECT_EQ(a.data(), b.data());
}

}  // namespace
}  // namespace deepslice
