// Batches of encoders, and of decoders with sources: what the executor's own
// tests do not send.
#include "runtime/backend/cpu/batch_check.h"

#include <vector>

#include "gtest/gtest.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

constexpr int64_t kVocab = 50, kTypes = 2;

// Two slots, 6 tokens a step.
RunSizes Sizes() {
  RunSizes s;
  s.limits = {.max_batch = 2, .max_step_tokens = 6, .max_seq_len = 5};
  s.max_rows = 6;
  s.block_tokens = 4;
  s.blocks_per_seq = 2;
  s.num_blocks = 4;
  s.tokens_dim = 0;
  s.rows_dim = 1;
  s.dims = {6, 6, 5, 8, 2};
  return s;
}

struct Batch {
  std::vector<int32_t> ids = {7, 8, 9}, positions = {0, 1, 0},
                       slots = {1, 1, 0}, rows = {0, 2}, types = {0, 1, 1};
  std::vector<int32_t> source_ids, source_positions, source_slots, sources;
  std::vector<int32_t> image_positions, image_slots, image_rows;
  std::vector<float> pixels;

  StepBatch view() const {
    StepBatch b;
    b.ids = ids;
    b.positions = positions;
    b.slots = slots;
    b.rows = rows;
    b.types = types;
    b.source_ids = source_ids;
    b.source_positions = source_positions;
    b.source_slots = source_slots;
    b.sources = sources;
    b.image_positions = image_positions;
    b.image_slots = image_slots;
    b.image_rows = image_rows;
    b.pixels = pixels;
    return b;
  }
};

class EncodeBatch : public testing::Test {
 protected:
  EncodeBatch() {
    sizes_ = Sizes();
    sizes_.encodes = sizes_.reads_types = true;
  }
  absl::Status Check() {
    return BatchCheck(sizes_, kVocab, kTypes, /*has_states=*/false)
        .Check(batch_.view());
  }
  RunSizes sizes_;
  Batch batch_;
};

TEST_F(EncodeBatch, NeedsNoBlockTable) { DS_ASSERT_OK(Check()); }

TEST_F(EncodeBatch, RefusesASequenceThatBeginsInTheMiddle) {
  batch_.positions = {1, 2, 0};
  DS_EXPECT_ERROR(Check(), kInvalidArgument,
                  "positions[0] is 1 where a sequence begins; 0 is wanted");
}

TEST_F(EncodeBatch, RefusesTypesThatDoNotFit) {
  batch_.types = {0, 2, 0};
  DS_EXPECT_ERROR(Check(), kInvalidArgument, "types[1] is 2; 0 to 1");
  batch_.types = {0};
  DS_EXPECT_ERROR(Check(), kInvalidArgument, "1 types for 3 ids");
}

TEST_F(EncodeBatch, RefusesImagesThatTheProgramDoesNotTake) {
  batch_.image_rows = {0};
  DS_EXPECT_ERROR(Check(), kInvalidArgument, "1 images; at most 0");
  batch_.image_rows = {};
  batch_.pixels = {1};
  DS_EXPECT_ERROR(Check(), kInvalidArgument, "1 pixels; 0 patches");
}

TEST_F(EncodeBatch, TakesWholeImagesWithTheirPixels) {
  sizes_.image_tokens_dim = 3;
  sizes_.images_dim = 4;
  sizes_.pixel_cols = 2;
  batch_.image_positions = {0, 1, 0, 1};
  batch_.image_slots = {0, 0, 1, 1};
  batch_.image_rows = {0, 2};
  batch_.pixels.assign(8, 0.5f);
  DS_ASSERT_OK(Check());
  batch_.image_rows = {0, 4};
  DS_EXPECT_ERROR(Check(), kInvalidArgument, "image_rows[1] is 4; 0 to 3");
  batch_.image_rows = {0};
  batch_.image_positions = {0, 2, 0, 1};
  DS_EXPECT_ERROR(Check(), kInvalidArgument, "image positions[1] is 2");
}

class SourceBatch : public testing::Test {
 protected:
  SourceBatch() {
    sizes_ = Sizes();
    sizes_.sources_dim = 2;
    batch_.source_ids = {1, 2, 3};
    batch_.source_positions = {0, 1, 0};
    batch_.source_slots = {0, 0, 1};
    batch_.sources = {1, 1, 0, 2};
  }
  absl::Status Check() {
    return BatchCheck(sizes_, kVocab, 0, /*has_states=*/false)
        .Check(batch_.view());
  }
  RunSizes sizes_;
  Batch batch_;
};

TEST_F(SourceBatch, IsKeptForLaterSteps) {
  BatchCheck check(sizes_, kVocab, 0, /*has_states=*/false);
  DS_ASSERT_OK(check.Check(batch_.view()));
  batch_.source_ids = batch_.source_positions = batch_.source_slots = {};
  DS_ASSERT_OK(check.Check(batch_.view()));
  batch_.sources = {1, 2, 0, 2};
  DS_EXPECT_ERROR(check.Check(batch_.view()), kInvalidArgument,
                  "slot 0 reads 2 keys of source 1, which holds 1");
}

TEST_F(SourceBatch, RefusesWhatKernelsCouldNotRead) {
  batch_.sources = {1, 1};
  DS_EXPECT_ERROR(Check(), kInvalidArgument, "2 numbers of sources; 4");
  batch_.sources = {2, 1, 0, 2};
  DS_EXPECT_ERROR(Check(), kInvalidArgument, "sources[0] is 2; 0 to 1");
  batch_.sources = {1, 0, 0, 2};
  DS_EXPECT_ERROR(Check(), kInvalidArgument, "slot 0 reads 0 keys");
  batch_.sources = {1, 1, 0, 2};
  batch_.source_ids = {1, 50, 3};
  DS_EXPECT_ERROR(Check(), kInvalidArgument, "source_ids[1] is 50; 0 to 49");
  batch_.source_ids = {1, 2};
  DS_EXPECT_ERROR(Check(), kInvalidArgument, "2 source ids for 3 slots");
  batch_.source_ids = {1, 2, 3};
  batch_.source_positions = {0, 1, 1};
  DS_EXPECT_ERROR(Check(), kInvalidArgument, "source positions[2] is 1");
  batch_.source_positions = {0, 0, 1};
  batch_.source_slots = {0, 1, 0};
  DS_EXPECT_ERROR(Check(), kInvalidArgument, "source positions[2] is 1");
  batch_.source_positions = {0, 0, 0};
  DS_EXPECT_ERROR(Check(), kInvalidArgument, "side by side");
  batch_.source_slots = {0, 2, 1};
  DS_EXPECT_ERROR(Check(), kInvalidArgument, "source[1] is 2; 0 to 1");
}

}  // namespace
}  // namespace deepslice
