// The kinds of work that dsrun does on rank 0. Each prints its product to
// stdout and everything else to stderr.
#ifndef DEEPSLICE_TOOLS_DSRUN_WORK_H_
#define DEEPSLICE_TOOLS_DSRUN_WORK_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/api/session.h"
#include "runtime/executor.h"
#include "runtime/plan.h"
#include "tools/dsrun_options.h"

namespace deepslice {

// A piece of work over a session.
class Work {
 public:
  virtual ~Work() = default;
  // Before the ranks meet, on rank 0: what needs the folder alone.
  virtual absl::Status Before(const Manifest& manifest) {
    return absl::OkStatus();
  }
  // What it needs at most, known before any memory is taken; reads its input
  // files. 0 where the plan's ceiling is meant.
  virtual absl::StatusOr<RunLimits> Limits(const Plan& plan) = 0;
  virtual absl::Status Run(Session& session) = 0;
  // Whether it runs plans that encode; else it is refused with one.
  virtual bool takes_encoders() const { return false; }
};

// The plan's program that encodes; nullptr when it generates.
const fb::Program* EncodeProgram(const Plan& plan);

std::unique_ptr<Work> NewGenerateWork(const DsrunOptions& options);
std::unique_ptr<Work> NewChatWork(const DsrunOptions& options);
std::unique_ptr<Work> NewFeedWork(const DsrunOptions& options);
std::unique_ptr<Work> NewPerplexityWork(const DsrunOptions& options);
std::unique_ptr<Work> NewEmbedWork(const DsrunOptions& options);
std::unique_ptr<Work> NewClassifyWork(const DsrunOptions& options);
std::unique_ptr<Work> NewFillMaskWork(const DsrunOptions& options);
std::unique_ptr<Work> NewBenchWork(const DsrunOptions& options);
std::unique_ptr<Work> NewTuneWork(const DsrunOptions& options);
std::unique_ptr<Work> NewSelftestWork(const DsrunOptions& options);

// dsrun template and dsrun tokenize: need no session.
absl::Status RenderTemplate(const DsrunOptions& options);
absl::Status Tokenize(const DsrunOptions& options);

// Set by SIGINT while a conversation handles it.
bool TakeInterrupt();
// From now on SIGINT sets a flag for TakeInterrupt instead of ending the
// process. Call once.
absl::Status HandleInterrupts();
// Readable while TakeInterrupt would say yes; after HandleInterrupts.
int InterruptFd();

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_DSRUN_WORK_H_
