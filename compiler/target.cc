#include "compiler/target.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "schema/base/nearest.h"

namespace deepslice {
namespace {

// Sizes from the compute capability tables of NVIDIA's programming guide.
struct Architecture {
  const char* name;  // of machine code
  int major, minor;
  int num_sms;     // of the largest card
  int shared_kib;  // most dynamic shared memory of a block
};
constexpr Architecture kArchitectures[] = {
    {"sm_80", 8, 0, 108, 163},   {"sm_86", 8, 6, 84, 99},
    {"sm_87", 8, 7, 16, 163},    {"sm_89", 8, 9, 142, 99},
    {"sm_90a", 9, 0, 132, 227},  {"sm_100", 10, 0, 148, 227},
    {"sm_103", 10, 3, 160, 227}, {"sm_110", 11, 0, 20, 227},
    {"sm_120", 12, 0, 188, 99},  {"sm_121", 12, 1, 48, 99},
};
// PTX runs on any later card, so it asks for no more than the smallest has.
constexpr int kPtxSharedKib = 99;

// `mib` as nvidia-smi shows a card's whole memory.
struct Card {
  const char* name;
  const char* architecture;
  int num_sms;
  int64_t mib;
};
constexpr Card kCards[] = {
    {"a10", "sm_86", 72, 23028},
    {"a100-40g", "sm_80", 108, 40960},
    {"a100-80g", "sm_80", 108, 81920},
    {"a30", "sm_80", 56, 24576},
    {"a40", "sm_86", 84, 46068},
    {"b200", "sm_100", 148, 183359},
    {"h100", "sm_90a", 132, 81559},
    {"h100-pcie", "sm_90a", 114, 81559},
    {"h200", "sm_90a", 132, 143771},
    {"l4", "sm_89", 58, 23034},
    {"l40s", "sm_89", 142, 46068},
    {"rtx-3090", "sm_86", 82, 24576},
    {"rtx-4090", "sm_89", 128, 24564},
    {"rtx-5090", "sm_120", 170, 32607},
    {"rtx-6000-ada", "sm_89", 142, 49140},
    {"rtx-a6000", "sm_86", 84, 49140},
    {"rtx-pro-6000", "sm_120", 188, 97887},
};

std::string Ptx(const Architecture& a) {
  return absl::StrCat("compute_", a.major, a.minor);
}

// Lower case without spaces, '-' and '_'.
std::string Plain(absl::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c != ' ' && c != '-' && c != '_') out += absl::ascii_tolower(c);
  }
  return out;
}

CompileTarget Make(const Architecture& a, bool ptx) {
  CompileTarget t;
  t.name = ptx ? Ptx(a) : a.name;
  t.gpu.name = t.name;
  t.gpu.major = a.major;
  t.gpu.minor = a.minor;
  t.gpu.ptx = ptx;
  t.gpu.num_sms = a.num_sms;
  t.gpu.shared_bytes =
      1024 * (ptx ? std::min(a.shared_kib, kPtxSharedKib) : a.shared_kib);
  return t;
}

// The capability of "sm75", "compute70", "sm90": 10 * major + minor; else 0.
int CapabilityOf(absl::string_view plain) {
  if (!absl::ConsumePrefix(&plain, "sm") &&
      !absl::ConsumePrefix(&plain, "compute")) {
    return 0;
  }
  int capability = 0;
  return absl::SimpleAtoi(plain, &capability) ? capability : 0;
}

}  // namespace

std::vector<std::string> ArchitectureNames() {
  std::vector<std::string> names;
  for (const Architecture& a : kArchitectures) names.push_back(a.name);
  return names;
}

absl::StatusOr<CompileTarget> ParseTarget(absl::string_view name) {
  const std::string plain = Plain(name);
  if (plain == "cpu") {
    CompileTarget t;
    t.name = "cpu";
    t.cpu = true;
    return t;
  }
  const int capability = CapabilityOf(plain);
  for (const Architecture& a : kArchitectures) {
    if (plain == Plain(a.name)) return Make(a, /*ptx=*/false);
    if (plain == Plain(Ptx(a))) return Make(a, /*ptx=*/true);
    // sm_90 for sm_90a: every card of 9.0 runs both.
    if (absl::StartsWith(plain, "sm") && capability == 10 * a.major + a.minor) {
      CompileTarget t = Make(a, /*ptx=*/false);
      t.note = absl::StrCat("--target ", name, ": compiled as ", a.name,
                            ", which every card of ", a.major, ".", a.minor,
                            " runs");
      return t;
    }
  }
  for (const Card& card : kCards) {
    if (plain != Plain(card.name)) continue;
    for (const Architecture& a : kArchitectures) {
      if (absl::string_view(a.name) != card.architecture) continue;
      CompileTarget t = Make(a, /*ptx=*/false);
      t.gpu.num_sms = card.num_sms;
      t.device_memory = card.mib << 20;
      return t;
    }
  }

  std::vector<std::string> machine = {"cpu"}, cards, known = {"cpu"};
  for (const Architecture& a : kArchitectures) {
    machine.push_back(a.name);
    known.push_back(a.name);
    known.push_back(Ptx(a));
  }
  for (const Card& card : kCards) cards.push_back(card.name);
  const std::string allowed = absl::StrCat(
      absl::StrJoin(machine, ", "),
      "; compute_80 and so on for PTX; cards: ", absl::StrJoin(cards, ", "));
  if (capability > 0 && capability < 80) {
    return absl::UnimplementedError(
        absl::StrCat("--target ", name,
                     ": GPUs before 8.0 lack bf16 and are not "
                     "supported; allowed: ",
                     allowed));
  }
  known.insert(known.end(), cards.begin(), cards.end());
  const std::string nearest = NearestName(absl::AsciiStrToLower(name), known);
  return absl::InvalidArgumentError(absl::StrCat(
      "--target ", name, ": unknown; ",
      nearest.empty() ? "" : absl::StrCat("the nearest is ", nearest, "; "),
      "allowed: ", allowed));
}

}  // namespace deepslice
