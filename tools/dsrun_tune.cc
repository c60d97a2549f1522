// dsrun tune: times the algorithms of a plan's matrix products at leisure, and
// keeps the choices for later runs.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schema/base/status_macros.h"
#include "tools/command_line.h"
#include "tools/dsrun_work.h"

namespace deepslice {
namespace {

// Long enough for all candidates of any model's shapes.
constexpr double kSeconds = 60;
constexpr int kCandidates = 16, kRounds = 5;

class TuneWork final : public Work {
 public:
  // The plan's own ceilings: what is chosen for them serves lower ones.
  absl::StatusOr<RunLimits> Limits(const Plan& plan) override {
    return RunLimits();
  }

  absl::Status Run(Session& session) override {
    if (session.cuda() == nullptr) {
      return absl::FailedPreconditionError(absl::StrCat(
          session.folder(),
          ": nothing to tune on the CPU; a GPU's products are what is tuned"));
    }
    std::string lines;
    TuneOptions tune = {.seconds = kSeconds,
                        .candidates = kCandidates,
                        .rounds = kRounds,
                        .again = true};
    tune.report = [&lines](const GemmShape& shape, int64_t rows,
                           double first_us, double best_us) {
      absl::StrAppendFormat(&lines,
                            "%d x %d, %d rows: %.1f us, before %.1f us\n",
                            shape.n, shape.k, rows, best_us, first_us);
    };
    DS_RETURN_IF_ERROR(session.cuda()->Tune(tune));
    return Print(lines);
  }
};

}  // namespace

std::unique_ptr<Work> NewTuneWork(const DsrunOptions&) {
  return std::make_unique<TuneWork>();
}

}  // namespace deepslice
