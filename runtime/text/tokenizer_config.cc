// Special tokens as tokenizer_config.json names and places them.
#include "runtime/text/tokenizer_config.h"

#include "absl/strings/str_cat.h"
#include "runtime/text/json_at.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

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

}  // namespace

absl::Status ApplyTokenizerConfig(const json::Value& config,
                                  const TokenizerBuilder& builder,
                                  TokenizerSpec* spec,
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

}  // namespace deepslice
