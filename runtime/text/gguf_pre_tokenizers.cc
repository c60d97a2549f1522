// What the names in tokenizer.ggml.pre stand for: the components of the
// tokenizer.json from which such files are converted. Names whose origin is not
// sure are left out, because another cut gives other ids without a sign.
#include <initializer_list>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/text/gguf_vocabulary.h"
#include "runtime/text/split_scanner.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

enum Flags : uint8_t {
  kNfc = 1,
  kDigits = 2,       // digits alone, before the patterns
  kDigitsAfter = 4,  // after them
  kIgnoreMerges = 8,
  kBos = 16,  // where the file does not say
  kSep = 32,
};

// Patterns in the order of their Splits.
enum class Cut : uint8_t {
  kGpt2,
  kLlama3,
  kQwen2,
  kQwen35,
  kO200k,
  kTekken,
  kBailing,
  kSeedCoder,
  kBloom,
  kFalcon,
  kDeepseekCoder,
  kDeepseekV3,
};

struct Name {
  absl::string_view name;
  Cut cut;
  uint8_t flags;
};
constexpr Name kNames[] = {
    {"gpt-2", Cut::kGpt2, 0},
    {"phi-2", Cut::kGpt2, 0},
    {"jais", Cut::kGpt2, 0},
    {"exaone4", Cut::kGpt2, 0},
    {"trillion", Cut::kGpt2, 0},
    {"jina-es", Cut::kGpt2, 0},
    {"jina-de", Cut::kGpt2, 0},
    {"jina-v2-es", Cut::kGpt2, 0},
    {"jina-v2-de", Cut::kGpt2, 0},
    {"roberta-bpe", Cut::kGpt2, kSep},
    {"jina-v1-en", Cut::kGpt2, kSep},
    {"jina-v2-code", Cut::kGpt2, kSep},
    {"mpt", Cut::kGpt2, kNfc},
    {"olmo", Cut::kGpt2, kNfc},
    {"modern-bert", Cut::kGpt2, kNfc},
    {"smollm", Cut::kGpt2, kDigits},
    {"starcoder", Cut::kGpt2, kDigits},
    {"refact", Cut::kGpt2, kDigits},
    {"codeshell", Cut::kGpt2, kDigits},
    {"exaone", Cut::kGpt2, kDigits},
    {"minerva-7b", Cut::kGpt2, kDigits},
    {"command-r", Cut::kGpt2, kDigits | kNfc},
    {"llama-bpe", Cut::kLlama3, kIgnoreMerges | kBos},
    {"llama3", Cut::kLlama3, kIgnoreMerges | kBos},
    {"llama-v3", Cut::kLlama3, kIgnoreMerges | kBos},
    {"falcon3", Cut::kLlama3, kIgnoreMerges | kBos},
    {"lfm2", Cut::kLlama3, kIgnoreMerges | kBos},
    {"smaug-bpe", Cut::kLlama3, 0},
    {"dbrx", Cut::kLlama3, 0},
    {"glm4", Cut::kLlama3, 0},
    {"chatglm-bpe", Cut::kLlama3, 0},
    {"qwen2", Cut::kQwen2, kNfc},
    {"megrez", Cut::kQwen2, kNfc},
    {"deepseek-r1-qwen", Cut::kQwen2, 0},
    {"hunyuan", Cut::kQwen2, 0},
    {"grok-2", Cut::kQwen2, 0},
    {"qwen35", Cut::kQwen35, kNfc},
    {"gpt-4o", Cut::kO200k, 0},
    {"llama4", Cut::kO200k, 0},
    {"minimax-m2", Cut::kO200k, 0},
    {"tekken", Cut::kTekken, kIgnoreMerges | kBos},
    {"bailingmoe", Cut::kBailing, 0},
    {"bailingmoe2", Cut::kBailing, 0},
    {"llada-moe", Cut::kBailing, 0},
    {"seed-coder", Cut::kSeedCoder, 0},
    {"bloom", Cut::kBloom, 0},
    {"gpt3-finnish", Cut::kBloom, 0},
    {"poro-chat", Cut::kBloom, 0},
    {"viking", Cut::kBloom, kDigitsAfter},
    {"falcon", Cut::kFalcon, 0},
    {"deepseek-coder", Cut::kDeepseekCoder, kDigitsAfter},
    {"deepseek-v3", Cut::kDeepseekV3, 0},
    {"hunyuan-dense", Cut::kDeepseekV3, 0},
};

std::vector<absl::string_view> PatternsOf(Cut cut) {
  constexpr absl::string_view kIdeographs =
      "[\xE4\xB8\x80-\xE9\xBE\xA5\xE0\xA0\x80-\xE4\xB8\x80"
      "\xEA\xB0\x80-\xED\x9F\xBF]+";  // U+4E00-9FA5, 0800-4E00, AC00-D7FF
  switch (cut) {
    case Cut::kGpt2:
    case Cut::kFalcon:
      return {};  // ByteLevel's own
    case Cut::kLlama3:
      return {kLlama3Pattern};
    case Cut::kQwen2:
      return {kQwen2Pattern};
    case Cut::kQwen35:
      return {
          "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|"
          "\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
          "\\s+(?!\\S)|\\s+"};
    case Cut::kO200k:
      return {kO200kPattern};
    case Cut::kTekken:
      return {
          "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*"
          "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|[^\\r\\n\\p{L}\\p{N}]?"
          "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+"
          "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+"
          "[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"};
    case Cut::kBailing:
      return {
          "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}|"
          " ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"};
    case Cut::kSeedCoder:
      return {
          "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
          "\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|\\s*[\\r\\n]+|\\s+(?!\\S)|"
          "\\s+"};
    case Cut::kBloom:
      // Full stops and commas of Latin, Chinese, Hindi, Urdu and Arabic.
      return {
          " ?[^(\\s|.,!?\xE2\x80\xA6\xE3\x80\x82\xEF\xBC\x8C\xE3\x80\x81"
          "\xE0\xA5\xA4\xDB\x94\xD8\x8C)]+"};
    case Cut::kDeepseekCoder:
      return {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", kIdeographs};
    case Cut::kDeepseekV3:
      return {"\\p{N}{1,3}",
              // U+4E00-9FA5, 3040-309F, 30A0-30FF
              "[\xE4\xB8\x80-\xE9\xBE\xA5\xE3\x81\x80-\xE3\x82\x9F"
              "\xE3\x82\xA0-\xE3\x83\xBF]+",
              "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|"
              "[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+"
              "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"};
  }
  return {};
}

PreTokenizerStep Split(absl::string_view pattern) {
  PreTokenizerStep step;
  step.kind = PreTokenizerKind::kSplit;
  step.pattern = std::string(pattern);
  step.is_regex = true;
  return step;
}

PreTokenizerStep Digits(bool individual) {
  PreTokenizerStep step;
  step.kind = PreTokenizerKind::kDigits;
  step.individual_digits = individual;
  return step;
}

}  // namespace

absl::StatusOr<GgufPreTokenizer> ReadGgufPreTokenizer(const GgufVocabulary& v,
                                                      TokenizerSpec* spec) {
  const json::Value* pre = v.Get("pre");
  const std::string name =
      pre && pre->is_string() ? pre->as_string() : std::string();
  for (const Name& known : kNames) {
    if (name != known.name) continue;
    const std::vector<absl::string_view> patterns = PatternsOf(known.cut);
    auto& steps = spec->pre_tokenizers;
    if (known.flags & kNfc) spec->normalizers = {{NormalizerKind::kNfc}};
    if (known.flags & kDigits) steps.push_back(Digits(true));
    for (absl::string_view pattern : patterns) steps.push_back(Split(pattern));
    if (known.flags & kDigitsAfter) steps.push_back(Digits(true));
    PreTokenizerStep bytes;
    bytes.use_regex = patterns.empty();
    DS_ASSIGN_OR_RETURN(bytes.add_prefix_space,
                        v.Flag("add_space_prefix", false));
    if (known.cut == Cut::kFalcon) {
      PreTokenizerStep punctuation;
      punctuation.kind = PreTokenizerKind::kPunctuation;
      punctuation.behavior = SplitBehavior::kContiguous;
      steps = {punctuation, bytes, Digits(false), Split("[0-9][0-9][0-9]")};
    } else {
      steps.push_back(bytes);
    }
    return GgufPreTokenizer{(known.flags & kIgnoreMerges) != 0,
                            (known.flags & kBos) != 0,
                            (known.flags & kSep) != 0};
  }
  const std::string names = absl::StrJoin(
      kNames, ", ",
      [](std::string* out, const Name& n) { absl::StrAppend(out, n.name); });
  return absl::UnimplementedError(absl::StrCat(
      GgufVocabulary::Key("pre"), ": ",
      pre ? absl::StrCat("pre-tokenizer \"", name, "\" is not known")
          : "is missing, so the cut into words is not known",
      "; known are ", names, "; a guess would give wrong ids"));
}

}  // namespace deepslice
