// What the flags say of the chat template.
#ifndef DEEPSLICE_TOOLS_CHAT_SETUP_H_
#define DEEPSLICE_TOOLS_CHAT_SETUP_H_

#include "absl/status/statusor.h"
#include "runtime/api/chat_prompt.h"
#include "runtime/plan.h"
#include "tools/dsrun_options.h"

namespace deepslice {

// Of the plan in options.plan: options.chat_template names one of its
// templates, or a file. NotFound when it is neither.
absl::StatusOr<ChatChoice> ChatChoiceOf(const Plan& plan,
                                        const DsrunOptions& options);
// Of the template in the file options.plan, without a plan.
absl::StatusOr<ChatChoice> ChatChoiceOfFile(const DsrunOptions& options);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_CHAT_SETUP_H_
