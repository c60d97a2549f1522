// Weights that a plan does not hold: memory filled from their seed
// (schema/synthetic.h).
#ifndef DEEPSLICE_RUNTIME_SYNTHETIC_WEIGHTS_H_
#define DEEPSLICE_RUNTIME_SYNTHETIC_WEIGHTS_H_

#include <cstdint>
#include <memory>

#include "absl/base/call_once.h"
#include "absl/status/status.h"
#include "schema/plan_generated.h"

namespace deepslice {

// Bytes of a rank's weight memory: the weights file, and behind it what is made
// up. Of a plan that CheckPlan accepts.
uint64_t WeightMemoryBytes(const fb::Plan& plan);

// Rows [begin, end), counted within the piece, of a weight of 16 or 32 bit
// that lies at `weight` (row-major). Different rows may be filled at once.
void FillSyntheticRows(const fb::Weight& w, const fb::SyntheticPiece& piece,
                       int64_t begin, int64_t end, void* weight);

// The made-up part of a plan's weight memory on the host, filled when it is
// first asked for.
class SyntheticMemory {
 public:
  // `plan` must outlive it.
  explicit SyntheticMemory(const fb::Plan& plan) : plan_(plan) {}

  // Fills it once, whoever asks; safe from several threads.
  // ResourceExhausted when this machine's memory is too small.
  absl::Status Fill(int threads);
  // Of a Synthetic weight; nullptr before Fill.
  const void* data(const fb::Weight& w) const;

 private:
  absl::Status FillNow(int threads);

  const fb::Plan& plan_;
  absl::once_flag once_;
  absl::Status status_;
  std::shared_ptr<char> memory_;  // from weights_bytes on
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_SYNTHETIC_WEIGHTS_H_
