// DeepSpeed's inference configuration: what is taken is what a flag takes.
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "schema/base/json.h"
#include "tests/fuzz/fuzz_target.h"
#include "tools/deepspeed_config.h"

namespace deepslice {
namespace {

FUZZ_TARGET(deepspeed_config) {
  const auto config = ReadDeepSpeedConfig("ds.json", input, "");
  if (!config.ok()) return CheckRefusal(config.status());
  for (const DeepSpeedSetting& s : config->settings) {
    FUZZ_CHECK(!s.flag.empty() && !s.value.empty());
    FUZZ_CHECK(config->Find(s.flag) == &s);  // each flag once
    int64_t n = 0;
    FUZZ_CHECK(s.kind != KeyValue::kCount ||
               (absl::SimpleAtoi(s.value, &n) && n >= 1));
  }
  // The type and the degree as a file of their own say the same.
  json::Value again = json::Value::Object();
  if (const DeepSpeedSetting* dtype = config->Find("dtype")) {
    again.Set("dtype", absl::StrCat("torch.", dtype->value));
  }
  if (const DeepSpeedSetting* tp = config->Find("tp")) {
    again.Set("mp_size", tp->value);
  }
  const auto second = ReadDeepSpeedConfig("ds.json", json::Write(again), "");
  FUZZ_CHECK(second.ok());
  for (const DeepSpeedSetting& s : second->settings) {
    FUZZ_CHECK(config->Find(s.flag)->value == s.value);
  }
}

}  // namespace
}  // namespace deepslice
