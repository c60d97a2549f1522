#include "runtime/step_channel.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "schema/base/check.h"
#include "schema/base/digest.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

static_assert(std::endian::native == std::endian::little,
              "frames are copied as they lie in memory");

constexpr uint32_t kMagic = 0x74735344;  // "DSst"
constexpr uint32_t kStep = 1, kStop = 2;
constexpr int64_t kHeaderBytes = 64;
// Well below what any comm takes at once.
constexpr int64_t kPieceBytes = 16 << 10;

template <typename T>
void Put(std::vector<uint8_t>& header, int at, T value) {
  std::memcpy(&header[at], &value, sizeof(value));
}
template <typename T>
T Get(const std::vector<uint8_t>& header, int at) {
  T value;
  std::memcpy(&value, &header[at], sizeof(value));
  return value;
}

template <typename... Text>
absl::Status Disagree(const Text&... text) {
  return absl::AbortedError(absl::StrCat("ranks disagree: ", text...));
}

}  // namespace

uint64_t StepShapeDigest(const Executor& executor) {
  const int64_t shape[] = {
      executor.limits().max_batch,   executor.limits().max_step_tokens,
      executor.limits().max_seq_len, executor.blocks_per_seq(),
      executor.num_blocks(),         executor.block_tokens(),
      executor.vocab_size()};
  return Xxh3(shape, sizeof(shape));
}

StepChannel::StepChannel(const Executor& executor, Comm* comm)
    : comm_(comm),
      shape_(StepShapeDigest(executor)),
      max_tokens_(executor.limits().max_step_tokens),
      table_size_(executor.limits().max_batch * executor.blocks_per_seq()),
      max_batch_(executor.limits().max_batch),
      has_types_(executor.reads_types()),
      max_source_tokens_(executor.max_source_tokens()),
      max_image_tokens_(executor.max_image_tokens()),
      patch_(executor.patch_elements()),
      header_(kHeaderBytes, 0),
      body_(5 * max_tokens_ + table_size_ + 3 * max_batch_ +
            3 * max_source_tokens_ + (3 + patch_) * max_image_tokens_) {}

absl::Status StepChannel::BroadcastBody(int64_t bytes) {
  auto* data = reinterpret_cast<uint8_t*>(body_.data());
  for (int64_t at = 0; at < bytes; at += kPieceBytes) {
    DS_RETURN_IF_ERROR(
        comm_->Broadcast(data + at, std::min(kPieceBytes, bytes - at)));
  }
  return absl::OkStatus();
}

absl::Status StepChannel::SendStep(const StepBatch& batch) {
  int64_t size = 0;
  const auto add = [&](const void* data, size_t count) {
    if (count == 0) return;
    DS_CHECK(size + count <= body_.size());
    std::memcpy(body_.data() + size, data, count * sizeof(int32_t));
    size += static_cast<int64_t>(count);
  };
  for (const auto& part :
       {batch.ids, batch.positions, batch.slots, batch.blocks, batch.rows,
        batch.horizons, batch.types, batch.source_ids, batch.source_positions,
        batch.source_slots, batch.sources, batch.image_positions,
        batch.image_slots, batch.image_rows}) {
    add(part.data(), part.size());
  }
  add(batch.pixels.data(), batch.pixels.size());
  const int64_t bytes = size * static_cast<int64_t>(sizeof(int32_t));
  Put(header_, 0, kMagic);
  Put(header_, 4, kStep);
  Put(header_, 8, step_++);
  Put(header_, 16, shape_);
  Put(header_, 24, Xxh3(body_.data(), bytes));
  Put(header_, 32, static_cast<uint32_t>(batch.ids.size()));
  Put(header_, 36, static_cast<uint32_t>(batch.blocks.size()));
  Put(header_, 40, static_cast<uint32_t>(batch.rows.size()));
  Put(header_, 44, static_cast<uint32_t>(batch.horizons.size()));
  Put(header_, 48, static_cast<uint32_t>(batch.source_ids.size()));
  Put(header_, 52, static_cast<uint32_t>(batch.image_slots.size()));
  Put(header_, 56, static_cast<uint32_t>(batch.image_rows.size()));
  Put(header_, 60, static_cast<uint32_t>(batch.pixels.size()));
  DS_RETURN_IF_ERROR(comm_->Broadcast(header_.data(), kHeaderBytes));
  return BroadcastBody(bytes);
}

absl::Status StepChannel::SendStop() {
  std::fill(header_.begin(), header_.end(), 0);
  Put(header_, 0, kMagic);
  Put(header_, 4, kStop);
  Put(header_, 8, step_++);
  Put(header_, 16, shape_);
  return comm_->Broadcast(header_.data(), kHeaderBytes);
}

absl::Status StepChannel::Check(uint32_t kind) const {
  const auto magic = Get<uint32_t>(header_, 0);
  if (magic != kMagic || (kind != kStep && kind != kStop)) {
    return Disagree("rank 0 sent a frame of magic ", absl::Hex(magic),
                    " and kind ", kind, " where a step belongs");
  }
  const auto shape = Get<uint64_t>(header_, 16);
  if (shape != shape_) {
    return Disagree("rank ", comm_->rank(), " was prepared with other ",
                    "ceilings than rank 0 (digest ", absl::Hex(shape_), ", ",
                    absl::Hex(shape), "); give every rank the same flags");
  }
  const auto step = Get<uint64_t>(header_, 8);
  if (step != step_) {
    return Disagree("rank 0 is at step ", step, ", rank ", comm_->rank(),
                    " at step ", step_);
  }
  return absl::OkStatus();
}

absl::Status StepChannel::CheckCounts() const {
  const auto count = [this](int at) {
    return static_cast<int64_t>(Get<uint32_t>(header_, at));
  };
  const int64_t tokens = count(32), blocks = count(36), rows = count(40);
  const int64_t horizons = count(44);
  if (tokens > max_tokens_ || rows > tokens ||
      (blocks != table_size_ && blocks != 0) || horizons > max_batch_) {
    return Disagree("step ", step_ - 1, " has ", tokens, " tokens, ", rows,
                    " rows, ", blocks, " block table entries and ", horizons,
                    " horizons; at most ", max_tokens_, ", as many, exactly ",
                    table_size_, ", and ", max_batch_, " fit");
  }
  const int64_t sources = count(48), image_tokens = count(52);
  const int64_t images = count(56), pixels = count(60);
  if (sources > max_source_tokens_ || image_tokens > max_image_tokens_ ||
      images > image_tokens || pixels != image_tokens * patch_) {
    return Disagree("step ", step_ - 1, " has ", sources, " source tokens, ",
                    image_tokens, " image tokens, ", images, " images and ",
                    pixels, " pixels; at most ", max_source_tokens_, " and ",
                    max_image_tokens_, ", as many, and ", patch_,
                    " for each token fit");
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> StepChannel::Receive(StepBatch* batch) {
  DS_RETURN_IF_ERROR(comm_->Broadcast(header_.data(), kHeaderBytes));
  const auto kind = Get<uint32_t>(header_, 4);
  DS_RETURN_IF_ERROR(Check(kind));
  ++step_;
  if (kind == kStop) return false;

  DS_RETURN_IF_ERROR(CheckCounts());
  const size_t tokens = Get<uint32_t>(header_, 32);
  const size_t blocks = Get<uint32_t>(header_, 36);
  const size_t rows = Get<uint32_t>(header_, 40);
  const size_t horizons = Get<uint32_t>(header_, 44);
  const size_t source_tokens = Get<uint32_t>(header_, 48);
  const size_t image_tokens = Get<uint32_t>(header_, 52);
  const size_t images = Get<uint32_t>(header_, 56);
  const size_t pixels = Get<uint32_t>(header_, 60);
  const size_t types = has_types_ ? tokens : 0;
  const size_t sources = max_source_tokens_ > 0 ? 2 * max_batch_ : 0;
  const size_t size = 3 * tokens + blocks + rows + horizons + types +
                      3 * source_tokens + sources + 2 * image_tokens + images +
                      pixels;
  DS_RETURN_IF_ERROR(
      BroadcastBody(static_cast<int64_t>(size * sizeof(int32_t))));
  const auto sum = Get<uint64_t>(header_, 24);
  if (const uint64_t got = Xxh3(body_.data(), size * sizeof(int32_t));
      got != sum) {
    return Disagree("the batch of step ", step_ - 1, " came with digest ",
                    absl::Hex(got), ", rank 0 sent ", absl::Hex(sum));
  }
  const int32_t* at = body_.data();
  const auto take = [&at](size_t n) {
    const absl::Span<const int32_t> part(at, n);
    at += n;
    return part;
  };
  batch->ids = take(tokens);
  batch->positions = take(tokens);
  batch->slots = take(tokens);
  batch->blocks = take(blocks);
  batch->rows = take(rows);
  batch->horizons = take(horizons);
  batch->types = take(types);
  batch->source_ids = take(source_tokens);
  batch->source_positions = take(source_tokens);
  batch->source_slots = take(source_tokens);
  batch->sources = take(sources);
  batch->image_positions = take(image_tokens);
  batch->image_slots = take(image_tokens);
  batch->image_rows = take(images);
  static_assert(sizeof(float) == sizeof(int32_t));
  batch->pixels = absl::MakeConstSpan(reinterpret_cast<const float*>(at),
                                      pixels);
  return true;
}

}  // namespace deepslice
