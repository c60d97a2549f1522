// Every key of DeepSpeed's inference configuration and what becomes of it here:
// the one table that the reader, `dscompile deepspeed-keys` and
// compiler/DEEPSPEED.md follow.
#ifndef DEEPSLICE_TOOLS_DEEPSPEED_KEYS_H_
#define DEEPSLICE_TOOLS_DEEPSPEED_KEYS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace deepslice {

// What a key may hold.
enum class KeyValue {
  kSwitch,         // true or false
  kCount,          // a whole number from 1
  kWord,           // a text
  kDtype,          // one of DeepSpeed's names of types
  kPath,           // "": not given
  kCheckpoint,     // a path, or the list of files itself
  kInjection,      // {class: names of linears}, or as text
  kObject,         // of Python; null in a file
  kGroup,          // keys of its own
  kSwitchOrGroup,  // `moe`
  kAny,
};

// What becomes of it.
enum class KeyUse {
  kFlag,     // dscompile's flag `to`
  kRunFlag,  // dsrun's flag `to`
  kGroup,    // the keys in it count
  kMoved,    // deprecated: counts as the key `to`
  kAlways,   // no answer and no plan depends on it
  kIgnored,  // changes nothing here, which is said when it isn't the default
  kChecked,  // holds against others; see ReadDeepSpeedConfig
  kDefault,  // must be the default
  kRefused,  // DeepSpeed refuses it, too
};

struct DeepSpeedKey {
  absl::string_view path;   // "tensor_parallel.tp_size"
  absl::string_view alias;  // of the path's last name; may be empty
  KeyValue value;
  absl::string_view initial;  // DeepSpeed's default, as JSON
  KeyUse use;
  absl::string_view to;   // a flag without dashes, or a key
  absl::string_view how;  // what happens, or what to use
};

// Keys of DeepSpeed in its order, each group's behind the group; then those
// that it has no more, or never had in this file.
absl::Span<const DeepSpeedKey> DeepSpeedKeys();

// The table for a terminal; rows of Markdown; JSON.
std::string DeepSpeedKeysText();
std::string DeepSpeedKeysMarkdown();
std::string DeepSpeedKeysJson();

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_DEEPSPEED_KEYS_H_
