// The flags of dsrun's verbs.
#ifndef DEEPSLICE_TOOLS_DSRUN_VERBS_H_
#define DEEPSLICE_TOOLS_DSRUN_VERBS_H_

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/dsrun_options.h"

namespace deepslice {

// A verb's flags, bound to options that must outlive it. They may read several
// command lines, one after another.
class DsrunVerb {
 public:
  virtual ~DsrunVerb() = default;
  DsrunVerb(const DsrunVerb&) = delete;
  DsrunVerb& operator=(const DsrunVerb&) = delete;

  // Fills the options, which have their initial values, from what follows the
  // verb; false when help or a version has been printed.
  absl::StatusOr<bool> Read(std::vector<std::string> words);

 protected:
  DsrunVerb(const char* about, const char* name, DsrunOptions* options);
  // Before a line is read: forgets the one before, sets the verb's defaults.
  virtual void Clear() {}
  // Behind the flags: what they can't tell one by one.
  virtual absl::Status Finish() { return absl::OkStatus(); }

  CLI::App app_;
  DsrunOptions& o_;

 private:
  bool has_help_ = false;
};

std::unique_ptr<DsrunVerb> MakeDsrunVerb(DsrunOptions::Verb verb,
                                         DsrunOptions* options);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_DSRUN_VERBS_H_
