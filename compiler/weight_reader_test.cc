#include "compiler/weight_reader.h"

#include "compiler/test_checkpoint.h"
#include "gtest/gtest.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

// "a" [6, 5], "b" [6, 5], "t" [5, 9] (published transposed: [9, 5]), "v" [7].
class WeightReaderTest : public testing::Test {
 protected:
  void SetUp() override {
    DS_ASSERT_OK_AND_ASSIGN(
        checkpoint_,
        MakeTestCheckpoint(
            folder_, LlamaConfig(),
            {{"a", {{6, 5}}}, {"b", {{6, 5}}}, {"t", {{5, 9}}}, {"v", {{7}}}}));
  }

  static Weight MakeWeight(std::vector<int64_t> shape,
                           std::vector<SourcePiece> pieces,
                           bool interleaved = false) {
    Weight w;
    w.name = "w";
    for (int64_t n : shape) w.type.dims.push_back(n);
    w.source.pieces = std::move(pieces);
    w.source.interleaved = interleaved;
    return w;
  }

  // Reads [begin, end) in one go and expects the values.
  void Expect(WeightReader& reader, int64_t begin, int64_t end,
              const std::vector<float>& want) {
    std::vector<float> got((end - begin) * reader.cols(), -7);
    DS_ASSERT_OK(reader.ReadRows(begin, end, absl::MakeSpan(got)));
    EXPECT_EQ(got, want) << "rows " << begin << ":" << end;
  }

  // The runs hold what ReadRows gives of all rows.
  void ExpectRuns(const Weight& w) {
    WeightReader reader(*checkpoint_, w);
    ASSERT_TRUE(reader.has_runs());
    std::vector<float> want(reader.rows() * reader.cols()), got;
    DS_ASSERT_OK(reader.ReadRows(0, reader.rows(), absl::MakeSpan(want)));
    DS_ASSERT_OK(reader.ForEachRun(
        [&](DType type, const uint8_t* elements, int64_t count) {
          EXPECT_EQ(type, DType::kF32);
          for (int64_t i = 0; i < count; ++i) {
            float f;
            std::memcpy(&f, elements + 4 * i, 4);
            got.push_back(f);
          }
          return absl::OkStatus();
        }));
    EXPECT_EQ(got, want);
  }

  TempFolder folder_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

float A(int64_t r, int64_t c) { return TestValue("a", r * 5 + c); }
float B(int64_t r, int64_t c) { return TestValue("b", r * 5 + c); }
// As [out, in].
float T(int64_t r, int64_t c) { return TestValue("t", c * 9 + r); }

TEST_F(WeightReaderTest, JoinsPiecesAndCutsColumns) {
  const Weight w = MakeWeight(
      {3, 2}, {{"a", false, {4, 6}, {1, 3}}, {"b", false, {0, 1}, {3, 5}}});
  WeightReader reader(*checkpoint_, w);
  EXPECT_EQ(reader.cols(), 2);
  EXPECT_EQ(reader.full_cols(), 5);
  Expect(reader, 0, 3, {A(4, 1), A(4, 2), A(5, 1), A(5, 2), B(0, 3), B(0, 4)});
  Expect(reader, 1, 2, {A(5, 1), A(5, 2)});
  Expect(reader, 2, 3, {B(0, 3), B(0, 4)});
  Expect(reader, 1, 1, {});
}

TEST_F(WeightReaderTest, GivesWholeRowsOfACut) {
  const Weight w = MakeWeight({2, 2}, {{"a", false, {3, 5}, {1, 3}}});
  WeightReader reader(*checkpoint_, w);
  std::vector<float> got(5);
  DS_ASSERT_OK(reader.ReadFullRows(1, 2, absl::MakeSpan(got)));
  EXPECT_EQ(got,
            (std::vector<float>{A(4, 0), A(4, 1), A(4, 2), A(4, 3), A(4, 4)}));
}

TEST_F(WeightReaderTest, InterleavesRowByRow) {
  const Weight w = MakeWeight(
      {4, 5}, {{"a", false, {1, 3}, {0, 5}}, {"b", false, {4, 6}, {0, 5}}},
      /*interleaved=*/true);
  WeightReader reader(*checkpoint_, w);
  std::vector<float> all;
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t c = 0; c < 5; ++c) all.push_back(A(1 + i, c));
    for (int64_t c = 0; c < 5; ++c) all.push_back(B(4 + i, c));
  }
  for (int64_t begin = 0; begin <= 4; ++begin) {
    for (int64_t end = begin; end <= 4; ++end) {
      Expect(reader, begin, end,
             {all.begin() + begin * 5, all.begin() + end * 5});
    }
  }
}

TEST_F(WeightReaderTest, TurnsATensorThatIsPublishedTransposed) {
  const Weight w = MakeWeight(
      {4, 3}, {{"t", true, {1, 4}, {2, 5}}, {"t", true, {8, 9}, {2, 5}}});
  WeightReader reader(*checkpoint_, w);
  EXPECT_EQ(reader.full_cols(), 5);
  Expect(reader, 2, 4, {T(3, 2), T(3, 3), T(3, 4), T(8, 2), T(8, 3), T(8, 4)});
  std::vector<float> got(5);
  DS_ASSERT_OK(reader.ReadFullRows(0, 1, absl::MakeSpan(got)));
  EXPECT_EQ(got,
            (std::vector<float>{T(1, 0), T(1, 1), T(1, 2), T(1, 3), T(1, 4)}));
}

TEST_F(WeightReaderTest, RunsAreWhatReadRowsGives) {
  ExpectRuns(MakeWeight(
      {3, 2}, {{"a", false, {4, 6}, {1, 3}}, {"b", false, {0, 1}, {3, 5}}}));
  ExpectRuns(MakeWeight(
      {4, 3}, {{"t", true, {1, 4}, {2, 5}}, {"t", true, {8, 9}, {2, 5}}}));
  ExpectRuns(MakeWeight({3}, {{"v", false, {2, 5}, {0, 1}}}));
  // Rows 1, 3, 4 of those that lie in blocks of 2 of every 3, and 0, 1, 2.
  const std::vector<SourcePiece> dealt = {
      {"a", false, {1, 4}, {0, 5}, /*block=*/2, /*every=*/3, /*from=*/0},
      {"b", false, {2, 5}, {0, 5}}};
  ExpectRuns(MakeWeight({6, 5}, dealt));
  ExpectRuns(MakeWeight({6, 5}, dealt, /*interleaved=*/true));
  Weight w = MakeWeight({6, 5}, dealt);
  w.source.plus = 1;
  EXPECT_FALSE(WeightReader(*checkpoint_, w).has_runs());
  w.source.plus = 0;
  w.source.pieces[0].tensor = "c";
  EXPECT_FALSE(WeightReader(*checkpoint_, w).has_runs());
}

TEST_F(WeightReaderTest, ReadsVectorsAndFormulas) {
  const Weight v = MakeWeight({3}, {{"v", false, {2, 5}, {0, 1}}});
  WeightReader vector_reader(*checkpoint_, v);
  Expect(vector_reader, 1, 3, {TestValue("v", 3), TestValue("v", 4)});

  Weight made = MakeWeight({2}, {});
  made.source.formula = "rope_freqs";
  made.source.arguments = {{"base", 16}, {"rotary_dim", 4}};
  WeightReader made_reader(*checkpoint_, made);
  EXPECT_EQ(made_reader.full_cols(), 1);
  Expect(made_reader, 0, 2, {1, 0.25});
}

TEST_F(WeightReaderTest, RefusesWhatDoesNotFit) {
  std::vector<float> out(5);
  const auto read = [&](const Weight& w, int64_t begin, int64_t end) {
    return WeightReader(*checkpoint_, w)
        .ReadRows(begin, end, absl::MakeSpan(out));
  };
  DS_EXPECT_ERROR(
      read(MakeWeight({1, 5}, {{"c", false, {0, 1}, {0, 5}}}), 0, 1), kNotFound,
      "weight @w: tensor \"c\" is not in");
  DS_EXPECT_ERROR(
      read(MakeWeight({1, 5}, {{"a", false, {6, 7}, {0, 5}}}), 0, 1),
      kInvalidArgument,
      "found rows 6:7 and columns 0:5; allowed: "
      "up to 6 and 5");
  DS_EXPECT_ERROR(
      read(MakeWeight({2, 5}, {{"a", false, {0, 1}, {0, 5}}}), 0, 1),
      kInvalidArgument, "the pieces have 1 rows; allowed: 2");
  DS_EXPECT_ERROR(
      read(MakeWeight({6, 5}, {{"a", false, {0, 6}, {0, 5}}}), 5, 7),
      kInvalidArgument, "found rows 5:7 into 5 values");
  DS_EXPECT_ERROR(read(MakeWeight({3}, {}), 0, 1), kInvalidArgument,
                  "found formula \"\"");
}

}  // namespace
}  // namespace deepslice
