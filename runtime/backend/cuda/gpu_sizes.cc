#include "runtime/backend/cuda/gpu_sizes.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schema/base/checked_math.h"
#include "schema/base/dtype.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// Kernels and cuBLASLt's own, loaded or yet to be: outside the plan.
constexpr int64_t kModulesReserve = 128 << 20;
// Where the parts of the staging memory and of an input block start.
constexpr int64_t kPartAlignment = 256;

absl::string_view Name(const flatbuffers::String* s) {
  return absl::string_view(s->data(), s->size());
}

bool HasGemm(const fb::Program& p) {
  for (const fb::Step* s : *p.steps()) {
    if (s->kind() == fb::StepKind::Gemm) return true;
  }
  return false;
}

class InputPlacer {
 public:
  int64_t Place(int64_t bytes) {
    const int64_t at = end_;
    end_ = RoundUp(end_ + bytes, kPartAlignment);
    return at;
  }
  int64_t end() const { return end_; }

 private:
  int64_t end_ = 0;
};

absl::Status PlaceInputs(ProgramSizes* out) {
  const fb::Program& p = *out->program;
  const auto most = [&](int dim) { return dim < 0 ? 0 : out->dims[dim]; };
  InputPlacer placer;
  InputLayout& in = out->inputs;
  in.step_info = placer.Place(sizeof(StepInfo));
  const int64_t token_bytes = 4 * most(out->tokens_dim);
  const int64_t row_bytes = 4 * most(out->rows_dim);
  for (const int32_t b : *p.inputs()) {
    const absl::string_view name = Name(p.buffers()->Get(b)->name());
    if (name == "ids") {
      in.ids = placer.Place(token_bytes);
    } else if (name == "positions") {
      in.positions = placer.Place(token_bytes);
    } else if (name == "slots") {
      in.slots = placer.Place(token_bytes);
    } else if (name == "rows") {
      in.rows = placer.Place(row_bytes);
    } else if (name == "horizons" || name == "prompts") {
      // RunSizes::horizons_are_prompts tells what the batch's are.
      in.horizons = placer.Place(4 * most(out->slots_dim));
    } else if (name == "types") {
      in.types = placer.Place(token_bytes);
    } else if (name == "image_positions") {
      in.image_positions = placer.Place(4 * most(out->image_tokens_dim));
    } else if (name == "image_slots") {
      in.image_slots = placer.Place(4 * most(out->image_tokens_dim));
    } else if (name == "image_rows") {
      in.image_rows = placer.Place(4 * most(out->images_dim));
    } else if (name == "source_ids") {
      in.source_ids = placer.Place(4 * most(out->sources_dim));
    } else if (name == "source_positions") {
      in.source_positions = placer.Place(4 * most(out->sources_dim));
    } else if (name == "source_slots") {
      in.source_slots = placer.Place(4 * most(out->sources_dim));
    } else if (name == "sources") {
      in.sources = placer.Place(8 * most(out->slots_dim));
    } else if (name == "pixels") {
      int64_t bytes = 4 * p.buffers()->Get(b)->extents()->Get(1)->size();
      if (!CheckedMul(bytes, most(out->image_tokens_dim), &bytes) ||
          bytes > int64_t{1} << 40) {
        return absl::ResourceExhaustedError("pixels: more than 2^40 bytes");
      }
      in.pixels = placer.Place(bytes);
    } else if (name == "tiles" && out->tiles_dim >= 0) {
      in.tiles = placer.Place(16 * most(out->tiles_dim));
    } else if (name == "samplers") {
      in.samplers = placer.Place(static_cast<int64_t>(sizeof(SamplerRecord)) *
                                 most(out->rows_dim));
    } else if (name == "sampled") {
      out->samples = true;
    } else if (name != "blocks") {
      return absl::UnimplementedError(absl::StrCat(
          "input ", absl::CHexEscape(name), " of program ",
          absl::CHexEscape(Name(p.name())),
          ": the GPU back end knows ids, positions, slots, blocks, rows, "
          "horizons, prompts, types, those of images and sources, tiles, "
          "sampled and samplers"));
    }
  }
  in.bytes = placer.end();
  return absl::OkStatus();
}

absl::StatusOr<ProgramSizes> ResolveProgram(const fb::Program& program,
                                            const RunSizes& run) {
  ProgramSizes out;
  out.program = &program;
  const bool bucket = program.bucket() > 0;
  for (uint32_t d = 0; d < program.dims()->size(); ++d) {
    const fb::NamedDim& dim = *program.dims()->Get(d);
    const absl::string_view name = Name(dim.name());
    if (name == "T") out.tokens_dim = static_cast<int>(d);
    if (name == "R") out.rows_dim = static_cast<int>(d);
    if (name == "S") out.slots_dim = static_cast<int>(d);
    if (name == "Q") out.tiles_dim = static_cast<int>(d);
    if (name == "P") out.image_tokens_dim = static_cast<int>(d);
    if (name == "I") out.images_dim = static_cast<int>(d);
    if (name == "E") out.sources_dim = static_cast<int>(d);
    int64_t value = dim.maximum();
    if (!bucket && d < run.dims.size()) {
      value = std::min(value, run.dims[d]);
    }
    out.dims.push_back(value);
  }
  for (const fb::Slot* slot : *program.slots()) {
    int64_t bytes = slot->bytes();
    if (slot->dim() >= 0)
      bytes += slot->bytes_per_unit() * out.dims[slot->dim()];
    out.slot_offsets.push_back(out.arena_bytes);
    if (!CheckedAdd(out.arena_bytes, bytes, &out.arena_bytes) ||
        out.arena_bytes > int64_t{1} << 62) {
      return absl::ResourceExhaustedError(
          "arena: more than 2^62 bytes; lower --max-step-tokens");
    }
    out.arena_bytes = RoundUp(out.arena_bytes, kSlotAlignment);
  }
  DS_RETURN_IF_ERROR(PlaceInputs(&out));
  return out;
}

std::string Gib(int64_t bytes) {
  if (bytes < int64_t{1} << 30) {
    return absl::StrFormat("%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  }
  return absl::StrFormat("%.2f GiB", static_cast<double>(bytes) / (1 << 30));
}

int64_t Needed(const GpuSizes& s) {
  return s.planned_bytes() + s.workspace_bytes +
         // Of a tiny device (a test's) modules take less.
         std::min(kModulesReserve, s.planned_bytes() / 16);
}

}  // namespace

absl::StatusOr<GpuSizes> ResolveGpuSizes(const Plan& plan,
                                         const fb::Target& target,
                                         const RunLimits& limits) {
  GpuSizes out;
  const fb::Program* general = nullptr;
  std::vector<const fb::Program*> buckets;
  for (const fb::Program* p : *target.programs()) {
    if (p->kind() != fb::ProgramKind::Step &&
        (p->kind() != fb::ProgramKind::Encode || general != nullptr)) {
      continue;
    }
    if (p->bucket() == 0) {
      general = p;
    } else {
      buckets.push_back(p);
    }
  }
  if (general == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("target ", absl::CHexEscape(Name(target.name())),
                     " of the plan has no step program; recompile the plan"));
  }
  std::sort(buckets.begin(), buckets.end(),
            [](const fb::Program* a, const fb::Program* b) {
              return a->bucket() < b->bucket();
            });
  DS_ASSIGN_OR_RETURN(out.run, ResolveSizes(plan, *general, limits));
  // Steps of one token a sequence have at most so many.
  const int64_t most_tokens =
      std::min(out.run.limits.max_batch, out.run.limits.max_step_tokens);
  std::vector<const fb::Program*> wanted = {general};
  for (size_t i = 0; i < buckets.size(); ++i) {
    if (i > 0 && buckets[i - 1]->bucket() >= most_tokens) break;
    wanted.push_back(buckets[i]);
  }
  bool gemm = false;
  for (const fb::Program* p : wanted) {
    DS_ASSIGN_OR_RETURN(ProgramSizes sizes, ResolveProgram(*p, out.run));
    out.arena_bytes = std::max(out.arena_bytes, sizes.arena_bytes);
    out.input_block_bytes = std::max(out.input_block_bytes, sizes.inputs.bytes);
    gemm |= HasGemm(*p);
    out.programs.push_back(std::move(sizes));
  }
  out.weights_bytes = static_cast<int64_t>(WeightMemoryBytes(plan.fb()));
  out.cache_bytes = out.run.cache_bytes;
  out.workspace_bytes = gemm ? kGemmWorkspaceBytes : 0;

  int64_t most_rows = 0;
  for (const ProgramSizes& p : out.programs) {
    most_rows = std::max(most_rows, p.dims[p.rows_dim]);
  }
  for (const int32_t o : *general->outputs()) {
    const auto& extents = *general->buffers()->Get(o)->extents();
    int64_t floats = 1;
    for (const fb::Extent* e : extents) {
      const int64_t size =
          e->dim() < 0 ? e->size() : out.programs[0].dims[e->dim()];
      if (!CheckedMul(floats, size, &floats)) floats = int64_t{1} << 62;
    }
    if (!CheckedAdd(out.output_floats, floats, &out.output_floats) ||
        out.output_floats > int64_t{1} << 60) {
      return absl::ResourceExhaustedError(
          "outputs: more than 2^62 bytes; lower --max-step-tokens");
    }
  }
  InputPlacer placer;
  for (int i : {0, 1}) out.inputs_at[i] = placer.Place(out.input_block_bytes);
  for (int i : {0, 1}) out.sampled_at[i] = placer.Place(4 * most_rows);
  out.table_at = placer.Place(4 * out.run.num_blocks);
  out.sync_at = placer.Place(4 * target.sync_words());
  out.staging_bytes = placer.end();
  return out;
}

absl::Status CheckFitsDevice(const Plan& plan, const fb::Target& target,
                             const RunLimits& limits, const GpuSizes& sizes,
                             int64_t free_bytes, absl::string_view device) {
  if (Needed(sizes) <= free_bytes) return absl::OkStatus();
  // The largest batch below that fits: need grows with it.
  int64_t fits = 0, too_many = sizes.run.limits.max_batch;
  while (too_many - fits > 1) {
    const int64_t middle = fits + (too_many - fits) / 2;
    RunLimits lowered = limits;
    lowered.max_batch = middle;
    const absl::StatusOr<GpuSizes> s = ResolveGpuSizes(plan, target, lowered);
    (s.ok() && Needed(*s) <= free_bytes ? fits : too_many) = middle;
  }
  const std::string remedy =
      fits > 0 ? absl::StrCat("--max-batch ", fits, " is the largest that fits")
      : sizes.weights_bytes > free_bytes
          ? "the weights alone don't fit: compile with more ranks (--tp) or a "
            "smaller --dtype"
          : "not even --max-batch 1 fits: lower --max-seq-len or "
            "--max-step-tokens, or compile with more ranks (--tp)";
  return absl::ResourceExhaustedError(
      absl::StrCat(device, ": the run needs ", Gib(Needed(sizes)), ": weights ",
                   Gib(sizes.weights_bytes), ", cache ", Gib(sizes.cache_bytes),
                   " for --max-batch ", sizes.run.limits.max_batch, " of ",
                   sizes.run.limits.max_seq_len, " tokens, arena ",
                   Gib(sizes.arena_bytes), ", else ",
                   Gib(Needed(sizes) - sizes.weights_bytes - sizes.cache_bytes -
                       sizes.arena_bytes),
                   "; ", Gib(free_bytes), " are free; ", remedy));
}

}  // namespace deepslice
