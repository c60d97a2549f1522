#include "runtime/backend/cuda/gpu_steps.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "schema/base/check.h"
#include "schema/base/status_macros.h"
#include "schema/encoding.h"

namespace deepslice {
namespace {

absl::string_view Text(const flatbuffers::String* s) {
  return absl::string_view(s->data(), s->size());
}

class Resolver {
 public:
  Resolver(const Plan& plan, const fb::Target& target,
           const ProgramSizes& program, const GpuSizes& sizes,
           const KernelTable& kernels, const GpuAddresses& at, Gemms* gemms)
      : plan_(plan),
        target_(target),
        sizes_(program),
        program_(*program.program),
        run_(sizes.run),
        kernels_(kernels),
        at_(at),
        gemms_(gemms) {}

  absl::StatusOr<GpuStepList> Run() {
    out_.program = &sizes_;
    const auto& steps = *program_.steps();
    for (uint32_t i = 0; i < steps.size(); ++i) {
      DS_RETURN_IF_ERROR(
          Annotate(Add(*steps.Get(i)), "program ",
                   absl::CHexEscape(Text(program_.name())), ", step ", i, " (",
                   absl::CHexEscape(Text(steps.Get(i)->name())), ")"));
    }
    for (CUdeviceptr& p : out_.params) out_.param_pointers.push_back(&p);
    for (const int32_t b : *program_.outputs()) {
      out_.outputs.push_back(Address(b, /*written=*/true));
    }
    return std::move(out_);
  }

 private:
  const fb::Buffer& BufferAt(int i) const {
    return *program_.buffers()->Get(i);
  }

  // `written`: as a step's result. What this step draws lies apart from what
  // the last one drew, so that the host can still fetch it.
  CUdeviceptr Address(int buffer, bool written = false) const {
    const fb::Buffer& b = BufferAt(buffer);
    if (b.slot() >= 0) return at_.arena + sizes_.slot_offsets[b.slot()];
    const absl::string_view name = Text(b.name());
    const InputLayout& in = sizes_.inputs;
    const auto input = [&](int64_t offset) { return at_.inputs + offset; };
    if (name == "ids") return input(in.ids);
    if (name == "positions") return input(in.positions);
    if (name == "slots") return input(in.slots);
    if (name == "rows") return input(in.rows);
    if (name == "horizons" || name == "prompts") return input(in.horizons);
    if (name == "types") return input(in.types);
    if (name == "image_positions") return input(in.image_positions);
    if (name == "image_slots") return input(in.image_slots);
    if (name == "image_rows") return input(in.image_rows);
    if (name == "pixels") return input(in.pixels);
    if (name == "source_ids") return input(in.source_ids);
    if (name == "source_positions") return input(in.source_positions);
    if (name == "source_slots") return input(in.source_slots);
    if (name == "sources") return input(in.sources);
    if (name == "tiles") return input(in.tiles);
    if (name == "samplers") return input(in.samplers);
    if (name == "blocks") return at_.table;
    DS_CHECK(name == "sampled");  // by ResolveGpuSizes
    return written ? at_.sampled : at_.sampled_before;
  }

  GpuCount RowsOf(const fb::Buffer& b) const {
    const fb::Extent& e = *b.extents()->Get(0);
    return e.dim() < 0 ? GpuCount{-1, e.size()} : GpuCount{e.dim(), 0};
  }
  int64_t MostRows(const fb::Buffer& b) const {
    return RowsOf(b).Of(sizes_.dims);
  }
  // Elements of a row.
  static int64_t Columns(const fb::Buffer& b) {
    int64_t columns = 1;
    for (uint32_t i = 1; i < b.extents()->size(); ++i) {
      columns *= b.extents()->Get(i)->size();
    }
    return columns;
  }

  absl::StatusOr<CUdeviceptr> Operand(const fb::OperandRef& o) const {
    switch (o.kind()) {
      case fb::OperandKind::None:
        return CUdeviceptr{0};
      case fb::OperandKind::Buffer:
        return Address(o.index());
      case fb::OperandKind::Weight:
        return at_.weights + plan_.fb().weights()->Get(o.index())->offset();
      case fb::OperandKind::Scales:
        return at_.weights +
               plan_.fb().weights()->Get(o.index())->scales_offset();
      case fb::OperandKind::State:
        return at_.cache + run_.state_offsets[o.index()];
      case fb::OperandKind::Sync:
        return at_.sync + 4 * static_cast<CUdeviceptr>(o.index());
    }
    return absl::UnimplementedError(
        absl::StrCat("operand kind ", static_cast<int>(o.kind())));
  }

  void SetResult(int buffer, GpuStep* step) const {
    step->result = &BufferAt(buffer);
    step->result_at = Address(buffer, /*written=*/true);
  }

  absl::Status AddLaunch(const fb::LaunchStep& l, GpuStep* step) {
    step->kernel = target_.kernels()->Get(l.kernel());
    step->function = kernels_.function(l.kernel());
    DS_CHECK(step->function != nullptr);
    step->first_param = static_cast<int>(out_.params.size());
    out_.params.push_back(at_.inputs + sizes_.inputs.step_info);
    for (const fb::OperandRef* o : *l.operands()) {
      DS_ASSIGN_OR_RETURN(const CUdeviceptr p, Operand(*o));
      out_.params.push_back(p);
    }
    for (const int32_t b : *l.outputs()) {
      out_.params.push_back(Address(b, /*written=*/true));
    }
    for (int i = 0; i < 3; ++i) {
      const fb::GridDim& g = *l.grid()->Get(i);
      step->grid[i] = {g.times(), std::max<int64_t>(g.per_block(), 1), g.dim()};
      step->block[i] = l.block()->Get(i);
    }
    step->shared_bytes = l.shared_bytes();
    step->programmatic = l.programmatic();
    if (l.outputs()->size() > 0) SetResult(l.outputs()->Get(0), step);
    return absl::OkStatus();
  }

  absl::Status AddGemm(const fb::GemmStep& g, GpuStep* step) {
    DS_CHECK(gemms_ != nullptr);
    const fb::Buffer &a = BufferAt(g.a()), &out = BufferAt(g.output());
    const fb::Weight& w = *plan_.fb().weights()->Get(g.weight());
    GemmShape shape;
    shape.n = w.shape()->Get(0);
    shape.k = w.shape()->Get(1);
    shape.in = static_cast<DType>(a.dtype());
    shape.out = static_cast<DType>(out.dtype());
    shape.a_stride = Columns(a);
    shape.out_stride = Columns(out);
    if (g.residual() >= 0) {
      shape.residual_stride = Columns(BufferAt(g.residual()));
      step->residual = Address(g.residual());
    }
    step->kind = GpuStep::Kind::kGemm;
    DS_ASSIGN_OR_RETURN(step->gemm, gemms_->Add(shape));
    step->weight = at_.weights + w.offset();
    step->in = Address(g.a());
    step->out = Address(g.output(), /*written=*/true);
    step->rows = RowsOf(a);
    step->columns = shape.out_stride;
    SetResult(g.output(), step);
    return absl::OkStatus();
  }

  absl::Status AddCollective(const fb::CollectiveStep& c, GpuStep* step) {
    const int64_t group = plan_.fb().groups()->Get(c.group())->ranks()->size();
    if (group != 1 && group != plan_.world_size()) {
      return absl::UnimplementedError(
          absl::StrCat("a collective over ", group, " of ", plan_.world_size(),
                       " ranks; the GPU back end has groups of all ranks"));
    }
    const fb::Buffer& in = BufferAt(c.input());
    const fb::Buffer& out = BufferAt(c.output());
    step->in = Address(c.input());
    step->out = Address(c.output(), /*written=*/true);
    step->rows = RowsOf(in);
    step->columns = c.columns();
    step->dtype = static_cast<DType>(in.dtype());
    SetResult(c.output(), step);
    switch (c.kind()) {
      case fb::CollectiveKind::AllReduce:
        step->kind = GpuStep::Kind::kAllReduce;
        break;
      case fb::CollectiveKind::AllGather:
        step->kind = GpuStep::Kind::kAllGather;
        step->columns = c.columns() / group;
        step->gather_rows = MostRows(out);
        break;
      case fb::CollectiveKind::Broadcast:
        step->kind = GpuStep::Kind::kBroadcast;
        // In place, of what this very step drew.
        if (c.input() == c.output()) step->in = step->out;
        break;
      default:
        return absl::UnimplementedError(
            absl::StrCat("collective kind ", static_cast<int>(c.kind()),
                         "; the GPU back end has all_reduce, all_gather and "
                         "broadcast"));
    }
    if (group == 1) step->kind = GpuStep::Kind::kCopy;
    return absl::OkStatus();
  }

  absl::Status Add(const fb::Step& from) {
    out_.steps.emplace_back();
    GpuStep& step = out_.steps.back();
    step.from = &from;
    switch (from.kind()) {
      case fb::StepKind::Launch:
        return AddLaunch(*from.launch(), &step);
      case fb::StepKind::Gemm:
        return AddGemm(*from.gemm(), &step);
      case fb::StepKind::Collective:
        return AddCollective(*from.collective(), &step);
      case fb::StepKind::Copy: {
        const fb::Buffer& in = BufferAt(from.copy()->input());
        step.kind = GpuStep::Kind::kCopy;
        step.in = Address(from.copy()->input());
        step.out = Address(from.copy()->output(), /*written=*/true);
        step.rows = RowsOf(in);
        step.columns = Columns(in);
        step.dtype = static_cast<DType>(in.dtype());
        SetResult(from.copy()->output(), &step);
        return absl::OkStatus();
      }
      default:
        return absl::UnimplementedError("no step of the GPU back end");
    }
  }

  const Plan& plan_;
  const fb::Target& target_;
  const ProgramSizes& sizes_;
  const fb::Program& program_;
  const RunSizes& run_;
  const KernelTable& kernels_;
  const GpuAddresses& at_;
  Gemms* const gemms_;
  GpuStepList out_;
};

void* Pointer(CUdeviceptr p) { return reinterpret_cast<void*>(p); }

absl::Status Copy(const GpuStepContext& c, CUdeviceptr from, CUdeviceptr to,
                  int64_t bytes) {
  if (from == to || bytes == 0) return absl::OkStatus();
  return CudaStatus(c.gpu->cuda(),
                    c.gpu->cuda().MemcpyDtoDAsync(to, from, bytes, c.stream));
}

absl::Status Launch(const GpuStepContext& c, const GpuStepList& list,
                    const GpuStep& step, const std::vector<int64_t>& dims) {
  unsigned grid[3];
  for (int i = 0; i < 3; ++i) {
    const GpuGrid& g = step.grid[i];
    const int64_t blocks =
        g.dim < 0 ? g.times
                  : g.times * ((dims[g.dim] + g.per_block - 1) / g.per_block);
    if (blocks == 0) return absl::OkStatus();  // no row is wanted
    grid[i] = static_cast<unsigned>(blocks);
  }
  CudaLaunchAttribute attribute = {};
  attribute.id = kLaunchProgrammaticSerialization;
  attribute.value.flag = 1;
  CudaLaunchConfig config = {};
  config.grid_x = grid[0];
  config.grid_y = grid[1];
  config.grid_z = grid[2];
  config.block_x = step.block[0];
  config.block_y = step.block[1];
  config.block_z = step.block[2];
  config.shared_bytes = step.shared_bytes;
  config.stream = c.stream;
  config.attributes = &attribute;
  config.num_attributes = step.programmatic ? 1 : 0;
  return CudaStatus(
      c.gpu->cuda(),
      c.gpu->cuda().LaunchKernelEx(
          &config, step.function,
          const_cast<void**>(&list.param_pointers[step.first_param]), nullptr));
}

// Kernels find the ranks' blocks as far apart as the most rows are. Few rows
// are gathered close together, which is less to send, and then moved there.
absl::Status AllGather(const GpuStepContext& c, const GpuStep& step,
                       int64_t rows) {
  const int64_t size = DTypeSize(step.dtype);
  const int world = c.comm->size();
  const bool whole = 2 * rows > step.gather_rows;
  const int64_t sent = (whole ? step.gather_rows : rows) * step.columns;
  DS_RETURN_IF_ERROR(c.comm->AllGather(Pointer(step.in), Pointer(step.out),
                                       sent, step.dtype, c.stream));
  if (whole) return absl::OkStatus();
  for (int r = world - 1; r > 0; --r) {  // no block over one that is to move
    DS_RETURN_IF_ERROR(Copy(
        c, step.out + r * sent * size,
        step.out + r * step.gather_rows * step.columns * size, sent * size));
  }
  return absl::OkStatus();
}

absl::Status Start(const GpuStepContext& c, const GpuStepList& list,
                   const GpuStep& step, const std::vector<int64_t>& dims) {
  if (step.kind == GpuStep::Kind::kLaunch) return Launch(c, list, step, dims);
  int64_t rows = step.rows.Of(dims);
  // Its rows are a number, but no step wants more than it has tokens.
  if (step.kind == GpuStep::Kind::kAllGather) {
    rows = std::min(rows, dims[list.program->tokens_dim]);
  }
  const int64_t count = rows * step.columns;
  const int64_t bytes = count * DTypeSize(step.dtype);
  if (count == 0) return absl::OkStatus();  // in all ranks alike
  switch (step.kind) {
    case GpuStep::Kind::kGemm:
      return c.gemms->Run(step.gemm, rows, step.in, step.weight, step.residual,
                          step.out, c.stream);
    case GpuStep::Kind::kAllReduce:
      return c.comm->AllReduceSum(Pointer(step.in), Pointer(step.out), count,
                                  step.dtype, c.stream);
    case GpuStep::Kind::kAllGather:
      return AllGather(c, step, rows);
    case GpuStep::Kind::kBroadcast:
      DS_RETURN_IF_ERROR(Copy(c, step.in, step.out, bytes));
      return c.comm->Broadcast(Pointer(step.out), bytes, c.stream);
    default:
      return Copy(c, step.in, step.out, bytes);
  }
}

}  // namespace

absl::StatusOr<GpuStepList> ResolveGpuSteps(
    const Plan& plan, const fb::Target& target, const ProgramSizes& program,
    const GpuSizes& sizes, const KernelTable& kernels, const GpuAddresses& at,
    Gemms* gemms) {
  return Resolver(plan, target, program, sizes, kernels, at, gemms).Run();
}

absl::Status StartGpuStep(const GpuStepContext& context,
                          const GpuStepList& list, int index,
                          const std::vector<int64_t>& dims) {
  const absl::Status status = Start(context, list, list.steps[index], dims);
  if (status.ok()) return status;
  return Annotate(status, GpuStepText(list, index));
}

std::string GpuStepText(const GpuStepList& list, int index) {
  const GpuStep& step = list.steps[index];
  return absl::StrCat("step ", index, " (",
                      absl::CHexEscape(Text(step.from->name())), ", ",
                      step.kernel != nullptr && step.kernel->label() != nullptr
                          ? absl::CHexEscape(Text(step.kernel->label()))
                          : GpuStepKind(step),
                      ")");
}

std::string GpuStepKind(const GpuStep& step) {
  switch (step.kind) {
    case GpuStep::Kind::kLaunch: {
      const flatbuffers::String* label = step.kernel->label();
      if (label == nullptr) return "launch";
      const absl::string_view text = Text(label);
      return absl::CHexEscape(text.substr(0, text.find(' ')));
    }
    case GpuStep::Kind::kGemm:
      return "gemm";
    case GpuStep::Kind::kAllReduce:
      return "all_reduce";
    case GpuStep::Kind::kAllGather:
      return "all_gather";
    case GpuStep::Kind::kBroadcast:
      return "broadcast";
    case GpuStep::Kind::kCopy:
      return "copy";
  }
  return "";
}

}  // namespace deepslice
