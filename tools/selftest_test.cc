// dsrun selftest's parts: kernels against the reference, the table, files.
#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "runtime/executor.h"
#include "schema/base/file.h"
#include "schema/base/status_macros.h"
#include "schema/base/status_matchers.h"
#include "schema/manifest_digest.h"
#include "tests/support/plan_builder.h"
#include "tools/selftest_kernels.h"
#include "tools/selftest_report.h"
#include "tools/selftest_steps.h"
#include "tools/selftest_text.h"

namespace deepslice {
namespace {

std::vector<KernelUse> Uses(const Plan& plan) {
  return KernelUses(plan.fb(), *plan.FindProgram("cpu", fb::ProgramKind::Step));
}

TEST(KernelUses, AreEachOnce) {
  const auto plan = TinyLlama().Build().Load();
  DS_ASSERT_OK(plan);
  const std::vector<KernelUse> uses = Uses(*plan);
  std::vector<std::string> texts;
  for (const KernelUse& u : uses) texts.push_back(u.Text());
  EXPECT_TRUE(std::any_of(texts.begin(), texts.end(), [](const auto& t) {
    return absl::StrContains(t, "linear x 20, f32[");
  })) << texts[0];
  EXPECT_LE(uses.size(),
            plan->fb().targets()->Get(0)->programs()->Get(0)->steps()->size());
}

// Every kernel that tiny plans use, in every encoding, on one thread and on
// three.
TEST(TestKernel, PassesWhatTheCatalogueHas) {
  for (const Encoding matrices :
       {Encoding::kF32, Encoding::kF16, Encoding::kBF16, Encoding::kI8Row}) {
    for (const Encoding cache :
         {Encoding::kF32, Encoding::kF16, Encoding::kBF16}) {
      const auto plan =
          TinyLlama{.matrices = matrices, .cache = cache}.Build().Load();
      DS_ASSERT_OK(plan);
      for (const KernelUse& use : Uses(*plan)) {
        for (const int threads : {1, 3}) {
          ThreadPool pool(threads);
          DS_ASSERT_OK(Annotate(TestKernel(use, &pool), use.Text()));
        }
      }
    }
  }
}

KernelUse NormUse() {
  KernelUse use;
  use.op = OpKind::kRmsNorm;
  use.attrs = {Attr{.f = 1e-5}};
  KernelUse::Operand x, scale;
  x.source = KernelUse::Operand::Source::kValue;
  x.name = "x";
  x.rows = 3;
  x.cols = 40;
  scale.source = KernelUse::Operand::Source::kWeight;
  scale.name = "scale";
  scale.rows = 1;
  scale.cols = 40;
  scale.vector = true;
  use.operands = {x, scale};
  use.out_cols = 40;
  return use;
}

TEST(TestKernel, NoticesAPlanThatDisagreesWithItsOp) {
  ThreadPool pool(1);
  KernelUse use = NormUse();
  DS_ASSERT_OK(TestKernel(use, &pool));
  use.out_cols = 41;
  DS_EXPECT_ERROR(TestKernel(use, &pool), kInternal, "41 columns");
}

using Operand = KernelUse::Operand;
Operand Value(const char* name, int64_t cols) {
  return {
      .source = Operand::Source::kValue, .name = name, .rows = 7, .cols = cols};
}
Operand Vector(const char* name, int64_t cols) {
  return {.source = Operand::Source::kWeight,
          .name = name,
          .rows = 1,
          .cols = cols,
          .vector = true};
}
Operand Matrix(const char* name, int64_t rows, int64_t cols) {
  return {.source = Operand::Source::kWeight,
          .name = name,
          .rows = rows,
          .cols = cols};
}
Operand Input(const char* name) {
  return {.source = Operand::Source::kInput, .name = name};
}

// Ops that no tiny plan has.
TEST(TestKernel, PassesWhatFewFamiliesUse) {
  const int64_t half = static_cast<int64_t>(RopeStyle::kHalf);
  const int64_t plain = static_cast<int64_t>(Alibi::kPlain);
  const int64_t full = static_cast<int64_t>(Mask::kFull);
  const int64_t rms = static_cast<int64_t>(NormKind::kRms);
  const KernelUse uses[] = {
      {.op = OpKind::kRope,
       .attrs = {{2}, {8}, {8}, {half}, {0, 1.0}, {4}},
       .operands = {Value("x", 16), Input("positions"), Vector("freqs", 4),
                    Vector("long_freqs", 4), Input("slots"), Input("horizons")},
       .out_cols = 16},
      {.op = OpKind::kAttention,
       .attrs = {{2}, {1}, {2}, {0}, {8}, {0, 0.5}, {3}, {0, 5.0}, {plain}, {}},
       .operands = {Value("q", 16), Value("k", 8), Value("v", 8),
                    Input("positions"), Input("slots"), Input("blocks"),
                    Vector("slopes", 2), Operand()},
       .out_cols = 16,
       .block_tokens = 4,
       .block_bytes = 2 * 4 * 8 * 4},
      {.op = OpKind::kAttention,
       .attrs = {{2}, {1}, {2}, {0}, {8}, {0, 1.0}, {0}, {0, 0.0}, {plain}, {5}},
       .operands = {Value("q", 16), Value("k", 8), Value("v", 8),
                    Input("positions"), Input("slots"), Input("blocks"),
                    Operand(), Matrix("rel_bias", 2, 4)},
       .out_cols = 16,
       .block_tokens = 4,
       .block_bytes = 2 * 4 * 8 * 4},
      {.op = OpKind::kEncoderAttention,
       .attrs = {{2}, {1}, {2}, {0}, {8}, {0, 0.5}, {full}, {}},
       .operands = {Value("q", 16), Value("k", 8), Value("v", 8),
                    Input("slots"), Operand()},
       .out_cols = 16},
      {.op = OpKind::kEncoderAttention,
       .attrs = {{2}, {2}, {1}, {0}, {8}, {0, 1.0}, {full}, {9}},
       .operands = {Value("q", 16), Value("k", 16), Value("v", 16),
                    Input("slots"), Matrix("rel_bias", 2, 8)},
       .out_cols = 16},
      {.op = OpKind::kCrossAttention,
       .attrs = {{2}, {2}, {1}, {0}, {8}, {0, 1.0}},
       .operands = {Value("q", 16), Value("k", 16), Value("v", 16),
                    Input("slots"), Input("source_positions"),
                    Input("source_slots"), Input("sources")},
       .out_cols = 16,
       .block_tokens = 6,
       .block_bytes = 2 * 6 * 16 * 4},
      {.op = OpKind::kLatentAttention,
       .attrs = {{2}, {8}, {6}, {0, 0.5}},
       .operands = {Value("q", 16), Value("k", 8), Input("positions"),
                    Input("slots"), Input("blocks")},
       .out_cols = 12,
       .block_tokens = 4,
       .block_bytes = 4 * 8 * 4},
      {.op = OpKind::kHeadLinear,
       .attrs = {{2}, {1}},
       .operands = {Value("x", 16), Matrix("w", 16, 5)},
       .out_cols = 10},
      {.op = OpKind::kConcatHeads,
       .attrs = {{2}},
       .operands = {Value("a", 8), Value("b", 4)},
       .out_cols = 12},
      {.op = OpKind::kHeadNorm,
       .attrs = {{rms}, {2}, {8}, {0, 1e-5}},
       .operands = {Value("x", 16), Vector("scale", 8), Operand()},
       .out_cols = 16},
      {.op = OpKind::kSumSquares,
       .attrs = {{3}, {11}},
       .operands = {Value("x", 16)},
       .out_cols = 1},
      {.op = OpKind::kRmsNormOver,
       .attrs = {{32}, {0, 1e-5}},
       .operands = {Value("x", 16), Value("sums", 1), Vector("scale", 16)},
       .out_cols = 16},
      {.op = OpKind::kScale,
       .attrs = {{0, 0.5}},
       .operands = {Value("x", 16)},
       .out_cols = 16},
      {.op = OpKind::kSoftcap,
       .attrs = {{0, 0.3}},
       .operands = {Value("x", 16)},
       .out_cols = 16}};
  for (const KernelUse& use : uses) {
    for (const int threads : {1, 3}) {
      ThreadPool pool(threads);
      DS_ASSERT_OK(Annotate(TestKernel(use, &pool), use.Text()));
    }
  }
}

// A norm whose last number is off by as little as a float's rounding never is.
void OffByALittle(const CpuCall& call) {
  FindCpuKernel(OpKind::kRmsNorm)(call);
  call.out[call.out_rows * call.out_cols - 1] += 1e-3f;
}
void LeavesOneOut(const CpuCall& call) {
  FindCpuKernel(OpKind::kRmsNorm)(call);
  call.out[40] = std::numeric_limits<float>::quiet_NaN();
}

TEST(TestKernel, NamesTheFirstWrongNumber) {
  ThreadPool pool(1);
  DS_EXPECT_ERROR(TestKernel(NormUse(), &pool, OffByALittle), kInternal,
                  "row 2, column 39 is");
  DS_EXPECT_ERROR(TestKernel(NormUse(), &pool, LeavesOneOut), kInternal,
                  "row 1, column 0 is nan, the reference has");
}

TEST(TestKernel, RefusesTensorsThatNoTestNeeds) {
  ThreadPool pool(1);
  KernelUse use = NormUse();
  for (auto& o : use.operands) o.cols = int64_t{1} << 40;
  DS_EXPECT_ERROR(TestKernel(use, &pool), kResourceExhausted, "too large");
}

// An executor whose step `wrong` makes numbers that are not those of its op,
// and which, like a GPU, does not show the step before.
class WrongExecutor final : public Executor {
 public:
  WrongExecutor(Executor* real, int hidden, int wrong)
      : real_(*real), hidden_(hidden), wrong_(wrong) {}
  absl::Status Execute(const StepBatch& batch) override {
    return real_.Execute(batch);
  }
  absl::StatusOr<const float*> Logits() override { return real_.Logits(); }
  absl::StatusOr<absl::Span<const int32_t>> Sampled() override {
    return real_.Sampled();
  }
  void SetObserver(Observer observer) override {
    if (!observer) return real_.SetObserver(nullptr);
    real_.SetObserver([this, observer](int step, const float* data,
                                       int64_t rows, int64_t cols) {
      if (step == hidden_) return;
      std::vector<float> seen(data, data + rows * cols);
      if (step == wrong_) seen.back() += 3;
      observer(step, seen.data(), rows, cols);
    });
  }
  const fb::Program* last_program() const override {
    return real_.last_program();
  }
  const RunLimits& limits() const override { return real_.limits(); }
  int64_t blocks_per_seq() const override { return real_.blocks_per_seq(); }
  int64_t num_blocks() const override { return real_.num_blocks(); }
  int64_t block_tokens() const override { return real_.block_tokens(); }
  int64_t vocab_size() const override { return real_.vocab_size(); }
  std::vector<MemoryLine> memory() const override { return real_.memory(); }

 private:
  Executor& real_;
  const int hidden_, wrong_;
};

TEST(TestSteps, HoldsEachStepAgainstItsOp) {
  for (const Encoding cache : {Encoding::kF32, Encoding::kBF16}) {
    const auto plan =
        TinyLlama{.matrices = Encoding::kI8Row, .cache = cache}.Build().Load();
    DS_ASSERT_OK(plan);
    const fb::Program& program =
        *plan->FindProgram("cpu", fb::ProgramKind::Step);
    ThreadPool pool(1);
    DS_ASSERT_OK_AND_ASSIGN(const auto real,
                            Executor::Prepare(*plan, {}, nullptr, &pool));
    // Each step hidden in turn: its reader's reference computes it.
    const int steps = static_cast<int>(program.steps()->size());
    for (int hidden = -1; hidden + 1 < steps; ++hidden) {
      WrongExecutor executor(real.get(), hidden, -1);
      SelftestReport report;
      TestSteps(*plan, program, &executor, 2, &report);
      DS_ASSERT_OK(report.status());
      EXPECT_GE(report.rows().size(), 5u);
    }
    for (const int wrong : {0, 2, steps - 1}) {
      WrongExecutor executor(real.get(), -1, wrong);
      SelftestReport report;
      TestSteps(*plan, program, &executor, 2, &report);
      const std::string name = program.steps()->Get(wrong)->name()->str();
      DS_EXPECT_ERROR(report.status(), kInternal, name);
    }
  }
}

// Everything that dsrun selftest does with a plan on the CPU, but for files.
// Whether it could be loaded.
bool TestAll(const TestPlan& built, const std::string& bytes,
             ThreadPool* pool) {
  const auto plan =
      Plan::FromBytes(bytes, built.weights, "p", {.check_weights = false});
  if (!plan.ok()) return false;
  const auto executor = Executor::Prepare(
      *plan, {.max_batch = 2, .max_step_tokens = 4, .max_seq_len = 8}, nullptr,
      pool);
  if (!executor.ok() || (*executor)->num_blocks() > 4096 ||
      (*executor)->vocab_size() > 4096) {
    return false;
  }
  SelftestReport report;
  TestText(plan->fb(), &report);
  const fb::Program& program = *plan->FindProgram("cpu", fb::ProgramKind::Step);
  for (const KernelUse& use : KernelUses(plan->fb(), program)) {
    report.Add(use.Text(), "", TestKernel(use, pool));
  }
  TestSteps(*plan, program, executor->get(), 1, &report);
  EXPECT_FALSE(report.rows().empty());
  return true;
}

// Damage that the plan's own check lets pass ends in rows of the table.
TEST(Selftest, SurvivesAnyDamage) {
  TestPlan built = TinyLlama{.cache = Encoding::kF16}.Build();
  built.plan.chat_template =
      "{% for m in messages %}{{ m.content }}{% endfor %}";
  built.plan.self_tests.push_back(std::make_unique<fb::SelfTestT>());
  built.plan.self_tests[0]->prompt = {1, 2};
  built.plan.self_tests[0]->continuation = {3};
  built.plan.render_tests.push_back(std::make_unique<fb::RenderTestT>());
  built.plan.render_tests[0]->messages =
      "[{\"role\": \"user\", \"content\": \"a\"}]";
  built.plan.render_tests[0]->text = "a";
  const std::string good = built.Bytes();
  ThreadPool pool(1);
  ASSERT_TRUE(TestAll(built, good, &pool));
  int ran = 0;
  for (size_t at = 0; at + 4 <= good.size(); at += 4) {
    for (const uint32_t word : {0u, 1u, 2u, 0x7fffffffu, 0xffffffffu}) {
      std::string bytes = good;
      std::memcpy(&bytes[at], &word, 4);
      ran += TestAll(built, bytes, &pool);
    }
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ 4);
    ran += TestAll(built, bytes, &pool);
  }
  EXPECT_GT(ran, 1000);
}

TEST(SelftestReport, CountsFailuresAndKeepsTheFirst) {
  SelftestReport report;
  report.Pass("a", "fine");
  report.Skip("b\n", "not here");
  DS_ASSERT_OK(report.status());
  report.Add("c", "", absl::DataLossError("block 3 is damaged"));
  report.Add("d", "", absl::InternalError("ids differ"));
  DS_EXPECT_ERROR(report.status(), kDataLoss,
                  "selftest: 2 of 4 tests failed; the first: block 3");
  EXPECT_EQ(report.Text(false),
            "passed   a    fine\n"
            "skipped  b\\n  not here\n"
            "FAILED   c    block 3 is damaged\n"
            "FAILED   d    ids differ\n");
  EXPECT_TRUE(absl::StrContains(report.Text(true), "\033[1;31mFAILED \033[0m"));
  EXPECT_TRUE(absl::StrContains(json::Write(report.Json()),
                                "\"passed\":false,\"tests\":[{\"test\":\"a\","
                                "\"outcome\":\"passed\""));
}

TEST(ManifestDigest, CoversEveryBit) {
  std::string text = "{\n \"a\": 1,\n \"manifest_sha256\": \"" +
                     ManifestDigestPlaceholder() + "\"\n}\n";
  EXPECT_FALSE(HasManifestDigest(text));
  ASSERT_TRUE(SealManifest(&text));
  EXPECT_TRUE(HasManifestDigest(text));
  for (size_t i = 0; i < 8 * text.size(); ++i) {
    std::string flipped = text;
    flipped[i / 8] ^= static_cast<char>(1 << (i % 8));
    EXPECT_FALSE(HasManifestDigest(flipped)) << "bit " << i;
  }
  EXPECT_FALSE(HasManifestDigest(text.substr(0, text.size() - 1)));
  EXPECT_FALSE(HasManifestDigest("{}"));
  EXPECT_FALSE(HasManifestDigest(text + "x"));
}

}  // namespace
}  // namespace deepslice
