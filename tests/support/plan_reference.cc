#include "tests/support/plan_reference.h"

#include <cstring>

#include "schema/base/check.h"
#include "schema/base/dtype.h"
#include "schema/encoding.h"

namespace deepslice {
namespace {

template <typename T>
T At(const void* data, int64_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + i * sizeof(T),
              sizeof(T));
  return value;
}

RefTensor ReadWeight(const Plan& plan, int index) {
  const fb::Weight& w = *plan.fb().weights()->Get(index);
  RefTensor out;
  out.shape.assign(w.shape()->begin(), w.shape()->end());
  int64_t count = 1;
  for (const int64_t d : out.shape) count *= d;
  const void* data = plan.weight_data(index);
  for (int64_t i = 0; i < count; ++i) {
    switch (static_cast<Encoding>(w.encoding())) {
      case Encoding::kF32:
        out.data.push_back(At<float>(data, i));
        break;
      case Encoding::kF16:
        out.data.push_back(F16ToFloat(At<uint16_t>(data, i)));
        break;
      case Encoding::kBF16:
        out.data.push_back(BF16ToFloat(At<uint16_t>(data, i)));
        break;
      default:
        out.data.push_back(At<int8_t>(data, i) *
                           plan.weight_scales(index)[i / out.shape[1]]);
    }
  }
  return out;
}

RefTensor FromInts(absl::Span<const int32_t> values,
                   std::vector<int64_t> shape) {
  RefTensor out;
  out.shape = std::move(shape);
  out.data.assign(values.begin(), values.end());
  return out;
}

}  // namespace

PlanReference::PlanReference(const Plan& plan)
    : plan_(plan), states_(plan.fb().states()->size()) {
  DS_CHECK(plan.FillSynthetic(1).ok());
  for (uint32_t i = 0; i < plan.fb().weights()->size(); ++i) {
    weights_.push_back(ReadWeight(plan, i));
  }
}

std::vector<RefTensor> PlanReference::Execute(const StepBatch& batch) {
  const fb::Program& program = *plan_.FindProgram("cpu", fb::ProgramKind::Step);
  const int64_t tokens = batch.ids.size(), rows = batch.rows.size();
  std::map<int32_t, RefTensor> buffers;
  for (const int32_t b : *program.inputs()) {
    const std::string name = program.buffers()->Get(b)->name()->str();
    buffers[b] = name == "ids"         ? FromInts(batch.ids, {tokens})
                 : name == "positions" ? FromInts(batch.positions, {tokens})
                 : name == "slots"     ? FromInts(batch.slots, {tokens})
                 : name == "rows"
                     ? FromInts(batch.rows, {rows})
                     : FromInts(batch.blocks,
                                {1, static_cast<int64_t>(batch.blocks.size())});
  }
  std::vector<RefTensor> results;
  for (const fb::Step* step : *program.steps()) {
    DS_CHECK(step->kind() == fb::StepKind::CpuOp);
    const fb::CpuOpStep& op = *step->cpu_op();
    RefCall call;
    for (uint32_t i = 0; i < op.operands()->size(); ++i) {
      const fb::OperandRef& ref = *op.operands()->Get(i);
      if (ref.kind() == fb::OperandKind::Buffer) {
        call.operands[i] = &buffers.at(ref.index());
      } else if (ref.kind() == fb::OperandKind::Weight) {
        call.operands[i] = &weights_[ref.index()];
      }
    }
    std::vector<Attr> attrs;
    if (op.attrs() != nullptr) {
      for (const fb::AttrValue* a : *op.attrs()) {
        attrs.push_back({a->i(), a->f()});
      }
    }
    call.attrs = attrs.data();
    if (op.state() >= 0) call.state = &states_[op.state()];
    RefTensor out;
    const absl::Status status =
        RunReference(static_cast<OpKind>(op.op()), call, &out);
    if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
    DS_CHECK(status.ok());
    results.push_back(out);
    buffers[op.output()] = std::move(out);
  }
  return results;
}

}  // namespace deepslice
