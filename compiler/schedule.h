// A rank's graph as a flat list of steps with a memory map: what the plan
// holds, before it is a FlatBuffer.
#ifndef DEEPSLICE_COMPILER_SCHEDULE_H_
#define DEEPSLICE_COMPILER_SCHEDULE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/slot_pool.h"
#include "ir/graph.h"

namespace deepslice {

// Ceilings compiled into the program; a run may lower them.
struct StepCeilings {
  int64_t max_seq_len = 0;        // tokens of one sequence
  int64_t max_batch = 8;          // sequence slots (S)
  int64_t max_step_tokens = 512;  // T, and R
  int64_t kv_block = 64;          // tokens of a cache block
  // Of programs that read them: an encoder's tokens beside a decoder (E), of one
  // sequence or of all; images (I) and their tokens (P).
  int64_t max_source_tokens = 0;
  int64_t max_images = 0, image_tokens = 0;
  int64_t blocks_per_seq() const {
    return (max_seq_len + kv_block - 1) / kv_block;
  }
};

struct ScheduledBuffer {
  const Value* value;
  int slot = -1;       // -1: a program input
  int first_step = 0;  // alive over [first_step, last_step]
  int last_step = 0;
};

struct ScheduledStep {
  const Node* node;
  std::vector<int> buffers;  // per operand: buffer index, -1 for none or weight
  std::vector<int> weights;  // per operand: index into Graph::weights(), or -1
  int output = 0;            // buffer
  int layer = -1;            // from the result's name, "layers.N."
  int collective = -1;       // sequence number, for collectives
};

struct Schedule {
  std::vector<ScheduledDim> dims;
  std::vector<ScheduledSlot> slots;
  std::vector<ScheduledBuffer> buffers;
  std::vector<ScheduledStep> steps;
  std::vector<int> inputs, outputs;  // buffers

  // Bytes of the arena with every named dim at `extents` (one per dims entry),
  // each slot rounded up to 256.
  int64_t ArenaBytes(const std::vector<int64_t>& extents) const {
    return deepslice::ArenaBytes(slots, extents);
  }
};

// The N of "layers.N.x", else -1.
int LayerOf(absl::string_view name);

// Steps in the graph's order. Buffers that are never alive together share a
// slot, the smallest that is large enough. Pointers in the result refer to
// `graph`, which must outlive it.
absl::StatusOr<Schedule> MakeSchedule(const Graph& graph,
                                      const StepCeilings& ceilings);

// Bytes of the caches of all sequences at the ceilings.
int64_t CacheBytes(const Graph& graph, const StepCeilings& ceilings);

// One line per collective: "0 all_reduce tp f32 T x 64 %embed".
std::vector<std::string> CollectiveLines(const Graph& graph);

// Whether the collectives of all ranks agree in kind, group, columns and order.
// Internal status naming the first pair that differs.
absl::Status CheckCollectives(const std::vector<const Graph*>& ranks);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_SCHEDULE_H_
