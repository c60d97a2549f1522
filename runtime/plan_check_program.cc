// A program's named dims, slots, buffers, inputs and outputs.
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "runtime/plan_check.h"
#include "schema/base/checked_math.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

absl::Status CheckDims(const fb::Program& program) {
  std::set<absl::string_view> names;
  for (uint32_t i = 0; i < program.dims()->size(); ++i) {
    const fb::NamedDim* d = program.dims()->Get(i);
    if (!names.insert(Text(d->name())).second) {
      return Senseless("dims[", i, "] (", Quoted(d->name()), "): there twice");
    }
    if (d->maximum() < 1 || d->maximum() > kMaxExtent) {
      return Senseless("dims[", i, "] (", Quoted(d->name()), "): maximum ",
                       d->maximum(), "; 1 to ", kMaxExtent, " are allowed");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSlots(const fb::Program& program) {
  const int64_t num_dims = program.dims()->size();
  for (uint32_t i = 0; i < program.slots()->size(); ++i) {
    const fb::Slot* s = program.slots()->Get(i);
    if (s->dim() < -1 || s->dim() >= num_dims) {
      return Senseless("slots[", i, "]: dim ", s->dim(), " of ", num_dims);
    }
    int64_t scaled = 0;
    if (s->bytes() < 0 || s->bytes_per_unit() < 0 || s->bytes() > kMaxBytes ||
        (s->dim() >= 0 &&
         (!CheckedMul(s->bytes_per_unit(),
                      program.dims()->Get(s->dim())->maximum(), &scaled) ||
          scaled > kMaxBytes))) {
      return Senseless("slots[", i, "]: bytes ", s->bytes(),
                       ", bytes_per_unit ", s->bytes_per_unit(),
                       ": out of range");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckBuffer(const ProgramView& view, const fb::Buffer& b) {
  const int64_t num_dims = view.program.dims()->size();
  const int64_t num_slots = view.program.slots()->size();
  if (b.dtype() >= kNumDTypes) return Senseless("dtype ", int{b.dtype()});
  const uint32_t rank = b.extents()->size();
  if (rank < 1 || rank > 4 || (view.cpu && rank > 2)) {
    return Senseless("extents: ", rank, " of them; ",
                     view.cpu ? "1 or 2" : "1 to 4", " are allowed");
  }
  if (!IsAligned(b.extents())) return Senseless("extents: unaligned");
  for (const fb::Extent* e : *b.extents()) {
    if (e->dim() >= num_dims) {
      return Senseless("extents: dim ", e->dim(), " of ", num_dims);
    }
    if (e->dim() < 0 && (e->size() < 0 || e->size() > kMaxExtent)) {
      return Senseless("extents: size ", e->size(), "; 0 to ", kMaxExtent,
                       " are allowed");
    }
  }
  if (b.slot() < -1 || b.slot() >= num_slots) {
    return Senseless("slot ", b.slot(), " of ", num_slots);
  }
  if (b.slot() < 0) return absl::OkStatus();  // the caller's memory
  if (view.cpu && (b.dtype() != static_cast<int>(DType::kF32) || rank != 2 ||
                   b.extents()->Get(1)->dim() >= 0)) {
    return Senseless(DTypeName(static_cast<DType>(b.dtype())), " with ", rank,
                     " dims; steps on the CPU make f32 with 2 dims, the "
                     "second fixed");
  }
  int dim;
  int64_t bytes;
  DS_RETURN_IF_ERROR(BufferBytes(view, b, &dim, &bytes));
  const fb::Slot& slot = *view.program.slots()->Get(b.slot());
  const int64_t most =
      dim < 0 ? bytes : bytes * view.program.dims()->Get(dim)->maximum();
  const bool scales =
      dim >= 0 && slot.dim() == dim && bytes <= slot.bytes_per_unit();
  if (!scales && most > slot.bytes()) {
    return Senseless(
        "needs ", bytes, " bytes",
        dim < 0 ? std::string()
                : absl::StrCat(" for each ",
                               Quoted(view.program.dims()->Get(dim)->name())),
        "; slots[", b.slot(), "] has ", slot.bytes(), " and ",
        slot.bytes_per_unit(), " for each of dim ", slot.dim());
  }
  return absl::OkStatus();
}

// The executor fills these inputs of a step program, and checks their values.
struct StepInput {
  absl::string_view name, shape;
  bool gpu_only = false;
};
constexpr StepInput kStepInputs[] = {{"ids", "i32[T]"},
                                     {"positions", "i32[T]"},
                                     {"slots", "i32[T]"},
                                     {"blocks", "i32[S, B]"},
                                     {"rows", "i32[R]"},
                                     {"horizons", "i32[S]"},
                                     {"prompts", "i32[S]"},
                                     {"types", "i32[T]"},
                                     {"source_ids", "i32[E]"},
                                     {"source_positions", "i32[E]"},
                                     {"source_slots", "i32[E]"},
                                     {"sources", "i32[S, 2]"},
                                     {"image_positions", "i32[P]"},
                                     {"image_slots", "i32[P]"},
                                     {"image_rows", "i32[I]"},
                                     {"tiles", "i32[Q, 4]", true},
                                     {"sampled", "i32[R]", true},
                                     {"samplers", "u32[R, 8]", true}};

absl::Status CheckStepInput(const ProgramView& view, int32_t index) {
  const fb::Buffer& buffer = *view.program.buffers()->Get(index);
  const absl::string_view name = Text(buffer.name());
  const std::string shape = BufferText(view, index);
  if (name == "pixels") {
    const bool fits =
        buffer.dtype() == static_cast<int>(DType::kF32) &&
        buffer.extents()->size() == 2 && buffer.extents()->Get(1)->dim() < 0 &&
        absl::StartsWith(shape, "f32[P, ");
    return fits ? absl::OkStatus()
                : Senseless("inputs: pixels: ", shape,
                            "; wanted f32[P, N]");
  }
  for (const StepInput& input : kStepInputs) {
    if (input.name != name || (view.cpu && input.gpu_only)) continue;
    if (input.shape == shape) return absl::OkStatus();
    return Senseless("inputs: ", name, ": ", shape, "; wanted ", input.shape);
  }
  return Senseless(
      "inputs: ", Quoted(view.program.buffers()->Get(index)->name()),
      ": no input of a step; ",
      absl::StrJoin(kStepInputs, ", ",
                    [&](std::string* out, const StepInput& input) {
                      absl::StrAppend(out, input.name);
                    }),
      " and pixels are");
}

absl::Status CheckInputs(const ProgramView& view) {
  const fb::Program& p = view.program;
  const int64_t num_buffers = p.buffers()->size();
  std::vector<bool> is_input(num_buffers);
  std::set<absl::string_view> names;
  for (const int32_t b : *p.inputs()) {
    if (b < 0 || b >= num_buffers) {
      return Senseless("inputs: buffer ", b, " of ", num_buffers);
    }
    const fb::Buffer& buffer = *p.buffers()->Get(b);
    if (is_input[b] || !names.insert(Text(buffer.name())).second) {
      return Senseless("inputs: ", Quoted(buffer.name()), ": there twice");
    }
    if (buffer.slot() != -1) {
      return Senseless("inputs: ", Quoted(buffer.name()),
                       ": has a slot; inputs are the caller's memory");
    }
    is_input[b] = true;
    if (p.kind() == fb::ProgramKind::Step ||
        p.kind() == fb::ProgramKind::Encode) {
      DS_RETURN_IF_ERROR(CheckStepInput(view, b));
    }
  }
  for (int64_t b = 0; b < num_buffers; ++b) {
    const fb::Buffer& buffer = *p.buffers()->Get(b);
    if (buffer.slot() != -1 || is_input[b]) continue;
    return Senseless("buffers[", b, "] (", Quoted(buffer.name()),
                     "): neither an input nor in a slot");
  }
  for (const int32_t b : *p.outputs()) {
    if (b < 0 || b >= num_buffers || is_input[b]) {
      return Senseless("outputs: buffer ", b, " of ", num_buffers,
                       ": out of range, or an input");
    }
  }
  if (p.outputs()->size() == 0) return Senseless("outputs: there is none");
  return absl::OkStatus();
}

}  // namespace

absl::Status BufferBytes(const ProgramView& view, const fb::Buffer& buffer,
                         int* dim, int64_t* bytes) {
  *dim = -1;
  *bytes = DTypeSize(static_cast<DType>(buffer.dtype()));
  for (const fb::Extent* e : *buffer.extents()) {
    if (e->dim() < 0) {
      if (!CheckedMul(*bytes, e->size(), bytes) || *bytes > kMaxBytes) {
        return Senseless("extents: too large");
      }
    } else if (*dim >= 0) {
      return Senseless("extents: two named dims, ", *dim, " and ", e->dim());
    } else {
      *dim = e->dim();
    }
  }
  int64_t all = 0;
  if (*dim >= 0 &&
      (!CheckedMul(*bytes, view.program.dims()->Get(*dim)->maximum(), &all) ||
       all > kMaxBytes)) {
    return Senseless("extents: too large");
  }
  return absl::OkStatus();
}

std::string BufferText(const ProgramView& view, int index) {
  const fb::Buffer& b = *view.program.buffers()->Get(index);
  return absl::StrCat(
      DTypeName(static_cast<DType>(b.dtype())), "[",
      absl::StrJoin(
          *b.extents(), ", ",
          [&](std::string* out, const fb::Extent* e) {
            absl::StrAppend(
                out, e->dim() < 0
                         ? absl::StrCat(e->size())
                         : Quoted(view.program.dims()->Get(e->dim())->name()));
          }),
      "]");
}

bool SameExtents(const fb::Buffer& a, const fb::Buffer& b) {
  if (a.extents()->size() != b.extents()->size()) return false;
  for (uint32_t i = 0; i < a.extents()->size(); ++i) {
    const fb::Extent &x = *a.extents()->Get(i), &y = *b.extents()->Get(i);
    if (x.dim() < 0 && y.dim() < 0 ? x.size() != y.size()
                                   : x.dim() != y.dim()) {
      return false;
    }
  }
  return true;
}

absl::Status CheckProgramTables(const ProgramView& view) {
  DS_RETURN_IF_ERROR(CheckDims(view.program));
  DS_RETURN_IF_ERROR(CheckSlots(view.program));
  for (uint32_t i = 0; i < view.program.buffers()->size(); ++i) {
    const fb::Buffer& b = *view.program.buffers()->Get(i);
    DS_RETURN_IF_ERROR(Annotate(CheckBuffer(view, b), "buffers[", i, "] (",
                                Quoted(b.name()), ")"));
  }
  return CheckInputs(view);
}

}  // namespace deepslice
