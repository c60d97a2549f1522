// What the handles of the C interface are.
#ifndef DEEPSLICE_RUNTIME_API_MODEL_H_
#define DEEPSLICE_RUNTIME_API_MODEL_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "runtime/api/api_call.h"
#include "runtime/api/deepslice.h"
#include "runtime/api/local_ranks.h"
#include "runtime/api/session.h"
#include "runtime/api/step_sequences.h"
#include "runtime/text/tokenizer.h"

struct ds_tokenizer {
  const deepslice::Tokenizer* tokenizer = nullptr;
  std::unique_ptr<const deepslice::Tokenizer> owned;  // nullptr: a model's
};

struct ds_model {
  // Over a session that is loaded and outlives it.
  explicit ds_model(deepslice::Session* loaded) : session(loaded) {}
  // Its own: of ds_load.
  ds_model() = default;

  // The ranks' threads end after rank 0's session.
  std::unique_ptr<deepslice::LocalRanks> ranks;
  std::unique_ptr<deepslice::Session> owned;
  deepslice::Session* session = nullptr;

  std::mutex tokenizer_mutex;
  ds_tokenizer tokenizer;  // loaded at the first call

  std::mutex run_mutex;
  std::atomic<std::thread::id> runner{};  // who holds run_mutex
  // Under run_mutex.
  std::unique_ptr<deepslice::StepSequences> sequences;  // of ds_step
  std::vector<float> logits;
};

namespace deepslice {

// The model's tokenizer; FailedPrecondition when its plan holds none.
absl::StatusOr<const ds_tokenizer*> TokenizerOf(ds_model& model);

// Calls body(session) when no other call runs the model. FailedPrecondition
// from within a callback of the same model, and on ranks above 0.
template <typename Body>
ds_status RunCall(const char* function, ds_model* model, Body&& body) noexcept;

// ---- Details ---------------------------------------------------------------

// Holds a model while it runs.
class Running {
 public:
  Running(const char* function, ds_model* model);
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  const absl::Status& status() const { return status_; }

 private:
  ds_model* model_ = nullptr;
  std::unique_lock<std::mutex> lock_;
  absl::Status status_;
};

template <typename Body>
ds_status RunCall(const char* function, ds_model* model, Body&& body) noexcept {
  return ApiCall([&]() -> absl::Status {
    const Running running(function, model);
    if (!running.status().ok()) return running.status();
    return body(*model->session);
  });
}

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_API_MODEL_H_
