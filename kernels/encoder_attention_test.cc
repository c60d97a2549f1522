// Attention within a step and over an encoder's keys: the references against
// values computed by hand, and the CPU's kernels against the references.
#include <algorithm>
#include <cmath>
#include <memory>
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

struct Heads {
  int64_t heads, kv_heads, group, offset, dim;
};
const Heads kHeadCases[] = {
    {4, 4, 1, 0, 16}, {6, 2, 3, 0, 10},  {3, 2, 2, 1, 24},
    {1, 1, 1, 0, 64}, {71, 1, 71, 0, 8}, {0, 1, 3, 0, 16},
};

template <typename A>
std::vector<Attr> AttrsOf(const Heads& h, double scale) {
  std::vector<Attr> attrs(A::kCount);
  attrs[A::heads].i = h.heads;
  attrs[A::kv_heads].i = h.kv_heads;
  attrs[A::group].i = h.group;
  attrs[A::head_offset].i = h.offset;
  attrs[A::head_dim].i = h.dim;
  attrs[A::scale].f = scale;
  return attrs;
}

absl::Status RunRef(OpKind kind, const std::vector<const RefTensor*>& operands,
                    const std::vector<Attr>& attrs, RefTensor* out,
                    RefState* state = nullptr) {
  RefCall call;
  for (size_t i = 0; i < operands.size(); ++i) call.operands[i] = operands[i];
  call.attrs = attrs.data();
  call.state = state;
  return RunReference(kind, call, out);
}

void ExpectNear(const RefTensor& got, const std::vector<double>& want) {
  ASSERT_EQ(got.data.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(got.data[i], want[i], 1e-12) << "index " << i;
  }
}

TEST(RefEncoderAttention, SeesItsOwnSequenceWholeOrUpToItself) {
  // Equal scores: the mean of the values that are seen.
  const RefTensor zeros{{4, 1}, {0, 0, 0, 0}}, v{{4, 1}, {1, 2, 6, 40}},
      slots{{4}, {5, 5, 5, 2}};
  std::vector<Attr> attrs = AttrsOf<attr::EncoderAttention>({1, 1, 1, 0, 1}, 1);
  RefTensor y;
  DS_ASSERT_OK(RunRef(OpKind::kEncoderAttention, {&zeros, &zeros, &v, &slots},
                      attrs, &y));
  ExpectNear(y, {3, 3, 3, 40});
  attrs[attr::EncoderAttention::mask].i = static_cast<int64_t>(Mask::kCausal);
  DS_ASSERT_OK(RunRef(OpKind::kEncoderAttention, {&zeros, &zeros, &v, &slots},
                      attrs, &y));
  ExpectNear(y, {1, 1.5, 3, 40});
}

TEST(RefEncoderAttention, AddsTheBiasOfTheBucketOfBothDirections) {
  const RefTensor zeros{{2, 1}, {0, 0}}, v{{2, 1}, {0, 1}}, slots{{2}, {0, 0}};
  // Buckets: own 0, behind 1, none, ahead 3.
  const double ln3 = std::log(3.0), ln7 = std::log(7.0);
  const RefTensor bias{{1, 4}, {0, ln3, 100, ln7}};
  std::vector<Attr> attrs = AttrsOf<attr::EncoderAttention>({1, 1, 1, 0, 1}, 1);
  attrs[attr::EncoderAttention::max_distance].i = 8;
  RefTensor y;
  DS_ASSERT_OK(RunRef(OpKind::kEncoderAttention,
                      {&zeros, &zeros, &v, &slots, &bias}, attrs, &y));
  ExpectNear(y, {7.0 / 8, 1.0 / 4});
  attrs[attr::EncoderAttention::max_distance].i = 1;
  DS_EXPECT_ERROR(RunRef(OpKind::kEncoderAttention,
                         {&zeros, &zeros, &v, &slots, &bias}, attrs, &y),
                  kInvalidArgument, "buckets");
}

TEST(RefAttention, AddsTheBiasOfTheBucketBehind) {
  const RefTensor zeros{{2, 1}, {0, 0}}, v{{2, 1}, {0, 1}}, at{{2}, {0, 1}},
      slots{{2}, {0, 0}}, blocks{{1, 1}, {0}};
  const RefTensor bias{{1, 2}, {0, std::log(3.0)}};
  std::vector<Attr> attrs = AttrsOf<attr::Attention>({1, 1, 1, 0, 1}, 1);
  attrs[attr::Attention::max_distance].i = 4;
  RefState state;
  RefTensor y;
  DS_ASSERT_OK(
      RunRef(OpKind::kAttention,
             {&zeros, &zeros, &v, &at, &slots, &blocks, nullptr, &bias}, attrs,
             &y, &state));
  ExpectNear(y, {0, 1.0 / 4});
}

TEST(RefCrossAttention, KeepsWhatItSawAndReadsTheNamedSource) {
  const RefTensor q{{2, 1}, {0, 0}}, k{{3, 1}, {0, 0, 0}},
      v{{3, 1}, {1, 2, 30}}, slots{{2}, {0, 1}}, positions{{3}, {0, 1, 0}},
      source_slots{{3}, {1, 1, 0}}, sources{{2, 2}, {1, 2, 0, 1}};
  const std::vector<Attr> attrs =
      AttrsOf<attr::CrossAttention>({1, 1, 1, 0, 1}, 1);
  RefState state;
  RefTensor y;
  DS_ASSERT_OK(RunRef(OpKind::kCrossAttention,
                      {&q, &k, &v, &slots, &positions, &source_slots, &sources},
                      attrs, &y, &state));
  ExpectNear(y, {1.5, 30});
  // Later steps bring no keys.
  const RefTensor none{{0, 1}, {}}, no_index{{0}, {}};
  DS_ASSERT_OK(
      RunRef(OpKind::kCrossAttention,
             {&q, &none, &none, &slots, &no_index, &no_index, &sources}, attrs,
             &y, &state));
  ExpectNear(y, {1.5, 30});
}

// What a call is made of beside its operands.
struct Call {
  OpKind kind;
  std::vector<Attr> attrs;
  int64_t out_cols;
};

std::vector<float> RunCpu(const Call& c,
                          const std::vector<const TestOperand*>& operands,
                          const CpuState* state, int threads) {
  const int64_t rows = operands[0]->rows();
  ThreadPool pool(threads);
  CpuShape shape;
  shape.max_rows = rows;
  shape.in_cols = operands[0]->cols();
  shape.out_cols = c.out_cols;
  shape.attrs = c.attrs.data();
  shape.num_threads = threads;
  TestScratch scratch(CpuScratchBytes(c.kind, shape));
  GuardedOutput out(rows * c.out_cols);
  CpuCall call;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i] != nullptr) call.in[i] = operands[i]->cpu();
  }
  call.out = out.data();
  call.out_rows = rows;
  call.out_cols = c.out_cols;
  call.attrs = c.attrs.data();
  call.state = state;
  call.pool = &pool;
  call.scratch = scratch.data();
  FindCpuKernel(c.kind)(call);
  EXPECT_TRUE(out.intact()) << "wrote beyond its output";
  EXPECT_TRUE(scratch.intact()) << "wrote beyond its scratch";
  return out.values();
}

TestOperand Rows(const TestOperand& x, int64_t begin, int64_t end) {
  const CpuOperand o = x.cpu();
  return TestOperand::Floats(
      end - begin, o.cols,
      std::vector<float>(o.f32() + begin * o.cols, o.f32() + end * o.cols));
}

// Sequences of these lengths in one step: the reference's result, the same bits
// with several threads, and for each sequence alone.
void CheckSequences(const Heads& h, Mask mask, int64_t max_distance,
                    Encoding bias_encoding, uint32_t seed) {
  const std::vector<int32_t> lengths = {3, 70, 1, 4, 5, 129};
  std::mt19937 rng(seed);
  Call c{OpKind::kEncoderAttention,
         AttrsOf<attr::EncoderAttention>(h, 1 / std::sqrt(h.dim)),
         h.heads * h.dim};
  c.attrs[attr::EncoderAttention::mask].i = static_cast<int64_t>(mask);
  std::unique_ptr<TestOperand> bias;
  if (max_distance > 0) {
    c.attrs[attr::EncoderAttention::max_distance].i = max_distance;
    bias = std::make_unique<TestOperand>(
        TestOperand::Random(&rng, h.heads, 12, bias_encoding));
  }
  std::vector<int32_t> slots;
  for (size_t s = 0; s < lengths.size(); ++s) {
    slots.insert(slots.end(), lengths[s], static_cast<int32_t>(7 - s));
  }
  const auto tokens = static_cast<int64_t>(slots.size());
  const TestOperand q = TestOperand::Random(&rng, tokens, h.heads * h.dim);
  const TestOperand k = TestOperand::Random(&rng, tokens, h.kv_heads * h.dim);
  const TestOperand v = TestOperand::Random(&rng, tokens, h.kv_heads * h.dim);
  const TestOperand at = TestOperand::Ints(slots);
  const std::string what =
      absl::StrCat(h.heads, " heads of ", h.dim, ", mask ",
                   static_cast<int>(mask), ", distance ", max_distance);

  RefTensor want;
  DS_ASSERT_OK(RunRef(c.kind,
                      {&q.truth(), &k.truth(), &v.truth(), &at.truth(),
                       bias == nullptr ? nullptr : &bias->truth()},
                      c.attrs, &want));
  const std::vector<float> got =
      RunCpu(c, {&q, &k, &v, &at, bias.get()}, nullptr, 1);
  EXPECT_TRUE(Close(got, want, 4e-6, 4e-6, what, seed));
  EXPECT_EQ(RunCpu(c, {&q, &k, &v, &at, bias.get()}, nullptr, 3), got) << what;
  int64_t begin = 0;
  for (const int32_t n : lengths) {
    const TestOperand mine_q = Rows(q, begin, begin + n),
                      mine_k = Rows(k, begin, begin + n),
                      mine_v = Rows(v, begin, begin + n);
    const TestOperand zero = TestOperand::Ints(std::vector<int32_t>(n, 0));
    const std::vector<float> alone =
        RunCpu(c, {&mine_q, &mine_k, &mine_v, &zero, bias.get()}, nullptr, 2);
    const auto first = got.begin() + begin * c.out_cols;
    EXPECT_EQ(alone, std::vector<float>(first, first + alone.size()))
        << what << ", " << n << " tokens alone";
    begin += n;
  }
}

TEST(CpuEncoderAttention, MatchesReferenceWhateverElseIsInTheStep) {
  uint32_t seed = 800;
  for (const Heads& h : kHeadCases) {
    for (const Mask mask : {Mask::kFull, Mask::kCausal}) {
      CheckSequences(h, mask, 0, Encoding::kF32, ++seed);
      CheckSequences(h, mask, 20, Encoding::kF32, ++seed);
      CheckSequences(h, mask, 130, Encoding::kBF16, ++seed);
      CheckSequences(h, mask, 7, Encoding::kF16, ++seed);
    }
  }
}

TEST(CpuEncoderAttention, EveryInstructionSetMatchesReference) {
  ForEachTarget([](const std::string& target) {
    SCOPED_TRACE(target);
    CheckSequences(kHeadCases[1], Mask::kFull, 20, Encoding::kF32, 850);
    CheckSequences(kHeadCases[2], Mask::kCausal, 0, Encoding::kF32, 851);
  });
}

// Slots 0 to 3 read sources 2, 0, 2 and 1; later steps bring none.
void CheckCross(const Heads& h, Encoding encoding, uint32_t seed) {
  const int64_t most = 140;
  std::mt19937 rng(seed);
  const Call c{OpKind::kCrossAttention,
               AttrsOf<attr::CrossAttention>(h, 1 / std::sqrt(h.dim)),
               h.heads * h.dim};
  CpuState state;
  state.encoding = encoding;
  state.block_tokens = most;
  state.block_bytes =
      2 * h.kv_heads * most * h.dim * EncodingBits(encoding) / 8;
  state.num_blocks = 4;
  // NaN where nothing was written.
  std::vector<char> data(state.num_blocks * state.block_bytes + 1, '\xff');
  state.data = data.data();
  const std::vector<int32_t> lengths = {129, 1, 66};
  std::vector<int32_t> positions, source_slots;
  for (size_t s = 0; s < lengths.size(); ++s) {
    for (int32_t p = 0; p < lengths[s]; ++p) {
      positions.push_back(p);
      source_slots.push_back(static_cast<int32_t>(s));
    }
  }
  const TestOperand sources =
      TestOperand::IntMatrix(4, 2, {2, 66, 0, 129, 2, 60, 1, 1});
  RefState ref_state;
  for (int step = 0; step < 2; ++step) {
    const auto count = step == 0 ? static_cast<int64_t>(positions.size()) : 0;
    std::vector<int32_t> slots;
    if (step == 0) {
      slots.assign(5, 3);
      slots.insert(slots.end(), 60, 0);
    }
    slots.insert(slots.end(), {1, 2});
    const auto tokens = static_cast<int64_t>(slots.size());
    const TestOperand q = TestOperand::Random(&rng, tokens, h.heads * h.dim);
    // Values that survive the rounding to the cache.
    const auto rounded = [&] {
      const std::vector<double> values =
          TestOperand::Random(&rng, count, h.kv_heads * h.dim, encoding)
              .truth()
              .data;
      return TestOperand::Floats(
          count, h.kv_heads * h.dim,
          std::vector<float>(values.begin(), values.end()));
    };
    const TestOperand k = rounded(), v = rounded();
    const TestOperand at = TestOperand::Ints(slots);
    const TestOperand where =
        TestOperand::Ints(count > 0 ? positions : std::vector<int32_t>());
    const TestOperand whose =
        TestOperand::Ints(count > 0 ? source_slots : std::vector<int32_t>());
    RefTensor want;
    RefTensor k_truth = k.truth(), v_truth = v.truth();
    DS_ASSERT_OK(RunRef(c.kind,
                        {&q.truth(), &k_truth, &v_truth, &at.truth(),
                         &where.truth(), &whose.truth(), &sources.truth()},
                        c.attrs, &want, &ref_state));
    const std::vector<float> got =
        RunCpu(c, {&q, &k, &v, &at, &where, &whose, &sources}, &state, 1);
    const std::string what = absl::StrCat(h.heads, " heads, step ", step);
    EXPECT_TRUE(Close(got, want, 4e-6, 4e-6, what, seed));
    EXPECT_EQ(RunCpu(c, {&q, &k, &v, &at, &where, &whose, &sources}, &state, 3),
              got)
        << what;
  }
  EXPECT_EQ(data.back(), '\xff');
}

TEST(CpuCrossAttention, MatchesReferenceOverTwoSteps) {
  uint32_t seed = 900;
  for (const Heads& h : kHeadCases) {
    for (const Encoding e : {Encoding::kF32, Encoding::kF16, Encoding::kBF16}) {
      CheckCross(h, e, ++seed);
    }
  }
}

}  // namespace
}  // namespace deepslice
