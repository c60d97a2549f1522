// Special tokens as tokenizer_config.json names and places them.
#include "runtime/text/tokenizer_config.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "runtime/text/json_at.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// The id of a token that tokenizer_config.json names, as text or as an object
// with "content"; `fallback` when it does not speak of it, -1 when it says that
// there is none or names one that is not in the vocabulary.
absl::StatusOr<int32_t> NamedToken(const json::Value& config,
                                   absl::string_view key, int32_t fallback,
                                   const TokenizerBuilder& builder,
                                   std::vector<std::string>* notes) {
  const json::Value* v = config.Find(key);
  if (v == nullptr) return fallback;
  if (v->is_object()) v = v->Find("content");
  if (!v || v->is_null()) return -1;
  if (!v->is_string()) {
    return absl::InvalidArgumentError(
        absl::StrCat("tokenizer_config.json: ", key, ": is ",
                     json::KindName(v->kind()), "; must be a token"));
  }
  const int32_t id = builder.Find(v->as_string());
  if (id < 0) {
    notes->push_back(absl::StrCat("tokenizer_config.json: ", key, " \"",
                                  ShownText(v->as_string()),
                                  "\" is no token of the vocabulary"));
  }
  return id;
}

}  // namespace

absl::Status NameSpecialTokens(const json::Value& config,
                               const TokenizerBuilder& builder,
                               TokenizerSpec* spec,
                               std::vector<std::string>* notes) {
  DS_ASSIGN_OR_RETURN(spec->bos_id, NamedToken(config, "bos_token",
                                               spec->bos_id, builder, notes));
  DS_ASSIGN_OR_RETURN(spec->eos_id, NamedToken(config, "eos_token",
                                               spec->eos_id, builder, notes));
  return absl::OkStatus();
}

absl::Status PlaceSpecialTokens(const json::Value& config, TokenizerSpec* spec,
                                std::vector<std::string>* notes) {
  const JsonAt root{&config, "", "tokenizer_config.json"};
  for (const bool bos : {true, false}) {
    const absl::string_view key = bos ? "add_bos_token" : "add_eos_token";
    const JsonAt m = root.Member(key);
    if (m.is_null()) continue;
    DS_RETURN_IF_ERROR(m.Expect(json::Kind::kBool));
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

absl::Status AddDeclaredTokens(const json::Value& config,
                               TokenizerBuilder* builder, bool* any) {
  *any = false;
  const JsonAt list = JsonAt{&config, "", "tokenizer_config.json"}.Member(
      "added_tokens_decoder");
  if (list.is_null()) return absl::OkStatus();
  DS_RETURN_IF_ERROR(list.Expect(json::Kind::kObject));
  builder->Expect(list.value->members().size());
  for (const json::Value::Member& m : list.value->members()) {
    const JsonAt at = list.Member(m.first);
    int64_t id = 0;
    if (!absl::SimpleAtoi(m.first, &id)) {
      return at.Invalid("its name must be an id");
    }
    DS_RETURN_IF_ERROR(at.Expect(json::Kind::kObject));
    DS_ASSIGN_OR_RETURN(const std::string content, at.String("content"));
    AddedToken token;
    DS_ASSIGN_OR_RETURN(token.special, at.BoolOr("special", false));
    DS_ASSIGN_OR_RETURN(token.single_word, at.BoolOr("single_word", false));
    DS_ASSIGN_OR_RETURN(token.lstrip, at.BoolOr("lstrip", false));
    DS_ASSIGN_OR_RETURN(token.rstrip, at.BoolOr("rstrip", false));
    DS_RETURN_IF_ERROR(Annotate(builder->AddAddedToken(content, id, token),
                                "tokenizer_config.json: ", at.path));
    *any = true;
  }
  return absl::OkStatus();
}

}  // namespace deepslice
