#include "compiler/checkpoint/raw_runs.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>

#include "compiler/checkpoint/loaded_checkpoint.h"
#include "compiler/checkpoint/test_files.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

constexpr int64_t kRows = 67, kColumns = 43;
// Of the numbers that lie in the files; no part begins at an aligned byte.
constexpr int64_t kElements = 3 * kRows * kColumns;

// The bf16 numbers 0, 1, ... as bits, after one byte, twice.
class RawRunsTest : public testing::Test {
 protected:
  RawRunsTest() : bytes_(1, 'x') {
    for (int64_t i = 0; i < kElements; ++i) {
      bytes_ += Bytes(static_cast<uint16_t>(i));
    }
  }

  // A checkpoint of one matrix "t".
  std::unique_ptr<Checkpoint> Open(TensorInfo t) {
    t.name = "t";
    t.dtype = DType::kBF16;
    CheckpointParts parts;
    parts.tensors.push_back(std::move(t));
    for (int i = 0; i < 2; ++i) parts.sources.push_back({"f", bytes_, {}});
    return MakeCheckpoint(std::move(parts));
  }

  static TensorInfo Matrix(int64_t rows = kRows, int64_t columns = kColumns) {
    TensorInfo t;
    t.shape = {rows, columns};
    t.offset = 1;
    t.bytes = rows * columns * 2;
    return t;
  }

  // Bits of a rectangle as the runs give them, and how many runs there were.
  static std::vector<uint16_t> Read(const RawRuns& runs, int64_t begin,
                                    int64_t end, int64_t first, int64_t last,
                                    int64_t* count) {
    std::vector<uint16_t> out;
    *count = 0;
    const absl::Status status = runs.ForEach(
        begin, end, first, last, [&](const uint8_t* elements, int64_t n) {
          ++*count;
          for (int64_t i = 0; i < n; ++i) {
            uint16_t bits;
            std::memcpy(&bits, elements + 2 * i, 2);
            out.push_back(bits);
          }
          return absl::OkStatus();
        });
    EXPECT_TRUE(status.ok()) << status;
    return out;
  }

  // Every rectangle of odd borders holds the bits that `at` says.
  void ExpectAll(const TensorInfo& t, bool turned,
                 const std::function<int64_t(int64_t, int64_t)>& at) {
    const auto checkpoint = Open(t);
    const auto runs = RawRuns::Of(*checkpoint, *checkpoint->Find("t"), turned);
    ASSERT_TRUE(runs.has_value());
    const int64_t rows = turned ? t.row_elements() : t.rows();
    const int64_t columns = turned ? t.rows() : t.row_elements();
    ASSERT_EQ(runs->rows(), rows);
    ASSERT_EQ(runs->columns(), columns);
    const auto borders = [](int64_t n) {
      return std::vector<int64_t>{
          0, 1, n / 3, n / 2 + 1, std::max<int64_t>(0, n - 2), n};
    };
    for (const int64_t begin : borders(rows)) {
      for (const int64_t end : borders(rows)) {
        for (const int64_t first : borders(columns)) {
          for (const int64_t last : borders(columns)) {
            std::vector<uint16_t> want;
            for (int64_t r = begin; r < end; ++r) {
              for (int64_t c = first; c < last; ++c) {
                want.push_back(
                    static_cast<uint16_t>(turned ? at(c, r) : at(r, c)));
              }
            }
            int64_t count;
            ASSERT_EQ(Read(*runs, begin, end, first, last, &count), want)
                << begin << ":" << end << ", " << first << ":" << last
                << (turned ? " turned" : "");
          }
        }
      }
    }
  }
  void ExpectBoth(const TensorInfo& t,
                  const std::function<int64_t(int64_t, int64_t)>& at) {
    ExpectAll(t, false, at);
    ExpectAll(t, true, at);
  }

  std::string bytes_;
};

TEST_F(RawRunsTest, WholeRowsAreOneRun) {
  ExpectBoth(Matrix(), [](int64_t r, int64_t c) { return r * kColumns + c; });
  const auto c = Open(Matrix());
  const auto runs = RawRuns::Of(*c, *c->Find("t"), false);
  int64_t count;
  EXPECT_EQ(Read(*runs, 5, kRows, 0, kColumns, &count).size(),
            static_cast<size_t>((kRows - 5) * kColumns));
  EXPECT_EQ(count, 1);
  Read(*runs, 5, 9, 1, kColumns, &count);
  EXPECT_EQ(count, 4);
}

TEST_F(RawRunsTest, ViewsAreGathered) {
  TensorInfo turned = Matrix();
  turned.strides = {1, kRows};
  ExpectBoth(turned, [](int64_t r, int64_t c) { return c * kRows + r; });
  TensorInfo sparse = Matrix(30, 20);
  sparse.strides = {100, 3};
  sparse.bytes = (29 * 100 + 19 * 3 + 1) * 2;
  ExpectBoth(sparse, [](int64_t r, int64_t c) { return r * 100 + c * 3; });
  TensorInfo repeated = Matrix(30, 20);
  repeated.strides = {0, 1};
  repeated.bytes = 40;
  ExpectBoth(repeated, [](int64_t r, int64_t c) { return c; });
  TensorInfo column;
  column.shape = {25};
  column.strides = {7};
  column.offset = 1;
  column.bytes = (24 * 7 + 1) * 2;
  ExpectAll(column, false, [](int64_t r, int64_t c) { return r * 7; });
}

TEST_F(RawRunsTest, PartsOfRowsColumnsAndTurnedOnesMeet) {
  // Above: two beside each other, the right one turned; below: three.
  TensorInfo t = Matrix();
  const int64_t half = 31, left = 17;
  const auto part = [](int64_t row, int64_t column, int64_t rows,
                       int64_t columns, int file, int64_t at, bool turned) {
    TensorPart p{row,     column, rows,
                 columns, file,   static_cast<uint64_t>(1 + 2 * at),
                 columns, 1};
    if (turned) {
      p.row_stride = 1;
      p.column_stride = rows;
    }
    return p;
  };
  t.parts = {
      part(half, 20, kRows - half, 3, 0, 3000, false),
      part(0, left, half, kColumns - left, 1, 1000, true),
      part(half, 0, kRows - half, 20, 1, 2000, false),
      part(0, 0, half, left, 0, 0, false),
      part(half, 23, kRows - half, kColumns - 23, 0, 4000, false),
  };
  ExpectBoth(t, [&](int64_t r, int64_t c) {
    if (r < half) {
      return c < left ? r * left + c : 1000 + (c - left) * half + r;
    }
    r -= half;
    if (c < 20) return 2000 + r * 20 + c;
    return c < 23 ? 3000 + r * 3 + c - 20 : 4000 + r * (kColumns - 23) + c - 23;
  });
}

TEST_F(RawRunsTest, FlatPiecesThatBreakRowsAreJoined) {
  // As data parallel ranks share a tensor out: at any element.
  for (const int64_t ranks : {2, 3, 5, 64}) {
    TensorInfo t = Matrix();
    const int64_t share = (kRows * kColumns + ranks - 1) / ranks;
    for (int64_t begin = 0; begin < kRows * kColumns; begin += share) {
      const int64_t end = std::min(begin + share, kRows * kColumns);
      for (int64_t at = begin; at < end;) {
        TensorPart p;
        p.row = at / kColumns;
        p.column = at % kColumns;
        p.rows =
            p.column == 0 ? std::max<int64_t>(1, (end - at) / kColumns) : 1;
        p.columns = std::min(kColumns - p.column, end - at);
        p.file = (begin / share) % 2;
        p.offset = 1 + 2 * (at + 50 * (begin / share));
        p.row_stride = kColumns;
        t.parts.push_back(p);
        at += p.rows * p.columns;
      }
    }
    ExpectBoth(t, [&](int64_t r, int64_t c) {
      const int64_t at = r * kColumns + c;
      return at + 50 * (at / share);
    });
  }
}

TEST_F(RawRunsTest, GathersMoreRowsThanOneBuffer) {
  // 1 MiB of gathered rows and some: three of 384 KiB.
  const int64_t columns = 192 << 10;
  bytes_ = "x";
  for (int64_t i = 0; i < columns * 5; ++i) {
    bytes_ += Bytes(static_cast<uint16_t>(i * 7));
  }
  TensorInfo t = Matrix(5, columns);
  t.strides = {1, 5};
  const auto c = Open(t);
  const auto runs = RawRuns::Of(*c, *c->Find("t"), false);
  int64_t count;
  const std::vector<uint16_t> got = Read(*runs, 1, 5, 3, columns, &count);
  ASSERT_EQ(got.size(), static_cast<size_t>(4 * (columns - 3)));
  for (int64_t i = 0; i < static_cast<int64_t>(got.size()); ++i) {
    const int64_t r = 1 + i / (columns - 3), at = 3 + i % (columns - 3);
    ASSERT_EQ(got[i], static_cast<uint16_t>((at * 5 + r) * 7)) << i;
  }
}

TEST_F(RawRunsTest, TurnsEveryWidthOfElements) {
  for (const DType type : {DType::kF16, DType::kF32, DType::kF64}) {
    const int64_t size = DTypeSize(type);
    bytes_ = "x";
    for (int64_t i = 0; i < kRows * kColumns; ++i) {
      // Every byte of an element tells which it is.
      const uint64_t bits = static_cast<uint64_t>(i + 1) * 0x9e3779b97f4a7c15u;
      bytes_.append(reinterpret_cast<const char*>(&bits), size);
    }
    TensorInfo t = Matrix();
    t.bytes = kRows * kColumns * size;
    const auto c = Open(t);
    t = *c->Find("t");
    t.dtype = type;
    const auto runs = RawRuns::Of(*c, t, true);
    ASSERT_TRUE(runs.has_value());
    std::string got, want;
    DS_ASSERT_OK(runs->ForEach(
        0, kColumns, 0, kRows, [&](const uint8_t* elements, int64_t n) {
          got.append(reinterpret_cast<const char*>(elements), n * size);
          return absl::OkStatus();
        }));
    for (int64_t col = 0; col < kColumns; ++col) {
      for (int64_t row = 0; row < kRows; ++row) {
        want += bytes_.substr(1 + (row * kColumns + col) * size, size);
      }
    }
    EXPECT_TRUE(got == want) << DTypeName(type);
  }
}

TEST_F(RawRunsTest, HasNothingOfWhatMustBeComputed) {
  const auto has = [&](const std::function<void(TensorInfo&)>& change) {
    TensorInfo t = Matrix();
    change(t);
    const auto c = Open(t);
    TensorInfo found = *c->Find("t");
    change(found);  // the type too
    return RawRuns::Of(*c, found, false).has_value();
  };
  EXPECT_TRUE(has([](TensorInfo& t) {}));
  EXPECT_FALSE(has([](TensorInfo& t) { t.storage = Storage::kQ8_0; }));
  EXPECT_FALSE(has([](TensorInfo& t) { t.rotary_heads = 1; }));
  EXPECT_FALSE(has([](TensorInfo& t) { t.unreadable = "is quantised"; }));
  EXPECT_FALSE(has([](TensorInfo& t) { t.synthetic.emplace(); }));
  EXPECT_FALSE(has([](TensorInfo& t) { t.dtype = DType::kI16; }));
  EXPECT_FALSE(has([](TensorInfo& t) {
    t.shape = {2, 3, 4};
    t.strides = {12, 1, 3};
  }));
}

TEST_F(RawRunsTest, PartsThatLeaveAHoleAreAnError) {
  TensorInfo t = Matrix();
  t.parts = {{0, 0, kRows, kColumns - 1, 0, 1, kColumns, 1}};
  const auto c = Open(t);
  const auto runs = RawRuns::Of(*c, *c->Find("t"), false);
  const auto ignore = [](const uint8_t*, int64_t) { return absl::OkStatus(); };
  DS_ASSERT_OK(runs->ForEach(0, kRows, 0, kColumns - 1, ignore));
  DS_EXPECT_ERROR(runs->ForEach(0, kRows, 0, kColumns, ignore), kInternal,
                  "don't cover it");
}

TEST_F(RawRunsTest, StopsAtTheFirstError) {
  const auto c = Open(Matrix());
  const auto runs = RawRuns::Of(*c, *c->Find("t"), true);
  int calls = 0;
  const auto fail = [&](const uint8_t*, int64_t) {
    ++calls;
    return absl::DataLossError("full");
  };
  DS_EXPECT_ERROR(runs->ForEach(0, 3, 0, kRows, fail), kDataLoss, "full");
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace deepslice
