#include "compiler/gpu/gpu_buffer.h"

namespace deepslice {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

Offset<fb::Step> BuildLaunch(FlatBufferBuilder& b, const LoweredStep& s) {
  std::vector<fb::OperandRef> operands;
  for (const LoweredOperand& o : s.operands) {
    operands.emplace_back(static_cast<fb::OperandKind>(o.kind), o.index);
  }
  std::vector<fb::GridDim> grid;
  for (const LoweredGrid& g : s.grid) {
    grid.emplace_back(g.times, g.per_block, g.dim);
  }
  const auto name = b.CreateString(s.name);
  const auto operand_vector = b.CreateVectorOfStructs(operands);
  const auto outputs = b.CreateVector(s.outputs);
  const auto grid_vector = b.CreateVectorOfStructs(grid);
  const auto block = b.CreateVector(s.block.data(), s.block.size());
  const auto launch =
      fb::CreateLaunchStep(b, s.kernel, operand_vector, outputs, grid_vector,
                           block, s.shared_bytes, s.programmatic);
  fb::StepBuilder step(b);
  step.add_kind(fb::StepKind::Launch);
  step.add_name(name);
  step.add_layer(s.layer);
  step.add_launch(launch);
  return step.Finish();
}

Offset<fb::Step> BuildStep(FlatBufferBuilder& b, const LoweredStep& s) {
  switch (s.kind) {
    case LoweredStep::Kind::kLaunch:
      return BuildLaunch(b, s);
    case LoweredStep::Kind::kGemm: {
      const auto name = b.CreateString(s.name);
      const auto gemm =
          fb::CreateGemmStep(b, s.a, s.weight, s.residual, s.outputs[0]);
      fb::StepBuilder step(b);
      step.add_kind(fb::StepKind::Gemm);
      step.add_name(name);
      step.add_layer(s.layer);
      step.add_gemm(gemm);
      return step.Finish();
    }
    case LoweredStep::Kind::kCollective: {
      const auto name = b.CreateString(s.name);
      const auto collective = fb::CreateCollectiveStep(
          b, s.sequence, static_cast<fb::CollectiveKind>(s.collective),
          /*group=*/0, static_cast<uint8_t>(s.dtype), s.input, s.outputs[0],
          s.columns);
      fb::StepBuilder step(b);
      step.add_kind(fb::StepKind::Collective);
      step.add_name(name);
      step.add_layer(s.layer);
      step.add_collective(collective);
      return step.Finish();
    }
  }
  return 0;
}

Offset<fb::Program> BuildProgram(FlatBufferBuilder& b,
                                 const LoweredProgram& p) {
  std::vector<Offset<fb::NamedDim>> dims;
  for (const ScheduledDim& d : p.dims) {
    dims.push_back(fb::CreateNamedDim(b, b.CreateString(d.name), d.maximum));
  }
  std::vector<Offset<fb::Slot>> slots;
  for (const ScheduledSlot& s : p.slots) {
    slots.push_back(s.dim < 0 ? fb::CreateSlot(b, s.bytes_per_unit, -1, 0)
                              : fb::CreateSlot(b, 0, s.dim, s.bytes_per_unit));
  }
  std::vector<Offset<fb::Buffer>> buffers;
  for (const LoweredBuffer& buffer : p.buffers) {
    std::vector<fb::Extent> extents;
    for (const LoweredExtent& e : buffer.extents) {
      extents.emplace_back(e.dim < 0 ? e.size : 0, e.dim);
    }
    const auto name = b.CreateString(buffer.name);
    const auto extent_vector = b.CreateVectorOfStructs(extents);
    buffers.push_back(fb::CreateBuffer(b, name,
                                       static_cast<uint8_t>(buffer.dtype),
                                       extent_vector, buffer.slot));
  }
  std::vector<Offset<fb::Step>> steps;
  for (const LoweredStep& s : p.steps) steps.push_back(BuildStep(b, s));
  const auto name = b.CreateString(p.name);
  const auto dim_vector = b.CreateVector(dims);
  const auto slot_vector = b.CreateVector(slots);
  const auto buffer_vector = b.CreateVector(buffers);
  const auto step_vector = b.CreateVector(steps);
  const auto inputs = b.CreateVector(p.inputs);
  const auto outputs = b.CreateVector(p.outputs);
  return fb::CreateProgram(
      b, name, p.encodes ? fb::ProgramKind::Encode : fb::ProgramKind::Step,
      dim_vector, slot_vector, buffer_vector, step_vector, inputs, outputs,
      p.bucket, static_cast<int32_t>(p.tile_tokens));
}

}  // namespace

Offset<fb::Target> BuildGpuTarget(FlatBufferBuilder& b,
                                  const GpuTargetPlan& plan, int rank) {
  const GpuPrograms& programs = plan.ranks[rank];
  std::vector<Offset<fb::Program>> program_offsets;
  for (const LoweredProgram& p : programs.programs) {
    program_offsets.push_back(BuildProgram(b, p));
  }
  std::vector<Offset<fb::Kernel>> kernels;
  for (size_t i = 0; i < programs.kernels.size(); ++i) {
    const KernelPlace& place = plan.places[rank][i];
    const auto entry = b.CreateString(place.entry);
    const auto label = b.CreateString(programs.kernels[i].label);
    kernels.push_back(fb::CreateKernel(b, entry, place.offset, place.bytes,
                                       label, place.xxh3));
  }
  const auto name = b.CreateString(plan.target.name);
  const auto program_vector = b.CreateVector(program_offsets);
  const auto kernel_vector = b.CreateVector(kernels);
  const auto service = b.CreateVector(programs.service);
  return fb::CreateTarget(b, name, program_vector, kernel_vector,
                          programs.sync_words, service);
}

}  // namespace deepslice
