// dsrun tune: makes ahead the choices that the first start on a GPU would make.
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tools/dsrun_work.h"

namespace deepslice {
namespace {

class TuneWork final : public Work {
 public:
  // The plan's own ceilings: what is chosen for them serves lower ones.
  absl::StatusOr<RunLimits> Limits(const Plan& plan) override {
    return RunLimits();
  }
  // Preparing the session has chosen, and kept the choice.
  absl::Status Run(Session& session) override {
    absl::FPrintF(stderr, "tuned in %.1f s\n",
                  absl::ToDoubleSeconds(absl::Now() - start_));
    return absl::OkStatus();
  }

 private:
  const absl::Time start_ = absl::Now();
};

}  // namespace

std::unique_ptr<Work> NewTuneWork(const DsrunOptions&) {
  return std::make_unique<TuneWork>();
}

}  // namespace deepslice
