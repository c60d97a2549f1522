// DeepSpeed's inference configuration (what init_inference takes as `config`)
// as flags of ours.
#ifndef DEEPSLICE_TOOLS_DEEPSPEED_CONFIG_H_
#define DEEPSLICE_TOOLS_DEEPSPEED_CONFIG_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/deepspeed_keys.h"

namespace deepslice {

// A key's value as that of a flag.
struct DeepSpeedSetting {
  std::string key;   // as the file spells it: "tp.tp_size"
  std::string flag;  // without dashes: "tp"
  std::string value;
  KeyUse use;  // kFlag, kRunFlag
  KeyValue kind;
};

struct DeepSpeedConfig {
  std::string path;
  std::vector<DeepSpeedSetting> settings;  // in the order of the table
  // `checkpoint` is the list of files itself; its setting has `path`.
  bool holds_checkpoint = false;
  std::vector<std::string> notes;  // what a user should know

  const DeepSpeedSetting* Find(absl::string_view flag) const;
};

// Reads the configuration `text`, which stands in the file `path`. `dtype` is
// the type that was typed beside it ("int8"), or empty.
//
// As DeepSpeed does: names and aliases are alike; a value "auto" is one that is
// not given; a deprecated key counts as the one in its place, and both together
// are an error, as is a key of nobody. Beyond it, a key and its alias with
// different values are an error, and what would silently do nothing is noted.
// InvalidArgument "PATH: KEY: ..." for what is wrong; Unimplemented for what is
// sound and can't be had.
absl::StatusOr<DeepSpeedConfig> ReadDeepSpeedConfig(absl::string_view path,
                                                    absl::string_view text,
                                                    absl::string_view dtype);

// The file's, of at most limits::kConfigFileBytes.
absl::StatusOr<DeepSpeedConfig> ReadDeepSpeedConfigFile(
    const std::string& path, absl::string_view dtype);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_DEEPSPEED_CONFIG_H_
