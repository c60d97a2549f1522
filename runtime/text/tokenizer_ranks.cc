// Reads files of ranks ("aGVsbG8= 31373" a line), as tiktoken keeps them.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/text/byte_level.h"
#include "runtime/text/split_scanner.h"
#include "runtime/text/tokenizer_builder.h"
#include "runtime/text/tokenizer_config.h"
#include "runtime/text/tokenizer_tables.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// A token beside the ranks. An id below 0 counts from the end of the ranks: -1
// is the first id after them.
struct Special {
  absl::string_view text;
  int64_t id;
};
constexpr Special kGpt2Special[] = {{"<|endoftext|>", 50256}};
constexpr Special kCl100kSpecial[] = {{"<|endoftext|>", 100257},
                                      {"<|fim_prefix|>", 100258},
                                      {"<|fim_middle|>", 100259},
                                      {"<|fim_suffix|>", 100260},
                                      {"<|endofprompt|>", 100276}};
constexpr Special kO200kSpecial[] = {{"<|endoftext|>", 199999},
                                     {"<|endofprompt|>", 200018}};
// Qwen's first models; then <|extra_0|> to <|extra_204|>.
constexpr Special kQwenSpecial[] = {
    {"<|endoftext|>", -1}, {"<|im_start|>", -2}, {"<|im_end|>", -3}};
// Llama 3.1's names; Llama 3 has reserved tokens at some of these ids.
constexpr Special kLlama3Special[] = {{"<|begin_of_text|>", -1},
                                      {"<|end_of_text|>", -2},
                                      {"<|reserved_special_token_0|>", -3},
                                      {"<|reserved_special_token_1|>", -4},
                                      {"<|finetune_right_pad_id|>", -5},
                                      {"<|reserved_special_token_2|>", -6},
                                      {"<|start_header_id|>", -7},
                                      {"<|end_header_id|>", -8},
                                      {"<|eom_id|>", -9},
                                      {"<|eot_id|>", -10},
                                      {"<|python_tag|>", -11}};

struct Encoding {
  absl::string_view name;
  const absl::string_view* pattern;
  const Special* special;
  size_t specials;
  // Numbered tokens after them: text before the number, first one, count.
  absl::string_view reserved;
  int64_t first_reserved;
  int64_t reserved_count;
  absl::string_view bos;
  absl::string_view eos;
};
constexpr Encoding kEncodings[] = {
    {"gpt2", &kGpt2Pattern, kGpt2Special, 1, "", 0, 0, "", "<|endoftext|>"},
    {"r50k_base", &kGpt2Pattern, kGpt2Special, 1, "", 0, 0, "",
     "<|endoftext|>"},
    {"p50k_base", &kGpt2Pattern, kGpt2Special, 1, "", 0, 0, "",
     "<|endoftext|>"},
    {"cl100k_base", &kCl100kPattern, kCl100kSpecial, 5, "", 0, 0, "",
     "<|endoftext|>"},
    {"o200k_base", &kO200kPattern, kO200kSpecial, 2, "", 0, 0, "",
     "<|endoftext|>"},
    {"llama3", &kLlama3Pattern, kLlama3Special, 11, "<|reserved_special_token_",
     3, 245, "<|begin_of_text|>", "<|end_of_text|>"},
    {"qwen", &kQwen2Pattern, kQwenSpecial, 3, "<|extra_", 0, 205, "",
     "<|endoftext|>"},
};

absl::StatusOr<const Encoding*> EncodingOf(absl::string_view name) {
  for (const Encoding& e : kEncodings) {
    if (e.name == name) return &e;
  }
  const std::string names =
      absl::StrJoin(kEncodings, ", ", [](std::string* out, const Encoding& e) {
        absl::StrAppend(out, e.name);
      });
  return absl::InvalidArgumentError(absl::StrCat(
      name.empty() ? "nothing says by which pattern its text is cut"
                   : absl::StrCat("the pattern \"", name, "\" is not known"),
      "; known are ", names, ": name one with --tiktoken-pattern"));
}

class Reader {
 public:
  Reader(const Encoding& encoding, const json::Value& config)
      : encoding_(encoding), config_(config) {}

  absl::StatusOr<TokenizerTables> Read(absl::string_view text) {
    DS_RETURN_IF_ERROR(ReadRanks(text));
    if (const int32_t missing = builder_.CountMissingBytes(); missing > 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          missing,
          " of the 256 bytes have no rank; the file is cut or no file "
          "of ranks: copy it again"));
    }
    bool declared = false;
    DS_RETURN_IF_ERROR(AddDeclaredTokens(config_, &builder_, &declared));
    if (!declared) DS_RETURN_IF_ERROR(AddSpecial());
    spec_.bos_id = encoding_.bos.empty() ? -1 : builder_.Find(encoding_.bos);
    spec_.eos_id = builder_.Find(encoding_.eos);
    DS_RETURN_IF_ERROR(
        NameSpecialTokens(config_, builder_, &spec_, &tables_.notes));
    if (spec_.bos_id >= 0) spec_.prefix_ids = {spec_.bos_id};
    std::vector<std::string> by_design;
    DS_RETURN_IF_ERROR(PlaceSpecialTokens(config_, &spec_, &by_design));
    builder_.Finish(&spec_);
    DS_RETURN_IF_ERROR(MakeMerges());
    spec_.ignore_merges = true;  // a word that has a rank is that token
    PreTokenizerStep split;
    split.kind = PreTokenizerKind::kSplit;
    split.pattern = std::string(*encoding_.pattern);
    split.is_regex = true;
    PreTokenizerStep bytes;
    spec_.pre_tokenizers = {split, bytes};
    spec_.decoders = {{DecoderKind::kByteLevel}};
    tables_.bytes = SerializeTokenizer(spec_);
    return std::move(tables_);
  }

 private:
  absl::Status ReadRanks(absl::string_view text) {
    builder_.Expect(std::count(text.begin(), text.end(), '\n') + 1);
    for (size_t line = 1; !text.empty(); ++line) {
      const size_t end = std::min(text.find('\n'), text.size());
      absl::string_view row = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (!row.empty() && row.back() == '\r') row.remove_suffix(1);
      if (row.empty()) continue;
      const size_t space = row.find(' ');
      std::string token;
      int64_t rank = 0;
      if (space == row.npos ||
          !absl::Base64Unescape(row.substr(0, space), &token) ||
          token.empty() || !absl::SimpleAtoi(row.substr(space + 1), &rank)) {
        return absl::InvalidArgumentError(
            absl::StrCat("line ", line,
                         ": must be a token in base64, a space and its rank; "
                         "copy the file again"));
      }
      std::string written;
      AppendByteLevel(token, &written);
      DS_RETURN_IF_ERROR(
          Annotate(builder_.AddModelToken(written, rank), "line ", line));
      tokens_.emplace(std::move(token), static_cast<int32_t>(rank));
    }
    if (tokens_.empty()) {
      return absl::InvalidArgumentError("holds no ranks; copy the file again");
    }
    return absl::OkStatus();
  }

  absl::Status AddSpecial() {
    const int64_t ranks = builder_.vocab_size();
    AddedToken token;
    token.special = true;
    for (size_t i = 0; i < encoding_.specials; ++i) {
      const Special& s = encoding_.special[i];
      DS_RETURN_IF_ERROR(builder_.AddAddedToken(
          s.text, s.id < 0 ? ranks - 1 - s.id : s.id, token));
    }
    const int64_t next = ranks + static_cast<int64_t>(encoding_.specials);
    for (int64_t i = 0; i < encoding_.reserved_count; ++i) {
      DS_RETURN_IF_ERROR(builder_.AddAddedToken(
          absl::StrCat(encoding_.reserved, encoding_.first_reserved + i, "|>"),
          next + i, token));
    }
    return absl::OkStatus();
  }

  // Any two neighbours that together have a rank merge, lowest rank first.
  absl::Status MakeMerges() {
    std::vector<std::pair<int32_t, absl::string_view>> order;
    for (const auto& [token, rank] : tokens_) order.emplace_back(rank, token);
    std::sort(order.begin(), order.end());
    for (const auto& [rank, token] : order) {
      for (size_t cut = 1; cut < token.size(); ++cut) {
        const auto left = tokens_.find(token.substr(0, cut));
        if (left == tokens_.end()) continue;
        const auto right = tokens_.find(token.substr(cut));
        if (right == tokens_.end()) continue;
        const bool same =
            !spec_.merges.empty() && spec_.merges.back().merged == rank;
        spec_.merges.push_back({left->second, right->second, rank, same});
        if (static_cast<int64_t>(spec_.merges.size()) >
            limits::kTokenizerMerges) {
          return absl::InvalidArgumentError(absl::StrCat(
              "the ranks give more than ", limits::kTokenizerMerges,
              " merges; no more are allowed"));
        }
      }
    }
    return absl::OkStatus();
  }

  const Encoding& encoding_;
  const json::Value& config_;
  absl::flat_hash_map<std::string, int32_t> tokens_;
  TokenizerBuilder builder_;
  TokenizerSpec spec_;
  TokenizerTables tables_;
};

}  // namespace

absl::StatusOr<TokenizerTables> ReadTokenizerRanks(
    absl::string_view text, absl::string_view encoding,
    const json::Value& tokenizer_config) {
  DS_ASSIGN_OR_RETURN(const Encoding* known, EncodingOf(encoding));
  return Reader(*known, tokenizer_config).Read(text);
}

}  // namespace deepslice
