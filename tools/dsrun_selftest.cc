// dsrun selftest: the plan's files, text, kernels and golden sequences on this
// machine.
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "schema/base/status_macros.h"
#include "tools/command_line.h"
#include "tools/dsrun_work.h"
#include "tools/plan_files.h"
#include "tools/progress.h"
#include "tools/selftest_kernels.h"
#include "tools/selftest_report.h"
#include "tools/selftest_steps.h"
#include "tools/selftest_text.h"

namespace deepslice {
namespace {

constexpr int64_t kSequences = 8;  // that run together, where the plan allows

class SelftestWork final : public Work {
 public:
  explicit SelftestWork(const DsrunOptions& o) : options_(o) {}

  // What needs no device and no other rank: all files of all ranks. Ends the
  // run when one is damaged, since nothing behind it would tell more.
  absl::Status Before(const Manifest& manifest) override {
    TestFiles(manifest);
    if (report_.status().ok()) return absl::OkStatus();
    DS_RETURN_IF_ERROR(PrintRows());
    return report_.status();
  }

  absl::StatusOr<RunLimits> Limits(const Plan& plan) override {
    if (plan.fb().encoder() != nullptr) return RunLimits{};
    int64_t longest = kStepTestTokens;
    for (const fb::SelfTest* t : Golden(plan)) {
      longest = std::max<int64_t>(longest, Length(t));
    }
    int64_t most = CompiledCeiling(plan, "B");
    if (plan.fb().states()->size() > 0) {
      most *= plan.fb().states()->Get(0)->block_tokens();
    }
    if (plan.fb().max_positions() > 0) {
      most = std::min(most, plan.fb().max_positions());
    }
    return RunLimits{.max_batch = kSequences,
                     .max_seq_len = std::min(longest, most)};
  }

  bool takes_encoders() const override { return true; }

  absl::Status Run(Session& session) override {
    TestText(session.plan().fb(), &report_);
    TestKernels(session);
    TestGolden(session);
    DS_RETURN_IF_ERROR(PrintRows());
    return report_.status();
  }

 private:
  static std::vector<const fb::SelfTest*> Golden(const Plan& plan) {
    std::vector<const fb::SelfTest*> tests;
    if (plan.fb().self_tests() == nullptr) return tests;
    for (const fb::SelfTest* t : *plan.fb().self_tests()) {
      if (t->prompt() == nullptr || t->prompt()->size() == 0 ||
          t->continuation() == nullptr || t->continuation()->size() == 0) {
        continue;
      }
      tests.push_back(t);
    }
    return tests;
  }
  static int64_t Length(const fb::SelfTest* t) {
    return int64_t{t->prompt()->size()} + t->continuation()->size();
  }

  void TestFiles(const Manifest& manifest) {
    report_.Add("manifest.json", "is as it was written",
                VerifyManifest(options_.plan));
    for (const ManifestFile& f : manifest.files) {
      // A weights file has a hash for each block in its plan, which is faster.
      if (absl::EndsWith(f.name, ".weights")) continue;
      report_.Add(f.name, absl::StrCat("sha256 of ", f.bytes, " bytes"),
                  VerifyFile(options_.plan, f));
    }
    if (!report_.status().ok()) return;
    for (int rank = 0; rank < manifest.world_size; ++rank) {
      const std::string name = RankFileName(rank, ".weights");
      const auto plan =
          Plan::Load(options_.plan, rank, {.check_weights = false});
      if (!plan.ok()) {
        report_.Fail(name, plan.status());
        continue;
      }
      Progress progress(
          !options_.verbosity.quiet && options_.verbosity.progress,
          Progress::Stderr());
      report_.Add(
          name,
          absl::StrCat("xxh3 of ", plan->fb().weights_xxh3()->size(),
                       " blocks"),
          plan->CheckWeights(AvailableCores(), [&](int64_t done, int64_t all) {
            progress.Report(absl::StrCat(name, ": checked"), done, all);
          }));
    }
  }

  void TestKernels(Session& session) {
    const Plan& plan = session.plan();
    const fb::Program* meaning = plan.FindProgram("cpu", fb::ProgramKind::Step);
    const bool encodes = meaning == nullptr && EncodeProgram(plan) != nullptr;
    if (encodes) meaning = EncodeProgram(plan);
    if (meaning == nullptr) meaning = plan.fb().reference();
    if (session.cuda() == nullptr) {
      ThreadPool pool(2);  // work is shared even on one core
      for (const KernelUse& use : KernelUses(plan.fb(), *meaning)) {
        report_.Add(absl::StrCat("kernel ", use.Text()),
                    "equals the reference on random numbers",
                    TestKernel(use, &pool));
      }
    }
    if (plan.fb().encoder() != nullptr) {
      report_.Skip("steps", "of encoders, the kernels are tested alone");
    } else if (plan.world_size() > 1) {
      report_.Skip("steps", "of several ranks, the golden sequences run them");
    } else if (meaning == nullptr) {
      report_.Skip("steps",
                   "the plan does not say what each step means; the golden "
                   "sequences run them");
    } else {
      TestSteps(plan, *meaning, session.mutable_executor(), AvailableCores(),
                &report_);
    }
  }

  void TestGolden(Session& session) {
    const std::vector<const fb::SelfTest*> tests = Golden(session.plan());
    if (session.plan().fb().encoder() != nullptr) {
      report_.Skip("golden sequences", "plans of encoders have none");
      return;
    }
    if (tests.empty()) {
      report_.Skip("golden sequences",
                   "the plan has none: its model is too large for them; "
                   "dscompile --selftest full makes them");
      return;
    }
    std::vector<Request> requests;
    for (const fb::SelfTest* t : tests) {
      Request& r = requests.emplace_back();
      r.prompt.assign(t->prompt()->begin(), t->prompt()->end());
      r.max_new_tokens = t->continuation()->size();
    }
    const auto done = session.engine().Generate(std::move(requests));
    if (!done.ok()) return report_.Fail("golden sequences", done.status());
    size_t tokens = 0;
    for (size_t i = 0; i < tests.size(); ++i) {
      const auto& want = *tests[i]->continuation();
      const std::vector<int32_t>& got = (*done)[i].ids;
      tokens += want.size();
      if (std::equal(want.begin(), want.end(), got.begin(), got.end())) {
        continue;
      }
      return report_.Fail(
          "golden sequences",
          absl::InternalError(absl::StrFormat(
              "sequence %d: %s is continued with %s, the reference has %s", i,
              absl::StrJoin(*tests[i]->prompt(), ","), absl::StrJoin(got, ","),
              absl::StrJoin(want, ","))));
    }
    report_.Pass("golden sequences",
                 absl::StrCat(tokens, " tokens of ", tests.size(),
                              " sequences are the reference's"));
  }

  absl::Status PrintRows() const {
    return Print(options_.json ? json::Write(report_.Json(), 1) + "\n"
                               : report_.Text(UseTerminalCodes(STDOUT_FILENO)));
  }

  const DsrunOptions options_;
  SelftestReport report_;
};

}  // namespace

std::unique_ptr<Work> NewSelftestWork(const DsrunOptions& options) {
  return std::make_unique<SelftestWork>(options);
}

}  // namespace deepslice
