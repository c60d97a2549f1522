#include "runtime/backend/cpu/run_sizes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "schema/base/checked_math.h"
#include "schema/base/status_macros.h"
#include "schema/plan_format.h"

namespace deepslice {
namespace {

constexpr int64_t kStateAlignment = 4096;
// Of a program without a cache, so that positions have a ceiling.
constexpr int64_t kBlockTokensWithoutStates = 64;

// *limit becomes effective: the plan's ceiling when 0.
absl::Status Lower(const char* flag, int64_t ceiling, int64_t* limit) {
  if (*limit < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " ", *limit, ": 1 to ", ceiling, " are allowed"));
  }
  if (*limit > ceiling) {
    return absl::FailedPreconditionError(
        absl::StrCat(flag, " ", *limit, ": the plan was compiled for at most ",
                     ceiling, "; recompile it with ", flag, " ", *limit));
  }
  if (*limit == 0) *limit = ceiling;
  return absl::OkStatus();
}

absl::Status ResolveBlocks(const fb::Plan& plan, RunSizes* out) {
  out->block_tokens = kBlockTokensWithoutStates;
  bool first = true;
  for (const fb::State* state : *plan.states()) {
    const fb::State& s = *state;
    // One block a slot.
    if (s.kind() == fb::StateKind::Cross) continue;
    if (s.kind() != fb::StateKind::Full && s.kind() != fb::StateKind::Window &&
        s.kind() != fb::StateKind::Latent) {
      return absl::UnimplementedError(
          absl::StrCat("state ", absl::CHexEscape(s.name()->c_str()), ": kind ",
                       static_cast<int>(s.kind()),
                       "; this build keeps full, window, cross and latent caches"));
    }
    if (!std::exchange(first, false) && s.block_tokens() != out->block_tokens) {
      return absl::UnimplementedError(
          absl::StrCat("states with blocks of ", out->block_tokens, " and ",
                       s.block_tokens(), " tokens; this build has one size"));
    }
    out->block_tokens = s.block_tokens();
  }
  return absl::OkStatus();
}

absl::Status ResolveDims(const fb::Plan& plan, const fb::Program& program,
                         RunSizes* out) {
  out->dims.assign(program.dims()->size(), 0);
  for (const int32_t b : *program.inputs()) {
    const fb::Buffer& buffer = *program.buffers()->Get(b);
    const auto name = buffer.name()->string_view();
    if (name == "prompts") out->horizons_are_prompts = true;
    if (name == "prompts" || name == "horizons") out->reads_horizons = true;
    out->reads_types |= name == "types";
    if (name == "pixels") out->pixel_cols = buffer.extents()->Get(1)->size();
  }
  out->encodes = program.kind() == fb::ProgramKind::Encode;
  int64_t max_blocks = 1, max_rows = 0;
  int slots_dim = -1, blocks_dim = -1;
  for (uint32_t d = 0; d < program.dims()->size(); ++d) {
    const fb::NamedDim& dim = *program.dims()->Get(d);
    const absl::string_view name(dim.name()->data(), dim.name()->size());
    const int index = static_cast<int>(d);
    if (name == "T") {
      out->tokens_dim = index;
      DS_RETURN_IF_ERROR(Lower("--max-step-tokens", dim.maximum(),
                               &out->limits.max_step_tokens));
    } else if (name == "R") {
      out->rows_dim = index;
      max_rows = dim.maximum();
    } else if (name == "S") {
      slots_dim = index;
      DS_RETURN_IF_ERROR(
          Lower("--max-batch", dim.maximum(), &out->limits.max_batch));
    } else if (name == "B") {
      blocks_dim = index;
      max_blocks = dim.maximum();
    } else if (name == "Q" || name == "E" || name == "P" || name == "I") {
      out->dims[d] = dim.maximum();
      if (name == "E") out->sources_dim = index;
      if (name == "P") out->image_tokens_dim = index;
      if (name == "I") out->images_dim = index;
    } else {
      return absl::UnimplementedError(
          absl::StrCat("named dim ", absl::CHexEscape(name),
                       "; this build knows T, R, S, B, E, P, I and Q"));
    }
  }
  if (out->tokens_dim < 0 || out->rows_dim < 0 || slots_dim < 0 ||
      blocks_dim < 0) {
    return absl::UnimplementedError(
        "the step program lacks one of the dims T, R, S and B");
  }
  // Both factors are at most 2^26.
  int64_t positions = max_blocks * out->block_tokens;
  if (plan.max_positions() > 0) {
    positions = std::min(positions, plan.max_positions());
  }
  DS_RETURN_IF_ERROR(
      Lower("--max-seq-len", positions, &out->limits.max_seq_len));
  out->max_rows = std::min(max_rows, out->limits.max_step_tokens);
  out->blocks_per_seq = CeilDiv(out->limits.max_seq_len, out->block_tokens);
  out->num_blocks = out->limits.max_batch * out->blocks_per_seq;
  out->dims[out->tokens_dim] = out->limits.max_step_tokens;
  out->dims[out->rows_dim] = out->max_rows;
  out->dims[slots_dim] = out->limits.max_batch;
  out->dims[blocks_dim] = out->blocks_per_seq;
  return absl::OkStatus();
}

absl::Status TooLarge(const char* what) {
  return absl::ResourceExhaustedError(absl::StrCat(
      what,
      ": more than 2^62 bytes; lower --max-batch, --max-seq-len or "
      "--max-step-tokens"));
}

// *total grows by `bytes`, and starts at a multiple of `alignment` again.
bool Grow(int64_t bytes, int64_t alignment, int64_t* total) {
  if (!CheckedAdd(*total, bytes, total) || *total > int64_t{1} << 62) {
    return false;
  }
  *total = RoundUp(*total, alignment);
  return true;
}

}  // namespace

absl::StatusOr<RunSizes> ResolveSizes(const Plan& plan,
                                      const fb::Program& program,
                                      const RunLimits& limits) {
  RunSizes out;
  out.limits = limits;
  DS_RETURN_IF_ERROR(ResolveBlocks(plan.fb(), &out));
  DS_RETURN_IF_ERROR(ResolveDims(plan.fb(), program, &out));
  for (const fb::Slot* slot : *program.slots()) {
    int64_t bytes = slot->bytes();
    if (slot->dim() >= 0) {  // bounded by the plan's ceiling, so no overflow
      bytes += slot->bytes_per_unit() * out.dims[slot->dim()];
    }
    out.slot_offsets.push_back(out.arena_bytes);
    if (!Grow(bytes, kSlotAlignment, &out.arena_bytes)) {
      return TooLarge("arena");
    }
  }
  for (const fb::State* state : *plan.fb().states()) {
    int64_t bytes;
    out.state_offsets.push_back(out.cache_bytes);
    out.state_blocks.push_back(state->kind() == fb::StateKind::Cross
                                   ? out.limits.max_batch
                                   : out.num_blocks);
    if (!CheckedMul(state->bytes_per_block(), out.state_blocks.back(),
                    &bytes) ||
        !Grow(bytes, kStateAlignment, &out.cache_bytes)) {
      return TooLarge("cache");
    }
  }
  return out;
}

}  // namespace deepslice
