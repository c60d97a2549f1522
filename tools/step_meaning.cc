#include "tools/step_meaning.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "absl/strings/string_view.h"
#include "kernels/ref_util.h"
#include "schema/base/status_macros.h"
#include "tools/weight_rows.h"

namespace deepslice {
namespace {

RefTensor Ints(const std::vector<int32_t>& values, int64_t rows = 0) {
  RefTensor t;
  const int64_t n = static_cast<int64_t>(values.size());
  t.shape = rows == 0 ? std::vector<int64_t>{n}
                      : std::vector<int64_t>{rows, n / rows};
  t.data.assign(values.begin(), values.end());
  return t;
}

const fb::CopyStep* CopyOf(const fb::Step& step) {
  return step.kind() == fb::StepKind::Copy ? step.copy() : nullptr;
}

}  // namespace

const fb::CpuOpStep* CpuOpOf(const fb::Step& step) {
  return step.kind() == fb::StepKind::CpuOp ? step.cpu_op() : nullptr;
}

int OutputOf(const fb::Step& step) {
  switch (step.kind()) {
    case fb::StepKind::CpuOp:
      return step.cpu_op()->output();
    case fb::StepKind::Collective:
      return step.collective()->output();
    case fb::StepKind::Copy:
      return step.copy()->output();
    case fb::StepKind::Launch:
      return step.launch()->outputs()->Get(0);
    case fb::StepKind::Gemm:
      return step.gemm()->output();
  }
  return -1;
}

StepMeaning::StepMeaning(const Plan& plan, const fb::Program& program,
                         int threads)
    : plan_(plan),
      program_(program),
      threads_(threads),
      makers_(program.buffers()->size()),
      states_(plan.fb().states()->size()) {
  for (const fb::Step* s : *program.steps()) {
    const int b = OutputOf(*s);
    makers_[b] = s;
    const auto [place, first] = by_name_.emplace(s->name()->str(), b);
    if (!first) place->second = -1;  // which of them is meant, is not known
  }
}

void StepMeaning::Begin(const KeptBatch& batch) {
  tokens_ = static_cast<int64_t>(batch.ids.size());
  wanted_ = static_cast<int64_t>(batch.rows.size());
  made_.clear();
  computed_.clear();
  for (const int32_t b : *program_.inputs()) {
    const absl::string_view name = program_.buffers()->Get(b)->name()->c_str();
    computed_[b] = name == "ids"         ? Ints(batch.ids)
                   : name == "positions" ? Ints(batch.positions)
                   : name == "slots"     ? Ints(batch.slots)
                   : name == "rows"      ? Ints(batch.rows)
                   : name == "horizons" || name == "prompts"
                       ? Ints(batch.horizons)
                       : Ints(batch.blocks, 1);
  }
}

int StepMeaning::BufferOf(const std::string& step) const {
  const auto found = by_name_.find(step);
  return found == by_name_.end() ? -1 : found->second;
}

std::pair<int64_t, int64_t> StepMeaning::ShapeOf(int buffer) const {
  const auto& extents = *program_.buffers()->Get(buffer)->extents();
  const int dim = extents.Get(0)->dim();
  const bool rows =
      dim >= 0 && program_.dims()->Get(dim)->name()->string_view() == "R";
  return {rows ? wanted_ : tokens_, extents.Get(1)->size()};
}

absl::StatusOr<RefTensor> StepMeaning::Compute(int buffer) {
  for (const int operand : OperandsOf(buffer)) {
    DS_RETURN_IF_ERROR(Provide(operand));
  }
  return RunMaker(buffer);
}

absl::Status StepMeaning::FillCaches() {
  for (const fb::Step* s : *program_.steps()) {
    const fb::CpuOpStep* op = CpuOpOf(*s);
    if (op == nullptr || op->state() < 0) continue;
    DS_RETURN_IF_ERROR(Compute(op->output()).status());
  }
  return absl::OkStatus();
}

const RefTensor* StepMeaning::Find(int buffer) const {
  const auto made = made_.find(buffer);
  if (made != made_.end()) return &made->second;
  const auto computed = computed_.find(buffer);
  return computed == computed_.end() ? nullptr : &computed->second;
}

std::vector<int> StepMeaning::OperandsOf(int buffer) const {
  const fb::Step& step = *makers_[buffer];
  if (const fb::CopyStep* copy = CopyOf(step)) return {copy->input()};
  std::vector<int> out;
  const fb::CpuOpStep* op = CpuOpOf(step);
  if (op == nullptr) return out;
  for (const fb::OperandRef* o : *op->operands()) {
    if (o->kind() == fb::OperandKind::Buffer) out.push_back(o->index());
  }
  return out;
}

// Not recursive: chains are as long as plans.
absl::Status StepMeaning::Provide(int buffer) {
  std::vector<int> wanted = {buffer};
  while (!wanted.empty()) {
    const int b = wanted.back();
    bool ready = true;
    if (Find(b) == nullptr) {
      for (const int operand : OperandsOf(b)) {
        if (Find(operand) != nullptr) continue;
        wanted.push_back(operand);
        ready = false;
      }
      if (!ready) continue;
      DS_ASSIGN_OR_RETURN(computed_[b], RunMaker(b));
    }
    wanted.pop_back();
  }
  return absl::OkStatus();
}

absl::StatusOr<RefTensor> StepMeaning::RunMaker(int buffer) {
  const fb::Step& step = *makers_[buffer];
  if (const fb::CopyStep* copy = CopyOf(step)) return *Find(copy->input());
  if (CpuOpOf(step) == nullptr) {
    return absl::UnimplementedError("made by all ranks together");
  }
  const fb::CpuOpStep& op = *step.cpu_op();
  const OpKind kind = static_cast<OpKind>(op.op());
  RefTensor held[kMaxOperands];
  RefCall call;
  for (uint32_t i = 0; i < op.operands()->size(); ++i) {
    const fb::OperandRef& o = *op.operands()->Get(i);
    if (o.kind() == fb::OperandKind::Buffer) {
      call.operands[i] = Find(o.index());
    } else if (o.kind() == fb::OperandKind::Weight) {
      const bool streamed =
          (kind == OpKind::kLinear && i == operand::Linear::w) ||
          (kind == OpKind::kEmbed && i == operand::Embed::table);
      if (streamed) continue;
      DS_ASSIGN_OR_RETURN(held[i], WholeWeight(o.index()));
      call.operands[i] = &held[i];
    }
  }
  std::vector<Attr> attrs;
  for (uint32_t i = 0; op.attrs() != nullptr && i < op.attrs()->size(); ++i) {
    attrs.push_back({op.attrs()->Get(i)->i(), op.attrs()->Get(i)->f()});
  }
  call.attrs = attrs.data();
  if (op.state() >= 0) call.state = &states_[op.state()];
  if (kind == OpKind::kEmbed) {
    return Embed(op.operands()->Get(operand::Embed::table)->index(),
                 call.in(operand::Embed::ids), attrs[attr::Embed::begin].i);
  }
  if (kind == OpKind::kLinear) {
    return Linear(op.operands()->Get(operand::Linear::w)->index(), call);
  }
  RefTensor out;
  DS_RETURN_IF_ERROR(RunReference(kind, call, &out));
  return out;
}

absl::StatusOr<RefTensor> StepMeaning::WholeWeight(int index) {
  const fb::Weight& w = *plan_.fb().weights()->Get(index);
  RefTensor t;
  t.shape.assign(w.shape()->begin(), w.shape()->end());
  const WeightRows rows(plan_, index);
  std::vector<float> row(rows.cols());
  for (int64_t r = 0; r < rows.rows(); ++r) {
    rows.Read(r, row.data());
    t.data.insert(t.data.end(), row.begin(), row.end());
  }
  return t;
}

absl::StatusOr<RefTensor> StepMeaning::Embed(int table, const RefTensor& ids,
                                             int64_t begin) {
  const WeightRows rows(plan_, table);
  std::vector<float> row(rows.cols());
  RefTensor out;
  ResizeRef({ids.rows(), rows.cols()}, &out);
  for (int64_t t = 0; t < ids.rows(); ++t) {
    const int64_t r = static_cast<int64_t>(ids.data[t]) - begin;
    if (r < 0 || r >= rows.rows()) continue;
    rows.Read(r, row.data());
    std::copy(row.begin(), row.end(), out.data.begin() + t * rows.cols());
  }
  return out;
}

absl::StatusOr<RefTensor> StepMeaning::Linear(int w, const RefCall& call) {
  const RefTensor& x = call.in(operand::Linear::x);
  const RefTensor* bias = call.maybe(operand::Linear::bias);
  const RefTensor* residual = call.maybe(operand::Linear::residual);
  const WeightRows rows(plan_, w);
  RefTensor out;
  ResizeRef({x.rows(), rows.rows()}, &out);
  std::atomic<int64_t> next{0};
  const auto work = [&] {
    std::vector<float> row(rows.cols());
    for (int64_t c; (c = next.fetch_add(1)) < rows.rows();) {
      rows.Read(c, row.data());
      for (int64_t r = 0; r < x.rows(); ++r) {
        double sum = 0;
        for (int64_t k = 0; k < rows.cols(); ++k) sum += x.row(r)[k] * row[k];
        if (bias != nullptr) sum += bias->data[c];
        if (residual != nullptr) sum += residual->row(r)[c];
        out.data[r * rows.rows() + c] = sum;
      }
    }
  };
  std::vector<std::thread> helpers;
  for (int i = 1; i < threads_; ++i) helpers.emplace_back(work);
  work();
  for (std::thread& t : helpers) t.join();
  return out;
}

}  // namespace deepslice
