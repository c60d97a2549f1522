// Encodes the lines of a file again and again on one thread and prints the best
// rate, for tools/bench_tokenizers.py:
//
//   tokenizer_bench TOKENIZER TEXT ROUNDS
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/tokenizer_files.h"
#include "schema/base/file.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

double Seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

absl::Status Bench(const std::string& path, const std::string& text_path,
                   int rounds) {
  const double start = Seconds();
  DS_ASSIGN_OR_RETURN(const TokenizerTables tables,
                      ReadTokenizerFiles(path, {}));
  const double read = Seconds();
  DS_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(tables.bytes));
  const double loaded = Seconds();
  DS_ASSIGN_OR_RETURN(const std::string text, ReadFile(text_path, 1 << 30));
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  double best = 1e30;
  uint64_t digest = 0;
  size_t tokens = 0;
  for (int round = 0; round < rounds; ++round) {
    const double begin = Seconds();
    digest = tokens = 0;
    for (absl::string_view line : lines) {
      DS_ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                          tokenizer->Encode(line));
      tokens += ids.size();
      for (int32_t id : ids) digest = (digest * 31 + id) % 1000000007;
    }
    best = std::min(best, Seconds() - begin);
  }
  std::printf("%.3f MB/s %zu tokens digest %llu read %.3f s load %.3f s\n",
              text.size() / best / 1e6, tokens,
              static_cast<unsigned long long>(digest), read - start,
              loaded - read);
  return absl::OkStatus();
}

}  // namespace
}  // namespace deepslice

int main(int argc, char** argv) {
  int rounds = 0;
  if (argc != 4 || !absl::SimpleAtoi(argv[3], &rounds) || rounds < 1) {
    std::fprintf(stderr, "usage: tokenizer_bench TOKENIZER TEXT ROUNDS\n");
    return 2;
  }
  const absl::Status status = deepslice::Bench(argv[1], argv[2], rounds);
  if (!status.ok()) {
    std::fprintf(stderr, "tokenizer_bench: %s\n",
                 std::string(status.message()).c_str());
    return 1;
  }
  return 0;
}
