#include "tools/foreign_words.h"

#include "absl/types/span.h"
#include "tools/flag_aliases.h"

namespace deepslice {
namespace {

struct ForeignWord {
  absl::string_view word;  // without dashes
  absl::string_view answer;
};

constexpr absl::string_view kNoServer =
    "there is no server; --prompts -, --json and libdeepslice serve programs";
constexpr absl::string_view kWholePlan =
    "a plan runs whole on what it was compiled for: dscompile --target";
constexpr absl::string_view kPlannedMemory =
    "memory is planned: dscompile --device-memory, --max-batch, --max-seq-len";
constexpr absl::string_view kNoDownload =
    "nothing is downloaded; give a folder or a file that is here";
constexpr absl::string_view kMergeAdapters =
    "adapters are not applied; merge them into the checkpoint before";
constexpr absl::string_view kGenerates =
    "without a verb it generates: dsrun PLAN -p TEXT";
constexpr absl::string_view kOfDsplan = "that is a verb of dsplan";
constexpr absl::string_view kOfDscompile =
    "plans are made by dscompile SRC -o PLAN";

// Our own names first: flags that a plan's making decided.
constexpr ForeignWord kFlags[] = {
    {"tp", "the plan has its ranks: dscompile --tp"},
    {"dtype", "the plan has its type: dscompile --dtype"},
    {"target", "the plan has its targets: dscompile --target"},
    {"ngl", kWholePlan},
    {"n-gpu-layers", kWholePlan},
    {"gpu-layers", kWholePlan},
    {"port", kNoServer},
    {"host", kNoServer},
    {"i", "--chat talks in the terminal"},
    {"interactive", "--chat talks in the terminal"},
    {"gpu-memory-utilization", kPlannedMemory},
    {"trust-remote-code", "no code of a checkpoint is ever run"},
    {"pipeline-parallel-size", "there is no pipeline; --tp cuts every layer"},
    {"hf-repo", kNoDownload},
    {"hf-file", kNoDownload},
    {"lora", kMergeAdapters},
    {"lora-modules", kMergeAdapters},
    {"enable-lora", kMergeAdapters},
};

constexpr ForeignWord kVerbs[] = {
    {"serve", kNoServer},      {"server", kNoServer},     {"run", kGenerates},
    {"generate", kGenerates},  {"complete", kGenerates},  {"verify", kOfDsplan},
    {"inspect", kOfDsplan},    {"explain", kOfDsplan},    {"diff", kOfDsplan},
    {"compile", kOfDscompile}, {"convert", kOfDscompile},
};

absl::string_view Find(absl::Span<const ForeignWord> words,
                       absl::string_view word) {
  for (const ForeignWord& w : words) {
    if (w.word == word) return w.answer;
  }
  return "";
}

}  // namespace

absl::string_view AnswerToFlag(absl::string_view flag) {
  flag = flag.substr(0, flag.find('='));
  for (const FlagAlias& a : FlagAliases()) {
    if (a.alias == flag) return Find(kFlags, a.flag);
  }
  const size_t begin = flag.find_first_not_of('-');
  if (begin == 0 || begin == flag.npos) return "";
  return Find(kFlags, flag.substr(begin));
}

absl::string_view AnswerToVerb(absl::string_view verb) {
  return Find(kVerbs, verb);
}

}  // namespace deepslice
