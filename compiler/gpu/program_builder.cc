#include "compiler/gpu/program_builder.h"

#include <algorithm>

#include "compiler/schedule.h"
#include "schema/base/check.h"
#include "schema/base/checked_math.h"
#include "schema/plan_format.h"

namespace deepslice {
namespace {

// Ranges of sync words begin on lines of their own: blocks of a step spin on
// them.
constexpr int64_t kSyncLineWords = 32;

ScheduledSlot SizeOf(const LoweredBuffer& b) {
  ScheduledSlot size;
  size.bytes_per_unit = DTypeSize(b.dtype);
  for (const LoweredExtent& e : b.extents) {
    if (e.dim >= 0) {
      size.dim = e.dim;
    } else {
      size.bytes_per_unit *= e.size;
    }
  }
  return size;
}

}  // namespace

int SpecTable::Add(const KernelSpec& spec) {
  const auto [found, added] =
      index_.emplace(std::make_pair(spec.source, spec.entry), specs_.size());
  if (added) specs_.push_back(spec);
  return found->second;
}

ProgramBuilder::ProgramBuilder(std::string name, int bucket,
                               std::vector<ScheduledDim> dims,
                               SpecTable* kernels)
    : kernels_(*kernels) {
  program_.name = std::move(name);
  program_.bucket = bucket;
  program_.dims = std::move(dims);
}

int ProgramBuilder::DimIndex(absl::string_view name) const {
  for (size_t i = 0; i < program_.dims.size(); ++i) {
    if (program_.dims[i].name == name) return static_cast<int>(i);
  }
  DS_CHECK(false && "no such dim");
  return -1;
}

int64_t ProgramBuilder::DimMaximum(absl::string_view name) const {
  return program_.dims[DimIndex(name)].maximum;
}

int ProgramBuilder::AddInput(absl::string_view name, DType dtype,
                             std::vector<LoweredExtent> extents) {
  const int index = AddBuffer(name, dtype, std::move(extents));
  program_.inputs.push_back(index);
  return index;
}

int ProgramBuilder::AddBuffer(absl::string_view name, DType dtype,
                              std::vector<LoweredExtent> extents) {
  LoweredBuffer b;
  b.name = std::string(name);
  b.dtype = dtype;
  b.extents = std::move(extents);
  program_.buffers.push_back(std::move(b));
  return static_cast<int>(program_.buffers.size()) - 1;
}

int ProgramBuilder::AddScratch(absl::string_view name, int64_t bytes) {
  // Two extents, since one has a ceiling that is low for bytes.
  return AddBuffer(
      name, DType::kU8,
      {{CeilDiv(bytes, kSlotAlignment), -1}, {kSlotAlignment, -1}});
}

int ProgramBuilder::AddSync(int64_t words) {
  const int64_t first = program_.sync_words;
  program_.sync_words += RoundUp(words, kSyncLineWords);
  return static_cast<int>(first);
}

LoweredStep& ProgramBuilder::AddStep(LoweredStep::Kind kind,
                                     absl::string_view name, int output,
                                     int in_place) {
  LoweredStep step;
  step.kind = kind;
  step.name = std::string(name);
  step.layer = LayerOf(name);
  step.outputs = {output};
  program_.steps.push_back(std::move(step));
  in_place_.push_back(in_place);
  return program_.steps.back();
}

void ProgramBuilder::Launch(const KernelSpec& spec, absl::string_view name,
                            std::vector<LoweredOperand> operands, int output,
                            int in_place, int64_t sync_words) {
  const int kernel = kernels_.Add(spec);
  // A step that follows another kernel of ours may start while that one drains;
  // others don't say when they may be overtaken.
  // Nor may the first launch over images or sources, or the first one after
  // these: a step without them lacks these launches.
  Rows rows = Rows::kTokens;
  for (const GridExtent& g : spec.grid) {
    if (g.dim == CountDim::kSourceTokens) rows = Rows::kSources;
    if (g.dim == CountDim::kImageTokens || g.dim == CountDim::kImages) {
      rows = Rows::kImages;
    }
  }
  const bool after_launch =
      !program_.steps.empty() &&
      program_.steps.back().kind == LoweredStep::Kind::kLaunch &&
      rows == last_rows_;
  last_rows_ = rows;
  LoweredStep& step =
      AddStep(LoweredStep::Kind::kLaunch, name, output, in_place);
  step.kernel = kernel;
  step.operands = std::move(operands);
  for (int i = 0; i < 3; ++i) {
    const GridExtent& g = spec.grid[i];
    step.grid[i] = {g.times, g.per_block, -1};
    switch (g.dim) {
      case CountDim::kNone:
        break;
      case CountDim::kTokens:
        step.grid[i].dim = DimIndex("T");
        break;
      case CountDim::kRows:
        step.grid[i].dim = DimIndex("R");
        break;
      case CountDim::kTiles:
        step.grid[i].dim = DimIndex("Q");
        break;
      case CountDim::kImageTokens:
        step.grid[i].dim = DimIndex("P");
        break;
      case CountDim::kImages:
        step.grid[i].dim = DimIndex("I");
        break;
      case CountDim::kSourceTokens:
        step.grid[i].dim = DimIndex("E");
        break;
    }
  }
  step.block = spec.block;
  step.shared_bytes = spec.shared_bytes;
  step.programmatic = spec.programmatic && after_launch;
  step.sync_words = sync_words;
}

void ProgramBuilder::Gemm(absl::string_view name, int a, int weight,
                          int residual, int output) {
  LoweredStep& step = AddStep(LoweredStep::Kind::kGemm, name, output, residual);
  step.a = a;
  step.weight = weight;
  step.residual = residual;
}

void ProgramBuilder::Collective(LoweredStep::Collective kind,
                                absl::string_view name, int input, int output,
                                int64_t columns) {
  int sequence = 0;
  for (const LoweredStep& s : program_.steps) {
    if (s.kind == LoweredStep::Kind::kCollective) sequence = s.sequence + 1;
  }
  LoweredStep& step = AddStep(LoweredStep::Kind::kCollective, name, output, -1);
  step.collective = kind;
  step.sequence = sequence;
  step.dtype = program_.buffers[input].dtype;
  step.input = input;
  step.columns = columns;
}

LoweredProgram ProgramBuilder::Finish(std::vector<int> outputs) && {
  program_.outputs = std::move(outputs);
  FindLives();
  DropUnusedInputs();
  AssignSlots();
  return std::move(program_);
}

void ProgramBuilder::FindLives() {
  const auto use = [&](int buffer, int step) {
    LoweredBuffer& b = program_.buffers[buffer];
    if (b.first_step < 0) b.first_step = step;
    b.last_step = std::max(b.last_step, step);
  };
  const int end = static_cast<int>(program_.steps.size());
  for (int i = 0; i < end; ++i) {
    for (const int b : program_.steps[i].Reads()) use(b, i);
    for (const int b : program_.steps[i].outputs) use(b, i);
  }
  for (const int b : program_.outputs) use(b, end);
}

void ProgramBuilder::DropUnusedInputs() {
  std::vector<int> place(program_.buffers.size(), -1);
  std::vector<LoweredBuffer> kept;
  for (size_t i = 0; i < program_.buffers.size(); ++i) {
    if (program_.buffers[i].first_step < 0) continue;
    place[i] = static_cast<int>(kept.size());
    kept.push_back(std::move(program_.buffers[i]));
  }
  program_.buffers = std::move(kept);
  const auto move = [&](int& b) {
    if (b >= 0) b = place[b];
  };
  for (size_t i = 0; i < program_.steps.size(); ++i) {
    LoweredStep& s = program_.steps[i];
    for (LoweredOperand& o : s.operands) {
      if (o.kind == LoweredOperand::Kind::kBuffer) move(o.index);
    }
    for (int& b : s.outputs) move(b);
    for (int* b : {&s.a, &s.residual, &s.input}) move(*b);
    move(in_place_[i]);
  }
  for (int& b : program_.outputs) move(b);
  std::vector<int> inputs;
  for (const int b : program_.inputs) {
    if (place[b] >= 0) inputs.push_back(place[b]);
  }
  program_.inputs = std::move(inputs);
}

void ProgramBuilder::AssignSlots() {
  std::vector<bool> is_input(program_.buffers.size());
  for (const int b : program_.inputs) is_input[b] = true;
  SlotPool pool(&program_.slots);
  for (int i = 0; i < static_cast<int>(program_.steps.size()); ++i) {
    int replaced = -1;
    // The in-place result first: only it may have an operand's slot.
    const int old = in_place_[i];
    const int result = program_.steps[i].outputs[0];
    if (old >= 0 && !is_input[old] && !is_input[result]) {
      const LoweredBuffer& from = program_.buffers[old];
      LoweredBuffer& to = program_.buffers[result];
      if (from.last_step == i && from.dtype == to.dtype &&
          from.extents == to.extents) {
        to.slot = from.slot;
        replaced = old;
      }
    }
    for (size_t b = 0; b < program_.buffers.size(); ++b) {
      LoweredBuffer& buffer = program_.buffers[b];
      if (is_input[b] || buffer.first_step != i || buffer.slot >= 0) continue;
      buffer.slot = pool.Take(SizeOf(buffer));
    }
    for (int b = 0; b < static_cast<int>(program_.buffers.size()); ++b) {
      const LoweredBuffer& buffer = program_.buffers[b];
      if (buffer.slot >= 0 && buffer.last_step == i && b != replaced) {
        pool.Give(buffer.slot);
      }
    }
  }
}

}  // namespace deepslice
