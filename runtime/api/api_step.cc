// Steps of a caller's own sequences, and logits of whole texts, through the C
// interface.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/api/api_call.h"
#include "runtime/api/model.h"
#include "runtime/api/step_sequences.h"
#include "runtime/scheduler.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

StepSequences& SequencesOf(ds_model* model) {
  if (model->sequences == nullptr) {
    const Executor& executor = model->session->executor();
    model->sequences = std::make_unique<StepSequences>(
        ScheduleLimits::Of(executor), executor.limits().max_seq_len,
        executor.vocab_size());
  }
  return *model->sequences;
}

absl::StatusOr<std::vector<StepSequences::Feed>> ReadFeeds(const ds_feed* feeds,
                                                           size_t num_feeds) {
  std::vector<StepSequences::Feed> out;
  for (size_t i = 0; i < num_feeds; ++i) {
    const ds_feed& f = feeds[i];
    if (f.ids == nullptr && f.num_ids > 0) {
      return NullArgument(absl::StrCat("feed ", i), "ids");
    }
    StepSequences::Feed& feed = out.emplace_back();
    feed.sequence = f.sequence;
    feed.ids = absl::MakeConstSpan(f.ids, f.num_ids);
    switch (f.rows) {
      case DS_LAST_ROW:
        feed.rows = StepSequences::Rows::kLast;
        break;
      case DS_ALL_ROWS:
        feed.rows = StepSequences::Rows::kAll;
        break;
      case DS_NO_ROW:
        feed.rows = StepSequences::Rows::kNone;
        break;
      default:
        return absl::InvalidArgumentError(absl::StrCat(
            "feed ", i, ": rows is ", static_cast<int>(f.rows),
            "; DS_LAST_ROW, DS_ALL_ROWS and DS_NO_ROW are allowed"));
    }
  }
  return out;
}

}  // namespace
}  // namespace deepslice

using namespace deepslice;  // NOLINT: the interface's functions have no other

ds_status ds_step(ds_model* model, const ds_feed* feeds, size_t num_feeds,
                  const float** logits, size_t* num_rows) noexcept {
  if (logits != nullptr) *logits = nullptr;
  if (num_rows != nullptr) *num_rows = 0;
  return RunCall("ds_step", model, [&](Session& session) -> absl::Status {
    if (feeds == nullptr && num_feeds > 0) {
      return NullArgument("ds_step", "feeds");
    }
    DS_ASSIGN_OR_RETURN(const auto read, ReadFeeds(feeds, num_feeds));
    model->logits.clear();
    DS_RETURN_IF_ERROR(SequencesOf(model).Run(
        read,
        [&](const StepBatch& batch) { return session.engine().Step(batch); },
        &model->logits));
    const auto vocab = static_cast<size_t>(session.executor().vocab_size());
    if (logits != nullptr) *logits = model->logits.data();
    if (num_rows != nullptr) *num_rows = model->logits.size() / vocab;
    return absl::OkStatus();
  });
}

ds_status ds_truncate(ds_model* model, int32_t sequence,
                      int64_t length) noexcept {
  return RunCall("ds_truncate", model, [&](Session&) {
    return Annotate(SequencesOf(model).Truncate(sequence, length),
                    "ds_truncate");
  });
}

int64_t ds_sequence_length(ds_model* model, int32_t sequence) noexcept {
  int64_t length = -1;
  RunCall("ds_sequence_length", model, [&](Session&) {
    length = SequencesOf(model).length(sequence);
    return absl::OkStatus();
  });
  return length;
}

ds_status ds_score(ds_model* model, const ds_ids* sequences,
                   size_t num_sequences, ds_row_callback row,
                   void* user) noexcept {
  return RunCall("ds_score", model, [&](Session& session) -> absl::Status {
    if (sequences == nullptr && num_sequences > 0) {
      return NullArgument("ds_score", "sequences");
    }
    if (row == nullptr) return NullArgument("ds_score", "row");
    std::vector<std::vector<int32_t>> texts;
    for (size_t i = 0; i < num_sequences; ++i) {
      const ds_ids& s = sequences[i];
      if (s.ids == nullptr && s.num_ids > 0) {
        return NullArgument(absl::StrCat("sequence ", i), "ids");
      }
      texts.emplace_back(s.ids, s.ids + s.num_ids);
    }
    model->sequences.reset();  // their cache is used
    return session.engine().Score(
        texts, [&](int sequence, int64_t position, const float* logits) {
          row(user, static_cast<size_t>(sequence), position, logits);
        });
  });
}
