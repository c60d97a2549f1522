// Access to the tokenizer's keys of a GGUF file.
#include "runtime/text/gguf_vocabulary.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {

std::string GgufVocabulary::Key(absl::string_view name) {
  return absl::StrCat("tokenizer.ggml.", name);
}

absl::Status GgufVocabulary::Invalid(absl::string_view name,
                                     absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(Key(name), ": ", what));
}

const json::Value* GgufVocabulary::Get(absl::string_view name) const {
  return metadata_->Find(Key(name));
}

absl::StatusOr<const json::Value*> GgufVocabulary::Need(absl::string_view name,
                                                        json::Kind kind) const {
  const json::Value* v = Get(name);
  if (v && v->kind() == kind) return v;
  return Invalid(name,
                 absl::StrCat("is ", v ? json::KindName(v->kind()) : "missing",
                              "; must be ", json::KindName(kind)));
}

absl::StatusOr<bool> GgufVocabulary::Flag(absl::string_view name,
                                          bool fallback) const {
  const json::Value* v = Get(name);
  if (!v) return fallback;
  if (!v->is_bool()) {
    return Invalid(name, absl::StrCat("is ", json::KindName(v->kind()),
                                      "; must be a boolean"));
  }
  return v->as_bool();
}

absl::StatusOr<int32_t> GgufVocabulary::TokenId(absl::string_view name,
                                                int32_t fallback) const {
  const json::Value* v = Get(name);
  const auto size = static_cast<int64_t>(tokens_.size());
  if (!v) return fallback < size ? fallback : -1;
  if (!v->is_int() || v->as_int() < 0 || v->as_int() >= size) {
    return Invalid(name, absl::StrCat("is ", json::Write(*v),
                                      "; must be an id of the vocabulary of ",
                                      size, " tokens"));
  }
  return static_cast<int32_t>(v->as_int());
}

absl::StatusOr<std::string> GgufVocabulary::Charsmap() const {
  const json::Value* v = Get("precompiled_charsmap");
  std::string out;
  if (!v) return out;
  // The container's reader gives arrays of 8-bit integers as their bytes.
  if (v->is_string()) return v->as_string();
  if (!v->is_array()) {
    return Invalid("precompiled_charsmap",
                   absl::StrCat("is ", json::KindName(v->kind()),
                                "; must be an array of bytes"));
  }
  for (const json::Value& byte : v->items()) {
    if (!byte.is_int() || byte.as_int() < -128 || byte.as_int() > 255) {
      return Invalid("precompiled_charsmap",
                     "holds what is no byte; must be an array of bytes");
    }
    out.push_back(static_cast<char>(byte.as_int()));
  }
  return out;
}

absl::StatusOr<GgufVocabulary> GgufVocabulary::Read(
    const json::Value& metadata) {
  GgufVocabulary v(metadata);
  DS_RETURN_IF_ERROR(v.ReadTokens());
  return v;
}

absl::Status GgufVocabulary::ReadTokens() {
  DS_ASSIGN_OR_RETURN(const json::Value* tokens,
                      Need("tokens", json::Kind::kArray));
  const json::Value* types = Get("token_type");
  const json::Value* scores = Get("scores");
  const size_t n = tokens->items().size();
  if (n == 0) return Invalid("tokens", "is empty");
  if (static_cast<int64_t>(n) > limits::kVocab) {
    return Invalid("tokens", absl::StrCat("has ", n, " entries; at most ",
                                          limits::kVocab, " are allowed"));
  }
  for (const json::Value* list : {types, scores}) {
    if (list && (!list->is_array() || list->items().size() != n)) {
      return Invalid(
          list == types ? "token_type" : "scores",
          absl::StrCat("has ", list->items().size(), " entries; tokens has ", n,
                       ", and there must be one for each"));
    }
  }
  has_types_ = types != nullptr;
  has_scores_ = scores != nullptr;
  tokens_.resize(n);
  for (size_t i = 0; i < n; ++i) {
    const json::Value& token = tokens->items()[i];
    const json::Value* type = types ? &types->items()[i] : nullptr;
    if (!token.is_string() || (type && !type->is_int())) {
      return Invalid("tokens",
                     absl::StrCat("entry ", i, " is no text with a type"));
    }
    tokens_[i].text = token.as_string();
    if (type) {
      if (type->as_int() < 1 || type->as_int() > 6) {
        return Invalid("tokens",
                       absl::StrCat("token ", i, " has type ", type->as_int(),
                                    "; 1 (normal) to 6 (byte) are known"));
      }
      tokens_[i].type = static_cast<GgufTokenType>(type->as_int());
    }
    if (scores) {
      const json::Value& score = scores->items()[i];
      if (!score.is_number() || !std::isfinite(score.as_double())) {
        return Invalid("scores", absl::StrCat("entry ", i,
                                              " is no number; a token has a "
                                              "finite score"));
      }
      tokens_[i].score = score.as_double();
    }
  }
  return absl::OkStatus();
}

absl::Status GgufVocabulary::PlaceBosAndEos(bool add_bos, bool add_eos,
                                            TokenizerSpec* spec) const {
  DS_ASSIGN_OR_RETURN(spec->bos_id, TokenId("bos_token_id", spec->bos_id));
  DS_ASSIGN_OR_RETURN(spec->eos_id, TokenId("eos_token_id", spec->eos_id));
  DS_ASSIGN_OR_RETURN(const bool bos, Flag("add_bos_token", add_bos));
  DS_ASSIGN_OR_RETURN(const bool eos, Flag("add_eos_token", add_eos));
  for (const bool first : {true, false}) {
    if (!(first ? bos : eos)) continue;
    const int32_t id = first ? spec->bos_id : spec->eos_id;
    if (id < 0) {
      return Invalid(first ? "add_bos_token" : "add_eos_token",
                     absl::StrCat("is set, but ",
                                  Key(first ? "bos_token_id" : "eos_token_id"),
                                  " is missing; the file must name the token"));
    }
    (first ? spec->prefix_ids : spec->suffix_ids) = {id};
  }
  return absl::OkStatus();
}

}  // namespace deepslice
