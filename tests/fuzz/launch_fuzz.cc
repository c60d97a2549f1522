// Which rank this is: a line for each flag and variable, as NAME=VALUE.
#include <map>
#include <string>

#include "absl/strings/str_split.h"
#include "runtime/launch.h"
#include "runtime/spawn.h"
#include "tests/fuzz/fuzz_target.h"

namespace deepslice {
namespace {

FUZZ_TARGET(launch) {
  std::map<std::string, std::string> variables;
  for (const absl::string_view line : absl::StrSplit(input, '\n')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits('=', 1));
    variables[std::string(parts.first)] = std::string(parts.second);
  }
  const auto flag = [&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
  const auto env = [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  if (const auto text = flag("--spawned")) {
    const auto spawned = SpawnedRank::FromFlag(*text);
    if (spawned.ok()) {
      const auto again = SpawnedRank::FromFlag(spawned->ToFlag());
      FUZZ_CHECK(again.ok() && again->ToFlag() == spawned->ToFlag());
    } else {
      FUZZ_CHECK(!spawned.status().message().empty());
    }
  }
  const RankFlags flags = {flag("--rank"), flag("--world-size"),
                           flag("--local-rank"), flag("--spawn")};
  constexpr int kWorld = 2;
  if (flags.spawn.has_value()) {
    const absl::Status status = CheckSpawn(*flags.spawn, kWorld, "plan");
    if (!status.ok()) CheckRefusal(status);
  }
  const auto place = DiscoverRank(flags, env, kWorld);
  if (!place.ok()) return CheckRefusal(place.status());
  LaunchId(env, "sh 1", "set");
  if (!place->has_value()) return;
  const RankPlace& p = **place;
  FUZZ_CHECK(p.rank >= 0 && p.rank < p.world);
  FUZZ_CHECK(p.local_rank >= 0 && p.local_world >= 1 && p.hosts >= 1);
  LaunchLine(p, env, "host", "set");
  const absl::Status status = CheckPlace(p, kWorld, "plan");
  if (!status.ok()) CheckRefusal(status);
}

}  // namespace
}  // namespace deepslice
