// Values of DeepSpeed's inference configuration, read as pydantic reads them.
#ifndef DEEPSLICE_TOOLS_DEEPSPEED_VALUE_H_
#define DEEPSLICE_TOOLS_DEEPSPEED_VALUE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/base/json.h"
#include "tools/deepspeed_keys.h"

namespace deepslice {

// A value as an error quotes it: JSON, cut when it is long.
std::string Shown(const json::Value& v);

// null, {} or [].
bool IsEmpty(const json::Value& v);

// A bool; 1, "on" and "yes" are true, too. nullopt for another value.
std::optional<bool> ReadSwitch(const json::Value& v);

// A number from 1; 4.0 and "4" are 4. nullopt for another value.
std::optional<int64_t> ReadCount(const json::Value& v);

// The first of the type's names, "fp16" for "torch.half"; "" for no type of
// DeepSpeed's.
absl::string_view ReadDtype(const json::Value& v);

// {"T5Block": ["SelfAttention.o", "DenseReluDense.wo"]} as --injection has it:
// "T5Block=SelfAttention.o,DenseReluDense.wo", the names of several classes
// together; a text as it stands. InvalidArgument says what must be.
absl::StatusOr<std::string> InjectionText(const json::Value& v);

// What a value of the key "must be", when `v` is not; else "".
std::string WrongKind(const DeepSpeedKey& key, const json::Value& v);

// Whether `v`, of the key's kind, is DeepSpeed's default.
bool IsDefault(const DeepSpeedKey& key, const json::Value& v);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_DEEPSPEED_VALUE_H_
