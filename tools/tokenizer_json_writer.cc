#include "tools/tokenizer_json_writer.h"

#include <utility>
#include <vector>

#include "runtime/text/tokenizer_spec.h"
#include "runtime/text/tokenizer_tables.h"
#include "runtime/text/tokenizer_vectors.h"

namespace deepslice {
namespace {

using Json = json::Value;

Json Object(const std::vector<std::pair<const char*, Json>>& members) {
  Json out = Json::Object();
  for (const auto& [key, value] : members) out.Set(key, value);
  return out;
}

absl::optional<Json> Normalizer(const NormalizerStep& step) {
  switch (step.kind) {
    case NormalizerKind::kNfc:
      return Object({{"type", "NFC"}});
    case NormalizerKind::kNfd:
      return Object({{"type", "NFD"}});
    case NormalizerKind::kNfkc:
      return Object({{"type", "NFKC"}});
    case NormalizerKind::kNfkd:
      return Object({{"type", "NFKD"}});
    case NormalizerKind::kLowercase:
      return Object({{"type", "Lowercase"}});
    default:
      return absl::nullopt;
  }
}

const char* BehaviorName(SplitBehavior behavior) {
  switch (behavior) {
    case SplitBehavior::kRemoved:
      return "Removed";
    case SplitBehavior::kIsolated:
      return "Isolated";
    case SplitBehavior::kMergedWithPrevious:
      return "MergedWithPrevious";
    case SplitBehavior::kMergedWithNext:
      return "MergedWithNext";
    case SplitBehavior::kContiguous:
      return "Contiguous";
  }
  return "";
}

absl::optional<Json> PreTokenizer(const PreTokenizerStep& step) {
  switch (step.kind) {
    case PreTokenizerKind::kSplit:
      return Object({{"type", "Split"},
                     {"pattern", Object({{step.is_regex ? "Regex" : "String",
                                          step.pattern}})},
                     {"behavior", BehaviorName(step.behavior)},
                     {"invert", step.invert}});
    case PreTokenizerKind::kDigits:
      return Object(
          {{"type", "Digits"}, {"individual_digits", step.individual_digits}});
    case PreTokenizerKind::kPunctuation:
      return Object(
          {{"type", "Punctuation"}, {"behavior", BehaviorName(step.behavior)}});
    case PreTokenizerKind::kByteLevel:
      return Object({{"type", "ByteLevel"},
                     {"add_prefix_space", step.add_prefix_space},
                     {"trim_offsets", true},
                     {"use_regex", step.use_regex}});
    default:
      return absl::nullopt;
  }
}

// One step, or several as a Sequence; null for none.
template <typename Step, typename Make>
absl::optional<Json> Steps(const std::vector<Step>& steps, const char* list,
                           Make make) {
  std::vector<Json> made;
  for (const Step& step : steps) {
    absl::optional<Json> one = make(step);
    if (!one.has_value()) return absl::nullopt;
    made.push_back(*std::move(one));
  }
  if (made.size() <= 1) return made.empty() ? Json() : made[0];
  Json items = Json::Array();
  for (Json& one : made) items.Add(std::move(one));
  return Object({{"type", "Sequence"}, {list, std::move(items)}});
}

Json AddedTokens(const TokenizerSpec& spec) {
  Json list = Json::Array();
  for (const AddedToken& t : spec.added) {
    list.Add(Object({{"id", static_cast<int64_t>(t.id)},
                     {"content", spec.token(t.id)},
                     {"single_word", t.single_word},
                     {"lstrip", t.lstrip},
                     {"rstrip", t.rstrip},
                     {"normalized", t.normalized},
                     {"special", t.special}}));
  }
  return list;
}

absl::optional<Json> Bpe(const TokenizerSpec& spec) {
  Json vocab = Json::Object();
  for (int32_t id = 0; id < spec.vocab_size(); ++id) {
    if ((spec.token_bits[id] & kTokenInModel) == 0) continue;
    // Not Set, which would look for the name among all.
    vocab.members().emplace_back(std::string(spec.token(id)),
                                 Json(static_cast<int64_t>(id)));
  }
  Json merges = Json::Array();
  for (const BpeMerge& m : spec.merges) {
    if (m.left >= spec.vocab_size() || m.right >= spec.vocab_size() ||
        m.same_rank) {
      return absl::nullopt;
    }
    Json pair = Json::Array();
    pair.Add(spec.token(m.left));
    pair.Add(spec.token(m.right));
    merges.Add(std::move(pair));
  }
  Json out = Object(
      {{"type", "BPE"},
       {"dropout", Json()},
       {"unk_token", spec.unk_id < 0 ? Json() : Json(spec.token(spec.unk_id))},
       {"continuing_subword_prefix", Json()},
       {"end_of_word_suffix", Json()},
       {"fuse_unk", spec.fuse_unk},
       {"byte_fallback", spec.byte_fallback},
       {"ignore_merges", spec.ignore_merges}});
  out.Set("vocab", std::move(vocab));
  out.Set("merges", std::move(merges));
  return out;
}

// Tokens around a text; ByteLevel, which changes no ids, for none.
Json PostProcessor(const TokenizerSpec& spec) {
  if (spec.prefix_ids.empty() && spec.suffix_ids.empty()) {
    return Object({{"type", "ByteLevel"},
                   {"add_prefix_space", true},
                   {"trim_offsets", false},
                   {"use_regex", true}});
  }
  Json single = Json::Array(), pair = Json::Array(), tokens = Json::Object();
  const auto add = [&](const std::vector<int32_t>& ids, int type) {
    for (const int32_t id : ids) {
      const Json name(spec.token(id));
      const auto piece = [&](int64_t type_id) {
        return Object(
            {{"SpecialToken", Object({{"id", name}, {"type_id", type_id}})}});
      };
      if (type == 0) single.Add(piece(0));
      pair.Add(piece(type));
      Json own_ids = Json::Array(), own_texts = Json::Array();
      own_ids.Add(static_cast<int64_t>(id));
      own_texts.Add(name);
      tokens.Set(name.as_string(), Object({{"id", name},
                                           {"ids", std::move(own_ids)},
                                           {"tokens", std::move(own_texts)}}));
    }
  };
  const auto text = [](const char* which, int64_t type_id) {
    return Object(
        {{"Sequence", Object({{"id", which}, {"type_id", type_id}})}});
  };
  add(spec.prefix_ids, 0);
  single.Add(text("A", 0));
  pair.Add(text("A", 0));
  add(spec.suffix_ids, 0);
  add(spec.prefix_ids, 1);
  pair.Add(text("B", 1));
  add(spec.suffix_ids, 1);
  return Object({{"type", "TemplateProcessing"},
                 {"single", std::move(single)},
                 {"pair", std::move(pair)},
                 {"special_tokens", std::move(tokens)}});
}

absl::optional<TokenizerFiles> Write(const TokenizerSpec& spec) {
  if (spec.model != ModelKind::kBpe || spec.sentencepiece ||
      !spec.continuing_prefix.empty() || !spec.end_of_word_suffix.empty() ||
      spec.decoders.size() != 1 ||
      spec.decoders[0].kind != DecoderKind::kByteLevel) {
    return absl::nullopt;
  }
  absl::optional<Json> normalizer =
      Steps(spec.normalizers, "normalizers", Normalizer);
  absl::optional<Json> pre_tokenizer =
      Steps(spec.pre_tokenizers, "pretokenizers", PreTokenizer);
  absl::optional<Json> model = Bpe(spec);
  if (!normalizer.has_value() || !pre_tokenizer.has_value() ||
      !model.has_value()) {
    return absl::nullopt;
  }
  TokenizerFiles out;
  out.tokenizer = Object({{"version", "1.0"},
                          {"truncation", Json()},
                          {"padding", Json()},
                          {"added_tokens", AddedTokens(spec)},
                          {"normalizer", *std::move(normalizer)},
                          {"pre_tokenizer", *std::move(pre_tokenizer)},
                          {"post_processor", PostProcessor(spec)},
                          {"decoder", Object({{"type", "ByteLevel"},
                                              {"add_prefix_space", true},
                                              {"trim_offsets", true},
                                              {"use_regex", true}})},
                          {"model", *std::move(model)}});
  out.tokenizer_config = Object({{"tokenizer_class", "PreTrainedTokenizerFast"},
                                 {"clean_up_tokenization_spaces", false}});
  if (spec.bos_id >= 0) {
    out.tokenizer_config.Set("bos_token", spec.token(spec.bos_id));
  }
  if (spec.eos_id >= 0) {
    out.tokenizer_config.Set("eos_token", spec.token(spec.eos_id));
  }
  return out;
}

}  // namespace

absl::optional<TokenizerFiles> WriteTokenizerFiles(absl::string_view bytes) {
  const absl::StatusOr<TokenizerSpec> spec = ParseTokenizer(bytes);
  if (!spec.ok()) return absl::nullopt;
  absl::optional<TokenizerFiles> files = Write(*spec);
  if (!files.has_value()) return absl::nullopt;
  absl::StatusOr<TokenizerTables> again =
      ReadTokenizerJson(json::Write(files->tokenizer), files->tokenizer_config);
  if (!again.ok() || !AddTokenizerVectors(&*again).ok() ||
      again->bytes != bytes) {
    return absl::nullopt;
  }
  return files;
}

}  // namespace deepslice
