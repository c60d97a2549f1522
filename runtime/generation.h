// The steps of one Generate call: every request's sequences as one continuous
// batch, a token of each chosen from its row of logits.
#ifndef DEEPSLICE_RUNTIME_GENERATION_H_
#define DEEPSLICE_RUNTIME_GENERATION_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/executor.h"
#include "runtime/request.h"
#include "runtime/scheduler.h"

namespace deepslice {

// At most two steps are under way, the second built before the first one's ids
// are known, where the executor keeps them and draws them all itself. What its
// sampler does not know (penalties, biases, a least length, typical_p,
// logprobs, beams, the first tokens of n answers) is drawn here from the row's
// logits; a step with such a row is waited for before the next is built.
//
// A sequence whose logits hold NaN ends alone, with kError. The requests were
// checked and outlive it.
class Generation {
 public:
  using RunStep = std::function<absl::Status(const StepBatch&)>;
  Generation(const ScheduleLimits& limits, Executor* executor,
             const std::vector<Request>* requests);

  // Completions in the order of requests, n of each.
  absl::StatusOr<std::vector<Completion>> Run(const RunStep& run_step);

 private:
  // Of one sequence of the scheduler, by its number.
  struct Branch {
    int request = 0;
    int answer = 0;      // of the request
    int completion = 0;  // unused with beams
    int search = -1;     // of searches_, with beams
    int forks = 0;       // that go off at its first token
    SamplingParams sampling;
    // Of a penalty, while it runs; a search's lies with its first branch.
    std::unique_ptr<TokenHistory> history;
    int64_t drawn = 0;  // ids asked for, those under way included
    bool done = false;
  };
  struct Search {
    BeamSearch beams;
    int first_branch = 0;
    std::vector<int> branch_of;  // by live beam
  };
  struct FlightRow {
    Scheduler::Row row;
    bool on_host;  // drawn here
  };
  struct Flight {
    std::vector<FlightRow> rows;
    int64_t step = 0;
    bool on_host = false;  // one of the rows is
    bool ahead = false;    // ids were appended before they were known
  };

  void AddRequest(int request, const ScheduleLimits& limits);
  const Request& RequestOf(const Branch& b) const {
    return requests_[b.request];
  }
  bool DrawsOnHost(const Branch& b) const;
  // The branch's, made at the first call; nullptr where no penalty needs one.
  TokenHistory* HistoryOf(Branch* b) const;

  // Starts the next step, if any token is left to run.
  absl::Status Launch(const RunStep& run_step);
  // Takes the ids of the oldest step under way.
  absl::Status Land();
  // Asks for the ids of all steps under way, which nobody wants: a later run
  // would take them for its own.
  void Abandon();

  // The row of logits as the branch's edits leave it; `logits` where there are
  // none. Valid until the next call.
  const float* Edited(const Request& r, const TokenHistory* history,
                      int64_t drawn, const float* logits);
  absl::StatusOr<int32_t> Draw(Branch* b, const float* logits,
                               int64_t position);
  // A first token for each of the request's sequences in this group.
  absl::Status TakeFirst(int sequence, const float* logits, int64_t position,
                         int64_t step);
  absl::Status TakeFromLogits(int sequence, const float* logits,
                              int64_t position, int64_t step);
  void Take(int sequence, int32_t id, const float* logits, bool appended);
  absl::Status TakeBeamRow(int sequence, const float* logits);
  void StepBeams(Search* search);
  void EndSearch(Search* search);
  // Ends a sequence with an error: a beam with all beams of its search.
  void Fail(int sequence, int64_t position, int64_t step,
            const absl::Status& why);
  void FinishBranch(int sequence);

  Executor& executor_;
  const std::vector<Request>& requests_;
  const int64_t vocab_;
  const bool ahead_;
  Scheduler scheduler_;
  std::vector<Branch> branches_;
  std::vector<std::unique_ptr<Search>> searches_;
  std::vector<int> first_completion_;  // by request
  std::vector<Completion> completions_;
  std::vector<SamplerRecord> samplers_;
  std::vector<float> edited_, logprobs_;  // [vocab], where needed
  std::vector<int32_t> scratch_;
  Flight flights_[2];
  int64_t launched_ = 0, landed_ = 0;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_GENERATION_H_
