#include "runtime/generation.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "runtime/philox.h"
#include "schema/base/check.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// Of an answer, from the start: far more requests than run together may wait.
constexpr int64_t kReservedTokens = 4096;

bool Holds(const std::vector<int32_t>& ids, int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

Verdict Tell(const Request& r, const NewToken& token) {
  if (r.watch) return r.watch(token);
  if (!r.on_token || r.on_token(token.id)) return Verdict::kGoOn;
  return Verdict::kCancel;
}

bool EditsRows(const Request& r) {
  return !r.edits.empty() || r.min_new_tokens > 0;
}

}  // namespace

Generation::Generation(const ScheduleLimits& limits, Executor* executor,
                       const std::vector<Request>* requests)
    : executor_(*executor),
      requests_(*requests),
      vocab_(executor->vocab_size()),
      // Every decoding sequence is in every step: ~r names a row of the step
      // just before.
      ahead_(executor->keeps_sampled() &&
             limits.max_step_tokens >= limits.max_batch),
      scheduler_(limits, Scheduler::Mode::kGenerate) {
  for (size_t i = 0; i < requests_.size(); ++i) {
    AddRequest(static_cast<int>(i), limits);
  }
  samplers_.reserve(limits.max_step_tokens);
  for (Flight& f : flights_) f.rows.reserve(limits.max_step_tokens);
}

void Generation::AddRequest(int request, const ScheduleLimits& limits) {
  const Request& r = requests_[request];
  const auto prompt = static_cast<int64_t>(r.prompt.size());
  const int64_t total = prompt + r.max_new_tokens;
  first_completion_.push_back(static_cast<int>(completions_.size()));
  for (int i = 0; i < r.n; ++i) {
    Completion& c = completions_.emplace_back();
    if (r.beams.width == 1) {
      c.ids.reserve(std::min(r.max_new_tokens, kReservedTokens));
    }
  }
  const bool beams = r.beams.width > 1;
  if (EditsRows(r) || beams) edited_.resize(vocab_);
  if (beams) logprobs_.resize(vocab_);
  if (!FitsRecord(r.sampling) || r.n > 1 || EditsRows(r) || r.logprobs >= 0) {
    scratch_.reserve(vocab_);
  }

  // Answers that find no place at once are groups of their own.
  for (int answer = 0; answer < (beams ? 1 : r.n);) {
    int width = beams ? r.beams.width : r.n - answer;
    while (width > 1 && !scheduler_.Fits(prompt, total, width)) --width;
    const int first = scheduler_.Add(r.prompt, total, width, r.source);
    DS_CHECK(first == static_cast<int>(branches_.size()));
    for (int i = 0; i < width; ++i) {
      Branch& b = branches_.emplace_back();
      b.request = request;
      if (!beams) b.answer = answer + i;
      b.completion = first_completion_.back() + b.answer;
      b.sampling = r.sampling;
      b.sampling.seed = SeedOfAnswer(r.sampling.seed, b.answer);
      if (beams) b.search = static_cast<int>(searches_.size());
    }
    if (beams) {
      searches_.push_back(std::make_unique<Search>(Search{
          BeamSearch(r.beams, r.stop_ids, r.max_new_tokens), first, {first}}));
      return;
    }
    branches_[first].forks = width - 1;
    answer += width;
  }
}

bool Generation::DrawsOnHost(const Branch& b) const {
  const Request& r = RequestOf(b);
  return b.search >= 0 || !r.edits.empty() || r.logprobs >= 0 ||
         !FitsRecord(b.sampling) || b.drawn < r.min_new_tokens ||
         (b.forks > 0 && b.drawn == 0);
}

absl::Status Generation::Launch(const RunStep& run_step) {
  StepBatch batch;
  if (!scheduler_.Next(&batch)) return absl::OkStatus();
  Flight& flight = flights_[launched_ % 2];
  flight.rows.clear();
  flight.on_host = false;
  flight.step = launched_++;
  samplers_.clear();
  for (const Scheduler::Row& row : scheduler_.rows()) {
    const Branch& b = branches_[row.sequence];
    flight.rows.push_back({row, DrawsOnHost(b)});
    flight.on_host |= flight.rows.back().on_host;
    samplers_.push_back(RecordOf(b.sampling, row.position + 1));
  }
  flight.ahead = ahead_ && !flight.on_host;
  batch.samplers = samplers_;
  DS_RETURN_IF_ERROR(run_step(batch));
  for (size_t r = 0; r < flight.rows.size(); ++r) {
    const int sequence = flight.rows[r].row.sequence;
    Branch& b = branches_[sequence];
    if (++b.drawn < RequestOf(b).max_new_tokens && flight.ahead) {
      scheduler_.Append(sequence, ~static_cast<int32_t>(r));
    }
  }
  return absl::OkStatus();
}

TokenHistory* Generation::HistoryOf(Branch* b) const {
  const Request& r = RequestOf(*b);
  if (b->history == nullptr && r.edits.has_penalty()) {
    const auto prompt = static_cast<int64_t>(r.prompt.size());
    b->history = std::make_unique<TokenHistory>(
        vocab_, std::min(vocab_, prompt + r.max_new_tokens));
    for (const int32_t id : r.prompt) b->history->AddPrompt(id);
  }
  return b->history.get();
}

const float* Generation::Edited(const Request& r, const TokenHistory* history,
                                int64_t drawn, const float* logits) {
  const bool too_short = drawn < r.min_new_tokens;
  if (r.edits.empty() && !too_short) return logits;
  if (logits != edited_.data()) {
    std::copy_n(logits, vocab_, edited_.begin());
  }
  static const TokenHistory* const kNone = new TokenHistory(0, 0);
  EditLogits(
      r.edits, history == nullptr ? *kNone : *history,
      too_short ? absl::MakeConstSpan(r.stop_ids) : absl::Span<const int32_t>(),
      edited_.data());
  return edited_.data();
}

absl::StatusOr<int32_t> Generation::Draw(Branch* b, const float* logits,
                                         int64_t position) {
  DS_RETURN_IF_ERROR(LargestLogit(logits, vocab_).status());
  // The one that is drawn is counted already.
  const float* row = Edited(RequestOf(*b), HistoryOf(b), b->drawn - 1, logits);
  const auto id =
      SampleToken(row, vocab_, b->sampling, position + 1, &scratch_);
  if (id.ok() || row == logits) return id;
  return absl::InvalidArgumentError(
      "penalties, biases and the least number of tokens leave no token to "
      "choose");
}

absl::Status Generation::TakeFirst(int sequence, const float* logits,
                                   int64_t position, int64_t step) {
  DS_RETURN_IF_ERROR(LargestLogit(logits, vocab_).status());
  // All fork before one of them goes on or ends.
  std::vector<int> sequences = {sequence};
  for (int& forks = branches_[sequence].forks; forks > 0; --forks) {
    sequences.push_back(scheduler_.Fork(sequence));
    branches_[sequences.back()].drawn = 1;
  }
  for (const int s : sequences) {
    const auto id = Draw(&branches_[s], logits, position);
    if (id.ok()) {
      Take(s, *id, logits, /*appended=*/false);
    } else {
      Fail(s, position, step, id.status());
    }
  }
  return absl::OkStatus();
}

absl::Status Generation::TakeFromLogits(int sequence, const float* logits,
                                        int64_t position, int64_t step) {
  Branch& b = branches_[sequence];
  if (b.search >= 0) return TakeBeamRow(sequence, logits);
  if (b.forks > 0) return TakeFirst(sequence, logits, position, step);
  DS_ASSIGN_OR_RETURN(const int32_t id, Draw(&b, logits, position));
  Take(sequence, id, logits, /*appended=*/false);
  return absl::OkStatus();
}

void Generation::Take(int sequence, int32_t id, const float* logits,
                      bool appended) {
  Branch& b = branches_[sequence];
  const Request& r = RequestOf(b);
  Completion& done = completions_[b.completion];
  const bool stop = Holds(r.stop_ids, id);
  TokenLogprobs logprobs;
  if (r.logprobs >= 0) {
    logprobs = LogprobsOf(logits, vocab_, id, r.logprobs);
  }
  const Verdict verdict =
      Tell(r, {b.answer, id, stop, r.logprobs >= 0 ? &logprobs : nullptr});
  if (!stop) {
    done.ids.push_back(id);
    if (r.logprobs >= 0) done.logprobs.push_back(std::move(logprobs));
    if (b.history != nullptr) b.history->AddAnswer(id);
  }
  if (stop || verdict == Verdict::kStop) {
    done.finish = FinishReason::kStop;
  } else if (verdict == Verdict::kCancel) {
    done.finish = FinishReason::kCancelled;
  } else if (static_cast<int64_t>(done.ids.size()) == r.max_new_tokens) {
    done.finish = FinishReason::kLength;
  } else {
    if (!appended) scheduler_.Append(sequence, id);
    return;
  }
  FinishBranch(sequence);
}

void Generation::FinishBranch(int sequence) {
  branches_[sequence].done = true;
  branches_[sequence].history = nullptr;
  scheduler_.Finish(sequence);
}

absl::Status Generation::TakeBeamRow(int sequence, const float* logits) {
  Branch& b = branches_[sequence];
  Search& search = *searches_[b.search];
  DS_RETURN_IF_ERROR(LargestLogit(logits, vocab_).status());
  LogSoftmax(logits, vocab_, logprobs_.data());
  const auto at =
      std::find(search.branch_of.begin(), search.branch_of.end(), sequence);
  const int beam = static_cast<int>(at - search.branch_of.begin());
  const absl::Span<const int32_t> ids = search.beams.ids(beam);
  TokenHistory* history = HistoryOf(&branches_[search.first_branch]);
  if (history != nullptr) {
    history->Clear();
    for (const int32_t id : RequestOf(b).prompt) history->AddPrompt(id);
    for (const int32_t id : ids) history->AddAnswer(id);
  }
  search.beams.AddRow(
      beam,
      Edited(RequestOf(b), history, static_cast<int64_t>(ids.size()),
             logprobs_.data()),
      vocab_);
  if (search.beams.all_rows_in()) StepBeams(&search);
  return absl::OkStatus();
}

void Generation::StepBeams(Search* search) {
  const absl::Span<const BeamSearch::Next> next = search->beams.Advance();
  if (next.empty()) return EndSearch(search);
  // A parent's first child goes on in its place; others fork from it, before a
  // token is appended, into places that beams without children leave.
  const std::vector<int> parents = search->branch_of;
  std::vector<bool> has_child(parents.size(), false);
  for (const BeamSearch::Next& n : next) has_child[n.parent] = true;
  for (size_t p = 0; p < parents.size(); ++p) {
    if (!has_child[p]) scheduler_.Drop(parents[p]);
  }
  std::vector<bool> taken(parents.size(), false);
  search->branch_of.clear();
  for (const BeamSearch::Next& n : next) {
    const int parent = parents[n.parent];
    search->branch_of.push_back(taken[n.parent] ? scheduler_.Fork(parent)
                                                : parent);
    taken[n.parent] = true;
  }
  for (size_t i = 0; i < next.size(); ++i) {
    scheduler_.Append(search->branch_of[i], next[i].id);
  }
}

void Generation::EndSearch(Search* search) {
  const Branch& first = branches_[search->first_branch];
  const Request& r = RequestOf(first);
  const std::vector<BeamSearch::Answer>& answers = search->beams.answers();
  for (int i = 0; i < r.n; ++i) {
    Completion& c = completions_[first.completion + i];
    if (i < static_cast<int>(answers.size())) {
      c.ids = answers[i].ids;
      c.score = answers[i].score;
      c.finish =
          answers[i].stopped ? FinishReason::kStop : FinishReason::kLength;
    } else {
      c.finish = FinishReason::kError;
      c.error = absl::InvalidArgumentError(absl::StrCat(
          "beam search ended with ", answers.size(), " answers of the ", r.n,
          " asked for; fewer tokens "
          "must be forbidden"));
    }
  }
  branches_[search->first_branch].history = nullptr;
  scheduler_.FinishGroup(search->first_branch);
}

void Generation::Fail(int sequence, int64_t position, int64_t step,
                      const absl::Status& why) {
  const Branch& b = branches_[sequence];
  const absl::Status error(
      why.code(), absl::StrCat("step ", step, ", position ", position, ": ",
                               why.message()));
  const auto fail = [&](int completion) {
    completions_[completion].finish = FinishReason::kError;
    completions_[completion].error = error;
  };
  // With a search all its beams end, before the fork all that would have gone
  // off.
  const bool group = b.search >= 0 || b.forks > 0;
  const int count = b.search >= 0 ? RequestOf(b).n : 1 + b.forks;
  for (int i = 0; i < count; ++i) fail(b.completion + i);
  if (!group) return FinishBranch(sequence);
  for (Branch& other : branches_) {
    other.done |= b.search >= 0 && other.search == b.search;
  }
  branches_[sequence].done = true;
  scheduler_.FinishGroup(sequence);
}

absl::Status Generation::Land() {
  const Flight& flight = flights_[landed_++ % 2];
  if (flight.rows.empty()) return absl::OkStatus();
  DS_ASSIGN_OR_RETURN(const absl::Span<const int32_t> ids, executor_.Sampled());
  const float* logits = nullptr;
  if (flight.on_host) {
    DS_ASSIGN_OR_RETURN(logits, executor_.Logits());
  }
  for (size_t r = 0; r < flight.rows.size(); ++r) {
    const FlightRow& row = flight.rows[r];
    // It ended while this step was under way.
    if (branches_[row.row.sequence].done) continue;
    absl::Status status;
    if (row.on_host) {
      status = TakeFromLogits(row.row.sequence,
                              logits + static_cast<int64_t>(r) * vocab_,
                              row.row.position, flight.step);
    } else if (ids[r] == kNoSampledId) {
      status = absl::InternalError(
          "the logits hold NaN or infinity; the model overflows in this "
          "dtype, try another");
    } else {
      Take(row.row.sequence, ids[r], nullptr, flight.ahead);
    }
    if (!status.ok()) {
      Fail(row.row.sequence, row.row.position, flight.step, status);
    }
  }
  return absl::OkStatus();
}

void Generation::Abandon() {
  while (landed_ < launched_) {
    if (flights_[landed_++ % 2].rows.empty()) continue;
    executor_.Sampled().IgnoreError();
  }
}

absl::StatusOr<std::vector<Completion>> Generation::Run(
    const RunStep& run_step) {
  const absl::Cleanup abandon = [this] { Abandon(); };
  while (true) {
    if (launched_ == landed_) DS_RETURN_IF_ERROR(Launch(run_step));
    if (launched_ == landed_) return std::move(completions_);
    const Flight& last = flights_[(launched_ - 1) % 2];
    // A prompt's piece without rows keeps nothing back.
    if (ahead_ && !last.on_host && launched_ - landed_ == 1) {
      DS_RETURN_IF_ERROR(Launch(run_step));
    }
    DS_RETURN_IF_ERROR(Land());
  }
}

}  // namespace deepslice
