// --perplexity: how well the model foretells a text.
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/api/deepslice.h"
#include "runtime/api/handle.h"
#include "schema/base/file.h"
#include "schema/base/status_macros.h"
#include "tools/command_line.h"
#include "tools/dsrun_work.h"

namespace deepslice {
namespace {

// A text is tokens of some bytes each; far more than any evaluation text.
constexpr int64_t kMaxTextBytes = int64_t{1} << 30;

// -ln of the probability that `logits` give `id`.
double NegativeLogLikelihood(const float* logits, int64_t vocab, int32_t id) {
  double top = logits[0];
  for (int64_t i = 1; i < vocab; ++i) {
    top = std::max(top, static_cast<double>(logits[i]));
  }
  double sum = 0;
  for (int64_t i = 0; i < vocab; ++i) sum += std::exp(logits[i] - top);
  return top + std::log(sum) - logits[id];
}

class PerplexityWork final : public Work {
 public:
  explicit PerplexityWork(const DsrunOptions& o)
      : path_(*o.perplexity), window_(o.window) {}

  absl::StatusOr<RunLimits> Limits(const Plan& plan) override {
    // As many windows as a step's tokens touch.
    const int64_t step = CompiledCeiling(plan, "T");
    return RunLimits{.max_batch = (step + window_ - 1) / window_ + 1};
  }
  absl::Status Run(Session& session) override;

 private:
  const std::string path_;
  const int64_t window_;
};

absl::Status PerplexityWork::Run(Session& session) {
  if (window_ > session.max_seq_len()) {
    return absl::FailedPreconditionError(
        absl::StrCat("--window is ", window_, "; the sequence ceiling is ",
                     session.max_seq_len()));
  }
  DS_ASSIGN_OR_RETURN(const std::string text, ReadFile(path_, kMaxTextBytes));
  DS_ASSIGN_OR_RETURN(const Tokenizer* tokenizer, session.tokenizer());
  DS_ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                      tokenizer->Encode(text, {.add_special = false}));
  // Windows from position 0 each, without overlap. The last token of a window
  // foretells the first of the next, so a window counts when that one exists.
  const int64_t windows =
      ids.empty() ? 0 : (static_cast<int64_t>(ids.size()) - 1) / window_;
  if (windows == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        path_, ": the text has ", ids.size(),
        " tokens; at least --window + 1 = ", window_ + 1, " are needed"));
  }
  std::vector<ds_ids> sequences;
  for (int64_t w = 0; w < windows; ++w) {
    sequences.push_back({&ids[w * window_], static_cast<size_t>(window_)});
  }
  // Each row foretells the token behind its own.
  struct Sum {
    const std::vector<int32_t>& ids;
    const int64_t window, vocab;
    double sum;
  } total = {ids, window_, session.executor().vocab_size(), 0};
  const Handle<ds_model> model = ModelOver(&session);
  DS_RETURN_IF_ERROR(StatusOf(ds_score(
      model.get(), sequences.data(), sequences.size(),
      [](void* user, size_t w, int64_t position, const float* logits) {
        Sum& t = *static_cast<Sum*>(user);
        t.sum += NegativeLogLikelihood(logits, t.vocab,
                                       t.ids[w * t.window + position + 1]);
      },
      &total)));
  const double mean = total.sum / static_cast<double>(windows * window_);
  if (!std::isfinite(mean)) {
    return absl::InternalError(
        absl::StrCat(path_, ": the mean negative log-likelihood is ", mean,
                     "; the model overflows in this dtype, try another"));
  }
  absl::FPrintF(stderr, "scored %d tokens in %d windows of %d, nll %.6f\n",
                windows * window_, windows, window_, mean);
  return Print(absl::StrFormat("%.6f\n", std::exp(mean)));
}

}  // namespace

std::unique_ptr<Work> NewPerplexityWork(const DsrunOptions& options) {
  return std::make_unique<PerplexityWork>(options);
}

}  // namespace deepslice
