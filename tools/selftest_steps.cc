#include "tools/selftest_steps.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "kernels/reference.h"
#include "schema/base/checked_math.h"
#include "schema/base/dtype.h"
#include "schema/base/status_macros.h"
#include "schema/encoding.h"
#include "tools/step_meaning.h"

namespace deepslice {
namespace {

constexpr int kSequences = 8, kPrefill = 2;
constexpr int kPerKind = 2;  // results of a kind, in each program

// What a step runs, for people and as its kind; "" of a collective.
std::string KindOf(const Plan& plan, const fb::Target& target,
                   const fb::Step& step) {
  if (step.kind() == fb::StepKind::Launch) {
    const fb::Kernel& k = *target.kernels()->Get(step.launch()->kernel());
    return k.label() != nullptr ? k.label()->str() : k.entry()->str();
  }
  if (step.kind() == fb::StepKind::Gemm) {
    const fb::Weight& w = *plan.fb().weights()->Get(step.gemm()->weight());
    return absl::StrCat("gemm ", absl::StrJoin(*w.shape(), "x"));
  }
  const fb::CpuOpStep* op = CpuOpOf(step);
  if (op == nullptr) return "";
  std::string kind(FindOpByTag(op->op())->spelling);
  for (const fb::OperandRef* o : *op->operands()) {
    if (o->kind() != fb::OperandKind::Weight) continue;
    const auto& shape = *plan.fb().weights()->Get(o->index())->shape();
    absl::StrAppend(&kind, " ", absl::StrJoin(shape, "x"));
    break;
  }
  return kind;
}

// Of results in a type, as a part of the largest: what is stored is rounded,
// and so is what a kernel keeps between its parts.
double ToleranceOf(DType type) {
  switch (type) {
    case DType::kBF16:
      return 2e-2;
    case DType::kF16:
      return 4e-3;
    default:
      return 1e-4;
  }
}

class StepTest {
 public:
  StepTest(const Plan& plan, const fb::Program& meaning, Executor* executor,
           int threads, SelftestReport* report)
      : plan_(plan),
        executor_(*executor),
        meaning_(plan, meaning, threads),
        report_(*report) {
    const int64_t tokens = executor->limits().max_step_tokens;
    sequences_ = static_cast<int>(std::max<int64_t>(
        1, std::min<int64_t>(
               {kSequences, executor->limits().max_batch, tokens / kPrefill})));
    prefill_ = static_cast<int>(std::min<int64_t>(kPrefill, tokens));
    cache_ = 0;
    for (const fb::State* s : *plan.fb().states()) {
      const auto e = static_cast<Encoding>(s->encoding());
      if (e == Encoding::kF16) cache_ = std::max(cache_, 4e-3);
      if (e == Encoding::kBF16) cache_ = std::max(cache_, 3e-2);
    }
  }

  absl::Status Run() {
    std::vector<int> lengths(sequences_);
    DS_RETURN_IF_ERROR(RunBatch(sequences_, prefill_, &lengths));
    for (int count = 1;; count = std::min(2 * count, sequences_)) {
      DS_RETURN_IF_ERROR(RunBatch(count, 1, &lengths));
      if (count == sequences_) return absl::OkStatus();
    }
  }

  void Report() {
    for (const auto& [kind, found] : kinds_) {
      report_.Add(absl::StrCat("step ", kind),
                  absl::StrCat(found.count,
                               found.count == 1 ? " result is" : " results are",
                               " the reference's"),
                  found.status);
    }
  }

 private:
  struct Kind {
    int count = 0;
    absl::Status status;
  };

  // `tokens` more of each of the first `count` sequences.
  absl::Status RunBatch(int count, int tokens, std::vector<int>* lengths) {
    KeptBatch batch;
    for (int s = 0; s < count; ++s) {
      for (int t = 0; t < tokens; ++t) {
        batch.ids.push_back(static_cast<int32_t>(
            (s * 7919 + (*lengths)[s] * 104729 + 17) % executor_.vocab_size()));
        batch.positions.push_back((*lengths)[s]++);
        batch.slots.push_back(s);
      }
      batch.rows.push_back(static_cast<int32_t>(batch.ids.size()) - 1);
    }
    const int64_t blocks =
        executor_.blocks_per_seq() * executor_.limits().max_batch;
    for (int64_t i = 0; i < blocks; ++i) {
      batch.blocks.push_back(static_cast<int32_t>(i));
    }
    // Every other sequence may grow as long as the run allows.
    for (int64_t s = 0; s < executor_.limits().max_batch; ++s) {
      batch.horizons.push_back(static_cast<int32_t>(
          s % 2 == 0 ? executor_.limits().max_seq_len : kStepTestTokens));
    }
    std::map<int, RefTensor> made;  // by step
    executor_.SetObserver(
        [&](int step, const float* data, int64_t rows, int64_t cols) {
          RefTensor& t = made[step];
          t.shape = {rows, cols};
          t.data.assign(data, data + rows * cols);
        });
    const absl::Status ran = executor_.Execute(batch.view());
    executor_.SetObserver(nullptr);
    DS_RETURN_IF_ERROR(ran);
    const fb::Program* program = executor_.last_program();
    if (program == nullptr) {
      return absl::UnimplementedError("this back end names no program");
    }
    return Compare(*program, batch, std::move(made));
  }

  const fb::Target& TargetOf(const fb::Program& program) const {
    for (const fb::Target* t : *plan_.fb().targets()) {
      for (const fb::Program* p : *t->programs()) {
        if (p == &program) return *t;
      }
    }
    return *plan_.fb().targets()->Get(0);
  }

  absl::Status Compare(const fb::Program& program, const KeptBatch& batch,
                       std::map<int, RefTensor> made) {
    meaning_.Begin(batch);
    std::map<int, int> steps;  // by buffer of what it means
    for (auto& [i, value] : made) {
      const int b = meaning_.BufferOf(program.steps()->Get(i)->name()->str());
      if (b < 0 || steps.count(b) > 0) continue;
      const auto [rows, cols] = meaning_.ShapeOf(b);
      if (value.cols() != cols || value.rows() < rows) continue;
      value.shape[0] = rows;  // a bucket's program has rows that nobody wants
      value.data.resize(rows * cols);
      steps[b] = i;
      meaning_.Give(b, std::move(value));
    }
    DS_RETURN_IF_ERROR(meaning_.FillCaches());
    const fb::Target& target = TargetOf(program);
    std::map<std::string, int> seen;
    for (const auto& [b, i] : steps) {
      if (meaning_.IsCollective(b)) continue;
      const fb::Step& step = *program.steps()->Get(i);
      const std::string name = step.name()->str();
      const std::string kind = KindOf(plan_, target, step);
      if (kind.empty() || seen[kind] >= kPerKind) continue;
      ++seen[kind];
      const auto want = meaning_.Compute(b);
      DS_RETURN_IF_ERROR(Annotate(want.status(), "%", name));
      Kind& k = kinds_[kind];
      ++k.count;
      const DType type =
          static_cast<DType>(program.buffers()->Get(OutputOf(step))->dtype());
      k.status.Update(
          Annotate(CompareValues(meaning_.Made(b), *want,
                                 std::max(ToleranceOf(type), cache_)),
                   program.name()->str(), ": step ", i, ", %", name));
    }
    return absl::OkStatus();
  }

  static absl::Status CompareValues(const RefTensor& got, const RefTensor& want,
                                    double tolerance) {
    double largest = 0;
    for (const double v : want.data) largest = std::max(largest, std::fabs(v));
    for (size_t i = 0; i < want.data.size(); ++i) {
      // NaN loses every comparison.
      if (std::fabs(got.data[i] - want.data[i]) <=
          tolerance * largest + 1e-30) {
        continue;
      }
      return absl::InternalError(absl::StrFormat(
          "row %d, column %d is %g, the reference has %g; allowed is a "
          "difference of %.1e",
          static_cast<int64_t>(i) / want.cols(),
          static_cast<int64_t>(i) % want.cols(), got.data[i], want.data[i],
          tolerance * largest));
    }
    return absl::OkStatus();
  }

  const Plan& plan_;
  Executor& executor_;
  StepMeaning meaning_;
  SelftestReport& report_;
  int sequences_ = 1, prefill_ = 1;
  double cache_ = 0;  // what caches round, as a part of the largest result
  std::map<std::string, Kind> kinds_;
};

}  // namespace

void TestSteps(const Plan& plan, const fb::Program& meaning, Executor* executor,
               int threads, SelftestReport* report) {
  StepTest test(plan, meaning, executor, threads, report);
  absl::Status status = plan.FillSynthetic(threads);
  if (status.ok()) status = test.Run();
  test.Report();
  if (!status.ok()) report->Fail("steps", status);
}

}  // namespace deepslice
