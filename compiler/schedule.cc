#include "compiler/schedule.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "schema/base/checked_math.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// Which named dim scales the value, and bytes for one unit of it.
absl::StatusOr<ScheduledSlot> SizeOf(const Value& v,
                                     const std::vector<ScheduledDim>& dims) {
  ScheduledSlot size;
  size.bytes_per_unit = DTypeSize(v.type.dtype);
  for (const Dim& d : v.type.dims) {
    if (!d.is_symbol()) {
      if (!CheckedMul(size.bytes_per_unit, d.size, &size.bytes_per_unit)) {
        return absl::ResourceExhaustedError(
            absl::StrFormat("%%%s: %s overflows", v.name, TypeText(v.type)));
      }
      continue;
    }
    const auto found =
        std::find_if(dims.begin(), dims.end(),
                     [&](const ScheduledDim& s) { return s.name == d.symbol; });
    if (found == dims.end() || size.dim >= 0) {
      return absl::InternalError(absl::StrFormat(
          "%%%s: %s: a value has one of the step's dims", v.name,
          TypeText(v.type)));
    }
    size.dim = static_cast<int>(found - dims.begin());
  }
  return size;
}

}  // namespace

int LayerOf(absl::string_view name) {
  if (!absl::ConsumePrefix(&name, "layers.")) return -1;
  int layer;
  return absl::SimpleAtoi(name.substr(0, name.find('.')), &layer) ? layer : -1;
}

absl::StatusOr<Schedule> MakeSchedule(const Graph& graph,
                                      const StepCeilings& ceilings) {
  Schedule out;
  out.dims = {{"T", ceilings.max_step_tokens},
              {"R", ceilings.max_step_tokens},
              {"S", ceilings.max_batch},
              {"B", ceilings.blocks_per_seq()}};
  if (ceilings.max_source_tokens > 0) {
    out.dims.push_back({"E", ceilings.max_source_tokens});
  }
  if (ceilings.max_images > 0) {
    out.dims.push_back({"P", ceilings.max_images * ceilings.image_tokens});
    out.dims.push_back({"I", ceilings.max_images});
  }
  absl::flat_hash_map<const Value*, int> buffer_of;
  absl::flat_hash_map<const Weight*, int> weight_of;
  for (size_t i = 0; i < graph.weights().size(); ++i) {
    weight_of[graph.weights()[i].get()] = i;
  }
  for (const auto& p : graph.params()) {
    buffer_of[p.get()] = out.buffers.size();
    out.inputs.push_back(out.buffers.size());
    out.buffers.push_back({p.get(), -1, 0, 0});
  }
  const int last = static_cast<int>(graph.nodes().size());
  for (int i = 0; i < last; ++i) {
    const Node& n = *graph.nodes()[i];
    ScheduledStep step;
    step.node = &n;
    for (const Operand& o : n.operands) {
      step.buffers.push_back(-1);
      step.weights.push_back(-1);
      if (o.weight != nullptr) step.weights.back() = weight_of.at(o.weight);
      if (o.value != nullptr) {
        step.buffers.back() = buffer_of.at(o.value);
        out.buffers[step.buffers.back()].last_step = i;
      }
    }
    step.output = out.buffers.size();
    step.layer = LayerOf(n.result->name);
    if (n.def().effect == Effect::kCollective) {
      step.collective = 0;
      for (const ScheduledStep& s : out.steps) {
        if (s.collective >= 0) step.collective = s.collective + 1;
      }
    }
    buffer_of[n.result] = step.output;
    out.buffers.push_back({n.result, -1, i, i});
    out.steps.push_back(std::move(step));
  }
  for (const Value* v : graph.returns()) {
    const int b = buffer_of.at(v);
    out.buffers[b].last_step = last;
    out.outputs.push_back(b);
  }

  // Slots in step order. A step's output is never one of its own operands'.
  SlotPool pool(&out.slots);
  for (int i = 0; i < last; ++i) {
    ScheduledBuffer& result = out.buffers[out.steps[i].output];
    DS_ASSIGN_OR_RETURN(const ScheduledSlot size,
                        SizeOf(*result.value, out.dims));
    result.slot = pool.Take(size);
    for (const ScheduledBuffer& b : out.buffers) {
      if (b.slot >= 0 && b.last_step == i && b.first_step <= i) {
        pool.Give(b.slot);
      }
    }
  }
  return out;
}

int64_t CacheBytes(const Graph& graph, const StepCeilings& ceilings) {
  const int64_t tokens =
      ceilings.kv_block * ceilings.max_batch * ceilings.blocks_per_seq();
  int64_t bytes = 0;
  for (const auto& s : graph.states()) {
    const int64_t all = s->kind == StateKind::kCross
                            ? ceilings.max_source_tokens * ceilings.max_batch
                            : tokens;
    bytes += RowsPerToken(s->kind) * s->kv_heads * s->head_dim *
             EncodingBits(s->encoding) / 8 * all;
  }
  return bytes;
}

std::vector<std::string> CollectiveLines(const Graph& graph) {
  std::vector<std::string> lines;
  for (const auto& n : graph.nodes()) {
    if (n->def().effect != Effect::kCollective) continue;
    const int64_t group = n->i(attr::AllReduce::group);
    // The gathered width is the same on all ranks, a rank's part is not.
    const TensorType& type = n->result->type;
    lines.push_back(absl::StrFormat("%s %s %s %%%s", n->def().spelling,
                                    EnumValues("Group")[group], TypeText(type),
                                    n->result->name));
  }
  return lines;
}

absl::Status CheckCollectives(const std::vector<const Graph*>& ranks) {
  const std::vector<std::string> first = CollectiveLines(*ranks[0]);
  for (size_t r = 1; r < ranks.size(); ++r) {
    const std::vector<std::string> other = CollectiveLines(*ranks[r]);
    for (size_t i = 0; i < std::max(first.size(), other.size()); ++i) {
      const std::string a = i < first.size() ? first[i] : "none";
      const std::string b = i < other.size() ? other[i] : "none";
      if (a != b) {
        return absl::InternalError(absl::StrFormat(
            "collective %d differs: rank 0 has %s, rank %d has %s; the ranks "
            "would wait for each other",
            i, a, r, b));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace deepslice
