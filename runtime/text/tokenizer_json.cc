// Reads tokenizer.json: its parts in order, and added tokens.
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/text/normalizer.h"
#include "runtime/text/tokenizer_builder.h"
#include "runtime/text/tokenizer_config.h"
#include "runtime/text/tokenizer_json_model.h"
#include "runtime/text/tokenizer_json_steps.h"
#include "runtime/text/tokenizer_tables.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

absl::Status ReadAddedTokens(const JsonAt& list, TokenizerBuilder* builder,
                             std::vector<std::string>* notes) {
  if (list.is_null()) return absl::OkStatus();
  DS_RETURN_IF_ERROR(list.Expect(json::Kind::kArray));
  builder->Expect(list.value->items().size());
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
  DS_RETURN_IF_ERROR(
      ReadJsonModel(root.Member("model"), &builder, &spec, &tables.notes));
  DS_RETURN_IF_ERROR(
      ReadAddedTokens(root.Member("added_tokens"), &builder, &tables.notes));
  if (const int32_t holes = builder.CountHoles(); holes > 0) {
    tables.notes.push_back(absl::StrCat(
        "tokenizer.json: ", holes, " ids of the vocabulary have no token"));
  }
  DS_RETURN_IF_ERROR(ReadNormalizer(root.Member("normalizer"), &spec));
  DS_RETURN_IF_ERROR(ReadPreTokenizer(root.Member("pre_tokenizer"), &spec));
  if (spec.model == ModelKind::kBpe && !spec.pre_tokenizers.empty() &&
      spec.pre_tokenizers.back().kind == PreTokenizerKind::kByteLevel &&
      spec.continuing_prefix.empty() && spec.end_of_word_suffix.empty() &&
      spec.unk_id < 0) {
    if (const int32_t missing = builder.CountMissingBytes(); missing > 0) {
      tables.notes.push_back(absl::StrCat(
          "tokenizer.json: ", missing,
          " of the 256 bytes have no token: a text that has one loses it, "
          "as with the published tokenizer"));
    }
  }
  builder.Finish(&spec);
  // Steps that take too long on the file's own tokens are of no use.
  DS_ASSIGN_OR_RETURN(const Normalizer normalizer, Normalizer::Create(spec));
  DS_RETURN_IF_ERROR(Annotate(AddedTokenTexts(spec, normalizer).status(),
                              "tokenizer.json: normalizer"));
  DS_RETURN_IF_ERROR(ReadPostProcessor(root.Member("post_processor"), &spec));
  DS_RETURN_IF_ERROR(ReadDecoder(root.Member("decoder"), &spec));
  if (!root.Member("decoder").is_null() && spec.decoders.empty()) {
    spec.decoders = {{DecoderKind::kFuse}};  // an empty Sequence joins
  }
  DS_RETURN_IF_ERROR(
      NameSpecialTokens(tokenizer_config, builder, &spec, &tables.notes));
  DS_RETURN_IF_ERROR(
      PlaceSpecialTokens(tokenizer_config, &spec, &tables.notes));
  tables.bytes = SerializeTokenizer(spec);
  return tables;
}

}  // namespace deepslice
