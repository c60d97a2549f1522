#include "runtime/backend/cpu/step_list.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "schema/base/check.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

constexpr absl::string_view kInputNames[kNumInputs] = {
    "ids",           "positions",       "slots",
    "blocks",        "rows",            "horizons",
    "types",         "source_ids",      "source_positions",
    "source_slots",  "sources",         "image_positions",
    "image_slots",   "image_rows",      "pixels"};

class Resolver {
 public:
  Resolver(const Plan& plan, const fb::Program& program, const RunSizes& sizes,
           char* arena, char* cache, int num_threads)
      : plan_(plan),
        program_(program),
        sizes_(sizes),
        arena_(arena),
        cache_(cache),
        num_threads_(num_threads) {}

  absl::StatusOr<StepList> Run() {
    ResolveStates();
    size_t num_attrs = 0;
    for (const fb::Step* step : *program_.steps()) {
      if (step->kind() == fb::StepKind::CpuOp &&
          step->cpu_op()->attrs() != nullptr) {
        num_attrs += step->cpu_op()->attrs()->size();
      }
    }
    out_.attrs.reserve(num_attrs);  // so that pointers stay
    for (const fb::Step* step : *program_.steps()) {
      DS_RETURN_IF_ERROR(Annotate(Add(*step), "step ",
                                  absl::CHexEscape(step->name()->c_str())));
    }
    if (sizes_.encodes) {
      for (const int32_t b : *program_.outputs()) {
        DS_RETURN_IF_ERROR(AddOutput(*program_.buffers()->Get(b)));
      }
      return std::move(out_);
    }
    const int logits = program_.outputs()->Get(0);
    const fb::Buffer& b = *program_.buffers()->Get(logits);
    if (b.extents()->Get(0)->dim() != sizes_.rows_dim ||
        b.extents()->Get(1)->size() != plan_.fb().vocab_size()) {
      return absl::UnimplementedError(
          absl::StrCat("output ", absl::CHexEscape(b.name()->c_str()), ": ",
                       b.extents()->Get(1)->size(), " columns; logits, f32[R, ",
                       plan_.fb().vocab_size(), "], are wanted"));
    }
    out_.logits = Address(b);
    return std::move(out_);
  }

 private:
  void ResolveStates() {
    for (uint32_t i = 0; i < plan_.fb().states()->size(); ++i) {
      const fb::State& s = *plan_.fb().states()->Get(i);
      CpuState state;
      state.data = cache_ + sizes_.state_offsets[i];
      state.encoding = static_cast<Encoding>(s.encoding());
      state.block_tokens = s.block_tokens();
      state.block_bytes = s.bytes_per_block();
      state.num_blocks = sizes_.state_blocks[i];
      out_.states.push_back(state);
    }
  }

  float* Address(const fb::Buffer& b) const {
    return reinterpret_cast<float*>(arena_ + sizes_.slot_offsets[b.slot()]);
  }
  // The most rows of a buffer of two dims, the length of one of one dim.
  int64_t Most(const fb::Extent& e) const {
    return e.dim() < 0 ? e.size() : sizes_.dims[e.dim()];
  }
  static int DimOf(const fb::Extent& e) { return std::max(e.dim(), -1); }

  void SetOutput(int buffer, ResolvedStep* step) const {
    const fb::Buffer& b = *program_.buffers()->Get(buffer);
    step->call.out = Address(b);
    step->call.out_rows = Most(*b.extents()->Get(0));
    step->call.out_cols = b.extents()->Get(1)->size();
    step->out_rows_dim = DimOf(*b.extents()->Get(0));
  }

  void SetBuffer(int buffer, int operand, ResolvedStep* step) const {
    const fb::Buffer& b = *program_.buffers()->Get(buffer);
    CpuOperand& in = step->call.in[operand];
    const fb::Extent& first = *b.extents()->Get(0);
    if (b.extents()->size() == 1) {  // an input: a vector in one row
      in.rows = 1;
      in.cols = Most(first);
    } else {
      in.rows = Most(first);
      in.cols = Most(*b.extents()->Get(1));
      step->rows_dim[operand] = DimOf(first);
    }
    if (b.slot() >= 0) {
      in.data = Address(b);
      return;
    }
    absl::string_view name(b.name()->data(), b.name()->size());
    if (name == "prompts") name = "horizons";  // horizons_are_prompts
    const auto found =
        std::find(std::begin(kInputNames), std::end(kInputNames), name);
    DS_CHECK(found != std::end(kInputNames));  // by CheckPlan
    step->input[operand] = static_cast<int>(found - std::begin(kInputNames));
    // These have a row for each slot, whatever the step holds.
    if (name == "blocks" || name == "sources") step->rows_dim[operand] = -1;
  }

  absl::Status AddOutput(const fb::Buffer& b) {
    NamedOutput o;
    o.name = b.name()->str();
    o.cols = b.extents()->Get(1)->size();
    o.data = Address(b);
    const int dim = DimOf(*b.extents()->Get(0));
    if (dim < 0 || (dim != sizes_.tokens_dim && dim != sizes_.rows_dim &&
                    dim != sizes_.images_dim)) {
      return absl::UnimplementedError(
          absl::StrCat("output ", absl::CHexEscape(o.name),
                       ": rows that are no tokens, sequences or images"));
    }
    o.of = dim == sizes_.tokens_dim ? NamedOutput::Of::kToken
           : dim == sizes_.rows_dim ? NamedOutput::Of::kRow
                                    : NamedOutput::Of::kImage;
    out_.outputs.push_back(std::move(o));
    out_.output_dims.push_back(dim);
    return absl::OkStatus();
  }

  void SetWeight(int index, int operand, ResolvedStep* step) const {
    const fb::Weight& w = *plan_.fb().weights()->Get(index);
    CpuOperand& in = step->call.in[operand];
    in.data = plan_.weight_data(index);
    in.scales = plan_.weight_scales(index);
    in.encoding = static_cast<Encoding>(w.encoding());
    const bool vector = w.shape()->size() == 1;
    in.rows = vector ? 1 : w.shape()->Get(0);
    in.cols = w.shape()->Get(vector ? 0 : 1);
  }

  absl::Status AddKernel(const fb::CpuOpStep& op, ResolvedStep* step) {
    const OpKind kind = static_cast<OpKind>(op.op());
    step->kernel = FindCpuKernel(kind);
    DS_CHECK(step->kernel != nullptr);  // by CheckPlan
    step->num_operands = static_cast<int>(op.operands()->size());
    CpuShape shape;
    for (int i = 0; i < step->num_operands; ++i) {
      const fb::OperandRef& ref = *op.operands()->Get(i);
      if (ref.kind() == fb::OperandKind::Buffer) {
        SetBuffer(ref.index(), i, step);
      } else if (ref.kind() == fb::OperandKind::Weight) {
        SetWeight(ref.index(), i, step);
        if (plan_.fb().weights()->Get(ref.index())->shape()->size() == 2) {
          shape.weight_encoding = step->call.in[i].encoding;
        }
      }
    }
    SetOutput(op.output(), step);
    step->call.attrs = out_.attrs.data() + out_.attrs.size();
    if (op.attrs() != nullptr) {
      for (const fb::AttrValue* a : *op.attrs()) {
        out_.attrs.push_back({a->i(), a->f()});
      }
    }
    if (op.state() >= 0) step->call.state = &out_.states[op.state()];

    shape.max_rows = std::max(step->call.in[0].rows, step->call.out_rows);
    shape.in_cols = step->call.in[0].cols;
    shape.out_cols = step->call.out_cols;
    shape.max_context = sizes_.limits.max_seq_len;
    shape.attrs = step->call.attrs;
    shape.num_threads = num_threads_;
    out_.scratch_bytes =
        std::max(out_.scratch_bytes, CpuScratchBytes(kind, shape));
    return absl::OkStatus();
  }

  absl::Status AddCollective(const fb::CollectiveStep& c,
                             ResolvedStep* step) const {
    const fb::RankGroup& group = *plan_.fb().groups()->Get(c.group());
    const int64_t size = group.ranks()->size();
    if (c.kind() != fb::CollectiveKind::AllReduce &&
        c.kind() != fb::CollectiveKind::AllGather) {
      return absl::UnimplementedError(
          absl::StrCat("collective kind ", static_cast<int>(c.kind()),
                       "; the CPU back end has all_reduce and all_gather"));
    }
    if (size != 1 && size != plan_.world_size()) {
      return absl::UnimplementedError(
          absl::StrCat("a collective over ", size, " of ", plan_.world_size(),
                       " ranks; the CPU back end has groups of all ranks"));
    }
    if (size == 1) {
      step->kind = ResolvedStep::kCopy;
    } else {
      step->kind = c.kind() == fb::CollectiveKind::AllReduce
                       ? ResolvedStep::kAllReduce
                       : ResolvedStep::kAllGather;
    }
    SetCopy(c.input(), c.output(), step);
    return absl::OkStatus();
  }

  void SetCopy(int input, int output, ResolvedStep* step) const {
    step->num_operands = 1;
    SetBuffer(input, 0, step);
    SetOutput(output, step);
  }

  absl::Status Add(const fb::Step& from) {
    out_.steps.emplace_back();
    ResolvedStep& step = out_.steps.back();
    step.rows_dim.fill(-1);
    step.input.fill(-1);
    switch (from.kind()) {
      case fb::StepKind::CpuOp:
        return AddKernel(*from.cpu_op(), &step);
      case fb::StepKind::Collective:
        return AddCollective(*from.collective(), &step);
      case fb::StepKind::Copy:
        if (program_.buffers()->Get(from.copy()->input())->slot() < 0) {
          return absl::UnimplementedError("a copy of an input");
        }
        step.kind = ResolvedStep::kCopy;
        SetCopy(from.copy()->input(), from.copy()->output(), &step);
        return absl::OkStatus();
      default:
        return absl::UnimplementedError("no step of the CPU back end");
    }
  }

  const Plan& plan_;
  const fb::Program& program_;
  const RunSizes& sizes_;
  char* const arena_;
  char* const cache_;
  const int num_threads_;
  StepList out_;
};

}  // namespace

absl::StatusOr<StepList> ResolveSteps(const Plan& plan,
                                      const fb::Program& program,
                                      const RunSizes& sizes, char* arena,
                                      char* cache, int num_threads) {
  return Resolver(plan, program, sizes, arena, cache, num_threads).Run();
}

}  // namespace deepslice
