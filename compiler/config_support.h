// What a config.json may ask for that no family supports, and what is worth a
// note.
#ifndef DEEPSLICE_COMPILER_CONFIG_SUPPORT_H_
#define DEEPSLICE_COMPILER_CONFIG_SUPPORT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/base/json.h"
#include "schema/ops.h"

namespace deepslice {

// Before a policy is matched: InvalidArgument when the config is not an object,
// Unimplemented for nested models (but for `sections`, parts that a policy
// reads) and quantised weights.
absl::Status CheckConfigSupported(const json::Value& config,
                                  const std::vector<std::string>& sections);

// Older files have a section twice, as text_config and text_config_dict. The
// published code takes the second whole, with its defaults, where it is there.
json::Value WithOlderSections(const json::Value& config,
                              const std::vector<std::string>& sections);

// Notes on remote code, the type that the weights are said to have, and special
// ids outside the vocabulary; InvalidArgument for those of the wrong kind,
// Unimplemented for a type that is not supported.
absl::Status NoteConfig(const json::Value& config, int64_t vocab_size,
                        std::vector<std::string>* notes);

// An activation by its published name. Unimplemented for a published one that
// is not supported, InvalidArgument with the nearest for an unknown one;
// `place` is the config's key.
absl::StatusOr<Act> ActivationOf(absl::string_view name,
                                 absl::string_view place);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CONFIG_SUPPORT_H_
