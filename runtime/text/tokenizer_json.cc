// Reads tokenizer.json: vocabulary, merges, added tokens, and the choice of
// special tokens in tokenizer_config.json.
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/text/tokenizer_builder.h"
#include "runtime/text/tokenizer_json_steps.h"
#include "runtime/text/tokenizer_tables.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

absl::Status ReadMerges(const JsonAt& list, TokenizerBuilder* builder) {
  for (size_t i = 0; i < list.value->items().size(); ++i) {
    const json::Value& merge = list.value->items()[i];
    absl::string_view left, right;
    bool good = false;
    if (merge.is_string()) {  // "a b"
      const absl::string_view text = merge.as_string();
      const size_t space = text.find(' ');
      good = space != text.npos && text.find(' ', space + 1) == text.npos;
      if (good) {
        left = text.substr(0, space);
        right = text.substr(space + 1);
      }
    } else if (merge.is_array()) {  // ["a", "b"]
      good = merge.items().size() == 2 && merge.items()[0].is_string() &&
             merge.items()[1].is_string();
      if (good) {
        left = merge.items()[0].as_string();
        right = merge.items()[1].as_string();
      }
    }
    if (!good) {
      return list.Item(i).Invalid(
          "must be two tokens, as \"a b\" or [\"a\", \"b\"]");
    }
    DS_RETURN_IF_ERROR(Annotate(builder->AddMerge(left, right),
                                "tokenizer.json: ", list.path));
  }
  return absl::OkStatus();
}

// Options of BPE that change ids and that no encoder step here knows.
absl::Status RefuseOptions(const JsonAt& model) {
  for (absl::string_view key :
       {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const JsonAt m = model.Member(key);
    if (m.is_null()) continue;
    DS_RETURN_IF_ERROR(m.Expect(json::Kind::kString));
    if (!m.value->as_string().empty()) {
      return m.NotSupported(absl::StrCat("\"", m.value->as_string(),
                                         "\" is not supported; only null is"));
    }
  }
  DS_ASSIGN_OR_RETURN(const bool fallback,
                      model.BoolOr("byte_fallback", false));
  if (fallback) {
    return model.Member("byte_fallback")
        .NotSupported("true is not supported; only false is");
  }
  const JsonAt dropout = model.Member("dropout");
  if (!dropout.is_null() &&
      (!dropout.value->is_number() || dropout.value->as_double() != 0)) {
    return dropout.NotSupported(
        "dropout makes ids random; only null is supported");
  }
  return absl::OkStatus();
}

absl::Status ReadModel(const JsonAt& model, TokenizerBuilder* builder,
                       TokenizerSpec* spec) {
  DS_RETURN_IF_ERROR(model.Expect(json::Kind::kObject));
  // Old files leave the type out; merges are BPE's.
  const JsonAt type = model.Member("type");
  if (!type.is_null() || model.Member("merges").is_null()) {
    DS_ASSIGN_OR_RETURN(const std::string name, model.String("type"));
    if (name != "BPE") {
      return type.NotSupported(absl::StrCat(
          "model \"", name, "\" is not supported; supported is BPE"));
    }
  }
  DS_RETURN_IF_ERROR(model.OnlyMembers(
      {"type", "dropout", "unk_token", "continuing_subword_prefix",
       "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges",
       "vocab", "merges"}));
  DS_RETURN_IF_ERROR(RefuseOptions(model));
  DS_ASSIGN_OR_RETURN(spec->fuse_unk, model.BoolOr("fuse_unk", false));
  DS_ASSIGN_OR_RETURN(spec->ignore_merges,
                      model.BoolOr("ignore_merges", false));
  const JsonAt vocab = model.Member("vocab");
  DS_RETURN_IF_ERROR(vocab.Expect(json::Kind::kObject));
  for (const json::Value::Member& m : vocab.value->members()) {
    if (!m.second.is_int())
      return vocab.Member(m.first).Invalid("is no integer");
    DS_RETURN_IF_ERROR(
        Annotate(builder->AddModelToken(m.first, m.second.as_int()),
                 "tokenizer.json: ", vocab.path));
  }
  DS_ASSIGN_OR_RETURN(const JsonAt merges, model.Array("merges"));
  DS_RETURN_IF_ERROR(ReadMerges(merges, builder));
  const JsonAt unk = model.Member("unk_token");
  if (!unk.is_null()) {
    DS_RETURN_IF_ERROR(unk.Expect(json::Kind::kString));
    spec->unk_id = builder->Find(unk.value->as_string());
    if (spec->unk_id < 0) {
      return unk.Invalid(absl::StrCat("\"", unk.value->as_string(),
                                      "\" is no token of the vocabulary"));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadAddedTokens(const JsonAt& list, TokenizerBuilder* builder,
                             std::vector<std::string>* notes) {
  if (list.is_null()) return absl::OkStatus();
  DS_RETURN_IF_ERROR(list.Expect(json::Kind::kArray));
  for (size_t i = 0; i < list.value->items().size(); ++i) {
    const JsonAt at = list.Item(i);
    DS_RETURN_IF_ERROR(at.Expect(json::Kind::kObject));
    DS_RETURN_IF_ERROR(at.OnlyMembers({"id", "content", "single_word", "lstrip",
                                       "rstrip", "normalized", "special"}));
    DS_ASSIGN_OR_RETURN(const std::string content, at.String("content"));
    DS_ASSIGN_OR_RETURN(const int64_t id, at.Int("id"));
    AddedToken token;
    DS_ASSIGN_OR_RETURN(token.special, at.BoolOr("special", false));
    DS_ASSIGN_OR_RETURN(token.single_word, at.BoolOr("single_word", false));
    DS_ASSIGN_OR_RETURN(token.lstrip, at.BoolOr("lstrip", false));
    DS_ASSIGN_OR_RETURN(token.rstrip, at.BoolOr("rstrip", false));
    DS_ASSIGN_OR_RETURN(token.normalized,
                        at.BoolOr("normalized", !token.special));
    if (content.empty()) {
      notes->push_back(absl::StrCat("tokenizer.json: ", at.path,
                                    ": an empty added token matches nothing"));
      continue;
    }
    DS_RETURN_IF_ERROR(Annotate(builder->AddAddedToken(content, id, token),
                                "tokenizer.json: ", at.path));
  }
  return absl::OkStatus();
}

// The id of a token that tokenizer_config.json names, as text or as an object
// with "content"; -1 when it names none or one that is not in the vocabulary.
absl::StatusOr<int32_t> NamedToken(const json::Value& config,
                                   absl::string_view key,
                                   const TokenizerBuilder& builder,
                                   std::vector<std::string>* notes) {
  const json::Value* v = config.Find(key);
  if (v && v->is_object()) v = v->Find("content");
  if (!v || v->is_null()) return -1;
  if (!v->is_string()) {
    return absl::InvalidArgumentError(
        absl::StrCat("tokenizer_config.json: ", key, ": is ",
                     json::KindName(v->kind()), "; must be a token"));
  }
  const int32_t id = builder.Find(v->as_string());
  if (id < 0) {
    notes->push_back(absl::StrCat("tokenizer_config.json: ", key, " \"",
                                  v->as_string(),
                                  "\" is no token of the vocabulary"));
  }
  return id;
}

// add_bos_token and add_eos_token overrule the post-processor.
absl::Status ApplyConfig(const json::Value& config,
                         const TokenizerBuilder& builder, TokenizerSpec* spec,
                         std::vector<std::string>* notes) {
  DS_ASSIGN_OR_RETURN(spec->bos_id,
                      NamedToken(config, "bos_token", builder, notes));
  DS_ASSIGN_OR_RETURN(spec->eos_id,
                      NamedToken(config, "eos_token", builder, notes));
  const JsonAt root{&config, ""};
  for (const bool bos : {true, false}) {
    const absl::string_view key = bos ? "add_bos_token" : "add_eos_token";
    const JsonAt m = root.Member(key);
    if (m.is_null()) continue;
    DS_RETURN_IF_ERROR(
        Annotate(m.Expect(json::Kind::kBool), "tokenizer_config.json"));
    const int32_t id = bos ? spec->bos_id : spec->eos_id;
    std::vector<int32_t>& ids = bos ? spec->prefix_ids : spec->suffix_ids;
    const auto place = bos ? ids.begin() : ids.end() - (ids.empty() ? 0 : 1);
    const bool present = !ids.empty() && *place == id;
    if (id < 0 || present == m.value->as_bool()) continue;
    notes->push_back(absl::StrCat("tokenizer_config.json: ", key, " is ",
                                  m.value->as_bool() ? "true" : "false",
                                  ": the post-processor is changed"));
    if (present) {
      ids.erase(place);
    } else {
      ids.insert(bos ? ids.begin() : ids.end(), id);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TokenizerTables> ReadTokenizerJson(
    absl::string_view text, const json::Value& tokenizer_config) {
  auto parsed = json::Parse(text);
  if (!parsed.ok()) return Annotate(parsed.status(), "tokenizer.json");
  const JsonAt root{&*parsed, ""};
  if (!parsed->is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat("tokenizer.json: is ", json::KindName(parsed->kind()),
                     "; must be an object"));
  }
  DS_RETURN_IF_ERROR(root.OnlyMembers(
      {"version", "truncation", "padding", "added_tokens", "normalizer",
       "pre_tokenizer", "post_processor", "decoder", "model"}));
  TokenizerTables tables;
  for (absl::string_view key : {"truncation", "padding"}) {
    if (!root.Member(key).is_null()) {
      tables.notes.push_back(
          absl::StrCat("tokenizer.json: ", key, " is left to the caller"));
    }
  }
  TokenizerSpec spec;
  TokenizerBuilder builder;
  DS_RETURN_IF_ERROR(ReadModel(root.Member("model"), &builder, &spec));
  DS_RETURN_IF_ERROR(
      ReadAddedTokens(root.Member("added_tokens"), &builder, &tables.notes));
  if (const int32_t holes = builder.CountHoles(); holes > 0) {
    tables.notes.push_back(absl::StrCat(
        "tokenizer.json: ", holes, " ids of the vocabulary have no token"));
  }
  DS_RETURN_IF_ERROR(ReadNormalizer(root.Member("normalizer"), &spec));
  DS_RETURN_IF_ERROR(ReadPreTokenizer(root.Member("pre_tokenizer"), &spec));
  if (!spec.pre_tokenizers.empty() &&
      spec.pre_tokenizers.back().kind == PreTokenizerKind::kByteLevel &&
      spec.unk_id < 0) {
    if (const int32_t missing = builder.CountMissingBytes(); missing > 0) {
      tables.notes.push_back(
          absl::StrCat("tokenizer.json: ", missing,
                       " of the 256 bytes have no token and are dropped"));
    }
  }
  builder.Finish(&spec);
  DS_RETURN_IF_ERROR(ReadPostProcessor(root.Member("post_processor"), &spec));
  DS_RETURN_IF_ERROR(ReadDecoder(root.Member("decoder"), &spec));
  DS_RETURN_IF_ERROR(
      ApplyConfig(tokenizer_config, builder, &spec, &tables.notes));
  tables.bytes = SerializeTokenizer(spec);
  return tables;
}

}  // namespace deepslice
