#include "tools/dsrun_options.h"

#include <utility>

#include "schema/base/status_macros.h"
#include "tools/command_line.h"
#include "tools/dsrun_verbs.h"

namespace deepslice {
namespace {

constexpr std::pair<absl::string_view, DsrunOptions::Verb> kVerbs[] = {
    {"bench", DsrunOptions::Verb::kBench},
    {"chat", DsrunOptions::Verb::kGenerate},
    {"classify", DsrunOptions::Verb::kClassify},
    {"embed", DsrunOptions::Verb::kEmbed},
    {"fill-mask", DsrunOptions::Verb::kFillMask},
    {"selftest", DsrunOptions::Verb::kSelftest},
    {"template", DsrunOptions::Verb::kTemplate},
    {"tokenize", DsrunOptions::Verb::kTokenize},
    {"tune", DsrunOptions::Verb::kTune}};

}  // namespace

DsrunCommandLine::DsrunCommandLine() = default;
DsrunCommandLine::~DsrunCommandLine() = default;

absl::StatusOr<std::optional<DsrunOptions>> DsrunCommandLine::Parse(
    int argc, const char* const* argv) {
  DsrunOptions& o = options_;
  o = DsrunOptions();
  std::vector<std::string> words = NormalizedArguments(argc, argv);
  if (const auto text = TakeFlag("--spawned", &words)) {
    DS_ASSIGN_OR_RETURN(o.spawned, SpawnedRank::FromFlag(*text));
  }
  o.rank_flags.spawn = TakeFlag("--spawn", &words);
  o.arguments = words;
  o.rank_flags.rank = TakeFlag("--rank", &words);
  o.rank_flags.world_size = TakeFlag("--world-size", &words);
  o.rank_flags.local_rank = TakeFlag("--local-rank", &words);

  for (const auto& [name, verb] : kVerbs) {
    if (words.empty() || words[0] != name) continue;
    o.verb = verb;
    words.erase(words.begin());
    // In front: what follows a `--` is no flag.
    if (name == "chat") words.insert(words.begin(), "--chat");
    break;
  }
  std::unique_ptr<DsrunVerb>& verb = verbs_[o.verb];
  if (verb == nullptr) verb = MakeDsrunVerb(o.verb, &o);
  DS_ASSIGN_OR_RETURN(const bool go_on, verb->Read(std::move(words)));
  if (!go_on) return std::nullopt;
  return o;
}

absl::StatusOr<std::optional<DsrunOptions>> ParseDsrunOptions(
    int argc, const char* const* argv) {
  return DsrunCommandLine().Parse(argc, argv);
}

}  // namespace deepslice
