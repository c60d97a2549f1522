#include "runtime/backend/cuda/step_inputs.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace deepslice {
namespace {

struct Tile {
  int32_t first, tokens, slot, position;
};
static_assert(sizeof(Tile) == 16);

void Put(absl::Span<const int32_t> values, int64_t at, char* block) {
  if (at < 0 || values.empty()) return;
  std::memcpy(block + at, values.data(), 4 * values.size());
}

// How many there are, at most `most` of them written.
int64_t WriteTiles(const StepBatch& batch, int64_t tile_tokens, int64_t most,
                   char* to) {
  const auto tokens = static_cast<int64_t>(batch.ids.size());
  int64_t tiles = 0;
  for (int64_t t = 0; t < tokens;) {
    int64_t end = t + 1;
    while (end < tokens && end < t + tile_tokens &&
           batch.slots[end] == batch.slots[t]) {
      ++end;
    }
    if (tiles < most) {
      const Tile tile = {static_cast<int32_t>(t), static_cast<int32_t>(end - t),
                         batch.slots[t], batch.positions[t]};
      std::memcpy(to + tiles * sizeof(Tile), &tile, sizeof(Tile));
    }
    ++tiles;
    t = end;
  }
  return tiles;
}

}  // namespace

bool IsOneTokenEach(const StepBatch& batch) {
  for (size_t t = 1; t < batch.slots.size(); ++t) {
    if (batch.slots[t] == batch.slots[t - 1]) return false;
  }
  return true;
}

int ChooseProgram(const GpuSizes& sizes, const StepBatch& batch) {
  if (sizes.programs.size() == 1) return 0;
  // Programs of a bucket have no encoder.
  if (!IsOneTokenEach(batch) || !batch.source_ids.empty()) return 0;
  const size_t needed = std::max(batch.ids.size(), batch.rows.size());
  for (size_t i = 1; i < sizes.programs.size(); ++i) {
    const int bucket = sizes.programs[i].program->bucket();
    if (static_cast<size_t>(bucket) >= needed) return static_cast<int>(i);
  }
  return 0;
}

absl::StatusOr<StepInfo> WriteStepInputs(const ProgramSizes& program,
                                         int64_t blocks_per_seq,
                                         const StepBatch& batch, char* block) {
  const InputLayout& in = program.inputs;
  StepInfo info = {};
  info.tokens = static_cast<int32_t>(batch.ids.size());
  info.rows = static_cast<int32_t>(batch.rows.size());
  info.image_tokens = static_cast<int32_t>(batch.image_positions.size());
  info.images = static_cast<int32_t>(batch.image_rows.size());
  info.source_tokens = static_cast<int32_t>(batch.source_ids.size());
  info.blocks_per_seq = static_cast<int32_t>(blocks_per_seq);
  info.sampled_rows = static_cast<int32_t>(batch.samplers.size());
  if (in.tiles >= 0) {
    const int64_t most = program.dims[program.tiles_dim];
    const int64_t tiles = WriteTiles(batch, program.program->tile_tokens(),
                                     most, block + in.tiles);
    if (tiles > most) {
      return absl::InternalError(
          absl::StrCat("step: ", tiles,
                       " tiles of queries; the program was "
                       "compiled for ",
                       most));
    }
    info.tiles = static_cast<int32_t>(tiles);
  }
  std::memcpy(block + in.step_info, &info, sizeof(info));
  Put(batch.ids, in.ids, block);
  Put(batch.positions, in.positions, block);
  Put(batch.slots, in.slots, block);
  Put(batch.rows, in.rows, block);
  Put(batch.horizons, in.horizons, block);
  Put(batch.types, in.types, block);
  Put(batch.image_positions, in.image_positions, block);
  Put(batch.image_slots, in.image_slots, block);
  Put(batch.image_rows, in.image_rows, block);
  Put(batch.source_ids, in.source_ids, block);
  Put(batch.source_positions, in.source_positions, block);
  Put(batch.source_slots, in.source_slots, block);
  Put(batch.sources, in.sources, block);
  if (in.pixels >= 0 && !batch.pixels.empty()) {
    std::memcpy(block + in.pixels, batch.pixels.data(),
                batch.pixels.size() * sizeof(float));
  }
  if (in.samplers >= 0 && !batch.samplers.empty()) {
    std::memcpy(block + in.samplers, batch.samplers.data(),
                batch.samplers.size() * sizeof(SamplerRecord));
  }
  return info;
}

}  // namespace deepslice
