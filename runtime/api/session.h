// One rank of a plan, ready to run: ranks connected, weights checked, memory
// taken.
#ifndef DEEPSLICE_RUNTIME_API_SESSION_H_
#define DEEPSLICE_RUNTIME_API_SESSION_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/thread_pool.h"
#include "runtime/api/device_choice.h"
#include "runtime/backend/cuda/cuda_executor.h"
#include "runtime/comm/comm.h"
#include "runtime/engine.h"
#include "runtime/executor.h"
#include "runtime/launch.h"
#include "runtime/manifest.h"
#include "runtime/plan.h"
#include "runtime/text/tokenizer.h"

namespace deepslice {

struct SessionOptions {
  std::string plan;
  RankPlace place;
  std::vector<int> sockets;  // of a rank that a supervisor started, else empty
  std::string launch_id;     // how the others find rank 0 without sockets
  int threads = 0;           // 0: cores / local ranks
  RunLimits limits;          // as typed; 0: not given
  DeviceChoice device;
  std::function<void(absl::string_view)> on_slow;  // as ShmOptions::on_slow
  // Told what a person may like to know; on rank 0 alone.
  std::function<void(absl::string_view)> on_note;
  // How many bytes of this rank's weights, of all, were read and checked; by
  // one thread at a time.
  std::function<void(int64_t done, int64_t all)> on_loaded;
};

// What rank 0's work needs at most, 0 where the plan's ceiling is meant.
using ChooseLimits = std::function<absl::StatusOr<RunLimits>(const Plan&)>;

class Session {
 public:
  // Meets the other ranks, before the weights are read: ranks that can't meet,
  // or are of different plans, say so at once, and one that fails later can
  // tell the others.
  static absl::StatusOr<std::unique_ptr<Session>> Connect(
      const SessionOptions& options, const Manifest& manifest);
  // Over ranks that have met.
  static std::unique_ptr<Session> Over(const SessionOptions& options,
                                       std::unique_ptr<Comm> comm);
  // Loads, and prepares with rank 0's limits: the typed ones, else the smaller
  // of `choose` and the plan's. One rank's failure is an error in all of them;
  // FailedPrecondition when another rank's typed limits differ.
  absl::Status Load(const ChooseLimits& choose);

  int rank() const { return options_.place.rank; }
  const std::string& folder() const { return options_.plan; }
  const Plan& plan() const { return *plan_; }
  const Executor& executor() const { return *executor_; }
  Executor* mutable_executor() { return executor_.get(); }
  // The executor when it is a GPU's, else nullptr.
  CudaExecutor* cuda() { return cuda_; }
  // nullptr at world size 1.
  Comm* comm() { return comm_.get(); }
  // Rank 0 only.
  Engine& engine() { return *engine_; }
  int64_t max_seq_len() const { return executor_->limits().max_seq_len; }
  const SessionOptions& options() const { return options_; }
  // The target that runs: "cpu", "sm_90a".
  const std::string& target() const { return target_; }
  bool has_tokenizer() const {
    const auto* bytes = plan_->fb().tokenizer();
    return bytes != nullptr && bytes->size() > 0;
  }
  // The plan's tokenizer, loaded at the first call; FailedPrecondition when it
  // holds none.
  absl::StatusOr<const Tokenizer*> tokenizer();

 private:
  explicit Session(const SessionOptions& options) : options_(options) {}
  absl::Status LoadAlone(const ChooseLimits& choose);
  absl::StatusOr<RunLimits> AgreeOnLimits(const ChooseLimits& choose);
  // Whether the ranks run on GPUs: rank 0's choice, which the others must not
  // have been told otherwise.
  absl::StatusOr<bool> AgreeOnDevice();
  // The GPU, and the target that fits it.
  absl::Status FindGpu();
  absl::Status PrepareOnGpu(const RunLimits& limits, int threads);
  // Its ordinal among those that this process sees.
  int Gpu() const;

  const SessionOptions options_;
  // In the order in which they need each other.
  std::unique_ptr<Comm> comm_;
  std::unique_ptr<Plan> plan_;
  std::unique_ptr<ThreadPool> pool_;
  GpuApis apis_;
  std::string target_;  // that runs
  std::unique_ptr<Executor> executor_;
  CudaExecutor* cuda_ = nullptr;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

// The ceiling that the target's general step program was compiled with for dim
// "T", "S" (sequences) or "R"; 0 when it has no such program or dim. Without a
// target the highest of all.
int64_t CompiledCeiling(const Plan& plan, absl::string_view dim,
                        absl::string_view target = "");

// Cores that this process may use.
int AvailableCores();

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_API_SESSION_H_
