#include "compiler/stream_graph.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "compiler/stored_rows.h"
#include "kernels/ref_util.h"
#include "schema/base/checked_math.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// Rows of a matrix that are read at a time, and rows of x that meet each of
// them while it is at hand.
constexpr int64_t kReadRows = 32;
constexpr int kLanes = 8;

// sum over k of w[k] * x[k][lane], each lane in the order of k.
void Dot(const float* w, const double* x, int64_t depth, double* out) {
  double sum[kLanes] = {};
  for (int64_t k = 0; k < depth; ++k) {
    const double value = w[k];
    for (int lane = 0; lane < kLanes; ++lane) {
      sum[lane] += value * x[k * kLanes + lane];
    }
  }
  std::copy_n(sum, kLanes, out);
}

}  // namespace

int64_t MatrixElements(const Graph& graph) {
  int64_t count = 0;
  for (const auto& node : graph.nodes()) {
    const Weight* w =
        node->op == OpKind::kLinear       ? node->weight(operand::Linear::w)
        : node->op == OpKind::kHeadLinear ? node->weight(operand::HeadLinear::w)
                                          : nullptr;
    if (w != nullptr) count += w->type.dims[0].size * w->type.dims[1].size;
  }
  return count;
}

absl::StatusOr<RefTensor> StreamedGraph::Whole(const Weight& w) {
  StoredRows reader(checkpoint_, w);
  RefTensor out;
  int64_t count = 1;
  for (const Dim& d : w.type.dims) {
    out.shape.push_back(d.size);
    count *= d.size;
  }
  std::vector<float> values(count);
  DS_RETURN_IF_ERROR(
      reader.Read(0, w.type.dims[0].size, absl::MakeSpan(values)));
  out.data.assign(values.begin(), values.end());
  return out;
}

absl::Status StreamedGraph::Embed(const Weight& table, const RefTensor& ids,
                                  int64_t begin, RefTensor* out) {
  StoredRows reader(checkpoint_, table);
  const int64_t cols = table.type.dims[1].size;
  ResizeRef({ids.rows(), cols}, out);
  std::vector<float> row(cols);
  for (int64_t t = 0; t < ids.rows(); ++t) {
    const int64_t r = static_cast<int64_t>(ids.data[t]) - begin;
    if (r < 0 || r >= table.type.dims[0].size) continue;
    DS_RETURN_IF_ERROR(reader.Read(r, r + 1, absl::MakeSpan(row)));
    std::copy(row.begin(), row.end(), out->data.begin() + t * cols);
  }
  return absl::OkStatus();
}

absl::Status StreamedGraph::Linear(const Weight& w, const RefTensor& x,
                                   RefTensor* out) {
  const int64_t rows = x.rows(), depth = x.cols(), cols = w.type.dims[0].size;
  if (w.type.dims[1].size != depth) {
    return absl::InvalidArgumentError(absl::StrCat("linear: x has ", depth,
                                                   " columns, @", w.name, " ",
                                                   w.type.dims[1].size));
  }
  // x in groups of kLanes rows: [group][depth][lane], zeros behind the last.
  const int64_t groups = CeilDiv(rows, kLanes);
  std::vector<double> lanes(groups * depth * kLanes);
  for (int64_t r = 0; r < rows; ++r) {
    double* to = lanes.data() + (r / kLanes) * depth * kLanes + r % kLanes;
    for (int64_t k = 0; k < depth; ++k) to[k * kLanes] = x.row(r)[k];
  }
  ResizeRef({rows, cols}, out);
  std::atomic<int64_t> next{0};
  absl::Mutex mutex;
  absl::Status status;
  const auto work = [&] {
    StoredRows reader(checkpoint_, w);
    std::vector<float> part(kReadRows * depth);
    for (;;) {
      const int64_t begin = next.fetch_add(kReadRows);
      if (begin >= cols) return;
      const int64_t end = std::min(begin + kReadRows, cols);
      const absl::Status read = reader.Read(
          begin, end, absl::MakeSpan(part).subspan(0, (end - begin) * depth));
      if (!read.ok()) {
        absl::MutexLock lock(&mutex);
        status.Update(read);
        next = cols;
        return;
      }
      for (int64_t c = begin; c < end; ++c) {
        for (int64_t g = 0; g < groups; ++g) {
          double sums[kLanes];
          Dot(part.data() + (c - begin) * depth,
              lanes.data() + g * depth * kLanes, depth, sums);
          const int64_t most = std::min<int64_t>(kLanes, rows - g * kLanes);
          for (int64_t lane = 0; lane < most; ++lane) {
            out->data[(g * kLanes + lane) * cols + c] = sums[lane];
          }
        }
      }
    }
  };
  std::vector<std::thread> helpers;
  const int64_t wanted =
      std::min<int64_t>({std::max(threads_, 1), CeilDiv(cols, kReadRows),
                         CeilDiv(rows * cols * depth, work_of_thread_)});
  for (int64_t i = 1; i < wanted; ++i) helpers.emplace_back(work);
  work();
  for (std::thread& t : helpers) t.join();
  return status;
}

absl::Status StreamedGraph::RunNode(
    const Node& node, const std::map<const Value*, RefTensor>& values,
    RefTensor* out) {
  if (node.op == OpKind::kEmbed) {
    return Embed(*node.weight(operand::Embed::table),
                 values.at(node.in(operand::Embed::ids)),
                 node.i(attr::Embed::begin), out);
  }
  if (node.op == OpKind::kLinear) {
    DS_RETURN_IF_ERROR(Linear(*node.weight(operand::Linear::w),
                              values.at(node.in(operand::Linear::x)), out));
    const int64_t cols = out->cols();
    if (const Weight* b = node.weight(operand::Linear::bias)) {
      DS_ASSIGN_OR_RETURN(const RefTensor bias, Whole(*b));
      for (size_t i = 0; i < out->data.size(); ++i) {
        out->data[i] += bias.data[i % cols];
      }
    }
    if (const Value* r = node.in(operand::Linear::residual)) {
      const RefTensor& residual = values.at(r);
      for (size_t i = 0; i < out->data.size(); ++i) {
        out->data[i] += residual.data[i];
      }
    }
    return absl::OkStatus();
  }
  RefTensor weights[kMaxOperands];
  RefCall call;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const Operand& o = node.operands[i];
    if (o.value != nullptr) call.operands[i] = &values.at(o.value);
    if (o.weight == nullptr) continue;
    DS_ASSIGN_OR_RETURN(weights[i], Whole(*o.weight));
    call.operands[i] = &weights[i];
  }
  call.attrs = node.attrs.data();
  if (node.state != nullptr) call.state = &states_[node.state->name];
  return RunReference(node.op, call, out);
}

absl::StatusOr<RefTensor> StreamedGraph::Run(
    std::map<std::string, RefTensor> inputs,
    const std::function<absl::Status(size_t node)>& between) {
  std::map<const Value*, RefTensor> values;
  for (const auto& p : graph_.params()) {
    const auto found = inputs.find(p->name);
    if (found == inputs.end()) {
      return absl::InternalError(
          absl::StrCat("input %", p->name, " is missing"));
    }
    values[p.get()] = std::move(found->second);
  }
  std::map<const Value*, size_t> last_use;
  for (size_t i = 0; i < graph_.nodes().size(); ++i) {
    for (const Operand& o : graph_.nodes()[i]->operands) {
      if (o.value != nullptr) last_use[o.value] = i;
    }
  }
  const Value* wanted = graph_.returns()[0];
  for (size_t i = 0; i < graph_.nodes().size(); ++i) {
    DS_RETURN_IF_ERROR(between(i));
    const Node& node = *graph_.nodes()[i];
    RefTensor result;
    const absl::Status ran = RunNode(node, values, &result);
    // What is wrong in a file names its place there.
    if (absl::IsDataLoss(ran)) return ran;
    DS_RETURN_IF_ERROR(Annotate(ran, "%", node.result->name));
    values[node.result] = std::move(result);
    for (const Operand& o : node.operands) {
      if (o.value != nullptr && o.value != wanted && last_use[o.value] == i) {
        values.erase(o.value);
      }
    }
  }
  return std::move(values.at(wanted));
}

}  // namespace deepslice
