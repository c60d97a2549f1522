// Tokenizers through the C interface.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/api/api_call.h"
#include "runtime/api/model.h"
#include "runtime/plan.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/tokenizer_files.h"
#include "runtime/text/tokenizer_tables.h"
#include "schema/base/file.h"
#include "schema/base/status_macros.h"

struct ds_decoder {
  deepslice::StreamDecoder decoder;
  int32_t vocab_size;
  std::string text;  // of the last call
};

namespace deepslice {
namespace {

// The serialised tables of a plan's tokenizer, or of a tokenizer's own files.
absl::StatusOr<TokenizerTables> ReadTables(
    const std::string& source, const TokenizerFileOptions& options) {
  if (!DirectoryExists(source) || !FindTokenizerFile(source).empty()) {
    return ReadTokenizerFiles(source, options);
  }
  DS_ASSIGN_OR_RETURN(const Plan plan,
                      Plan::Load(source, 0, {.check_weights = false}));
  const auto* bytes = plan.fb().tokenizer();
  if (bytes == nullptr || bytes->size() == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(source,
                     ": the plan holds no tokenizer; compile it from "
                     "a checkpoint that has one"));
  }
  TokenizerTables tables;
  tables.bytes.assign(bytes->begin(), bytes->end());
  return tables;
}

absl::StatusOr<const Tokenizer*> Of(const ds_tokenizer* tokenizer,
                                    absl::string_view function) {
  if (tokenizer == nullptr) return NullArgument(function, "tokenizer");
  return tokenizer->tokenizer;
}

void GiveText(absl::string_view text, char** out, size_t* size) {
  *out = CopyText(text);
  if (size != nullptr) *size = text.size();
}

}  // namespace
}  // namespace deepslice

using namespace deepslice;  // NOLINT: the interface's functions have no other

ds_status ds_get_tokenizer(ds_model* model,
                           const ds_tokenizer** tokenizer) noexcept {
  return ApiCall([&]() -> absl::Status {
    if (tokenizer == nullptr) {
      return NullArgument("ds_get_tokenizer", "tokenizer");
    }
    *tokenizer = nullptr;
    if (model == nullptr) return NullArgument("ds_get_tokenizer", "model");
    DS_ASSIGN_OR_RETURN(*tokenizer, TokenizerOf(*model));
    return absl::OkStatus();
  });
}

ds_status ds_open_tokenizer(const char* path, const char* pattern,
                            void (*on_note)(void* user, const char* text),
                            void* user, ds_tokenizer** tokenizer) noexcept {
  return ApiCall([&]() -> absl::Status {
    if (tokenizer == nullptr) {
      return NullArgument("ds_open_tokenizer", "tokenizer");
    }
    *tokenizer = nullptr;
    if (path == nullptr) return NullArgument("ds_open_tokenizer", "path");
    TokenizerFileOptions options;
    if (pattern != nullptr) options.pattern = pattern;
    DS_ASSIGN_OR_RETURN(const TokenizerTables tables,
                        ReadTables(path, options));
    if (on_note != nullptr) {
      for (const std::string& note : tables.notes) on_note(user, note.c_str());
    }
    auto opened = std::make_unique<ds_tokenizer>();
    DS_ASSIGN_OR_RETURN(opened->owned, Tokenizer::Load(tables.bytes));
    opened->tokenizer = opened->owned.get();
    *tokenizer = opened.release();
    return absl::OkStatus();
  });
}

void ds_free_tokenizer(ds_tokenizer* tokenizer) noexcept { delete tokenizer; }

ds_status ds_tokenize(const ds_tokenizer* tokenizer, ds_text text,
                      uint32_t flags, int32_t** ids, size_t* num_ids) noexcept {
  return ApiCall([&]() -> absl::Status {
    if (ids == nullptr || num_ids == nullptr) {
      return NullArgument("ds_tokenize", "ids or num_ids");
    }
    *ids = nullptr;
    *num_ids = 0;
    DS_ASSIGN_OR_RETURN(const Tokenizer* t, Of(tokenizer, "ds_tokenize"));
    constexpr uint32_t kFlags = DS_NO_SPECIAL | DS_PLAIN_TEXT;
    if ((flags & ~kFlags) != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("ds_tokenize: flags are ", flags,
                       "; DS_NO_SPECIAL and DS_PLAIN_TEXT are allowed"));
    }
    DS_ASSIGN_OR_RETURN(const absl::string_view bytes,
                        TextOf(text, "ds_tokenize: text"));
    DS_ASSIGN_OR_RETURN(
        const std::vector<int32_t> got,
        t->Encode(bytes, {.add_special = (flags & DS_NO_SPECIAL) == 0,
                          .parse_special = (flags & DS_PLAIN_TEXT) == 0}));
    *ids = CopyArray(got.data(), got.size());
    *num_ids = got.size();
    return absl::OkStatus();
  });
}

ds_status ds_detokenize(const ds_tokenizer* tokenizer, const int32_t* ids,
                        size_t num_ids, int32_t skip_special, char** text,
                        size_t* size) noexcept {
  return ApiCall([&]() -> absl::Status {
    if (text == nullptr) return NullArgument("ds_detokenize", "text");
    *text = nullptr;
    if (size != nullptr) *size = 0;
    DS_ASSIGN_OR_RETURN(const Tokenizer* t, Of(tokenizer, "ds_detokenize"));
    if (ids == nullptr && num_ids > 0) {
      return NullArgument("ds_detokenize", "ids");
    }
    DS_ASSIGN_OR_RETURN(
        const std::string got,
        t->Decode(std::vector<int32_t>(ids, ids + num_ids), skip_special != 0));
    GiveText(got, text, size);
    return absl::OkStatus();
  });
}

ds_status ds_get_tokenizer_info(const ds_tokenizer* tokenizer,
                                ds_tokenizer_info* info, size_t size) noexcept {
  return ApiCall([&]() -> absl::Status {
    if (info == nullptr) return NullArgument("ds_get_tokenizer_info", "info");
    ds_tokenizer_info out = {};
    out.bos_id = out.eos_id = -1;
    WriteStruct(out, info, size);
    DS_ASSIGN_OR_RETURN(const Tokenizer* t,
                        Of(tokenizer, "ds_get_tokenizer_info"));
    out.vocab_size = t->vocab_size();
    out.bos_id = t->bos_id();
    out.eos_id = t->eos_id();
    WriteStruct(out, info, size);
    return absl::OkStatus();
  });
}

int32_t ds_token_to_id(const ds_tokenizer* tokenizer, ds_text token) noexcept {
  int32_t id = -1;
  ApiCall([&]() -> absl::Status {
    DS_ASSIGN_OR_RETURN(const Tokenizer* t, Of(tokenizer, "ds_token_to_id"));
    DS_ASSIGN_OR_RETURN(const absl::string_view text,
                        TextOf(token, "ds_token_to_id: token"));
    id = t->TokenToId(text);
    return absl::OkStatus();
  });
  return id;
}

ds_status ds_id_to_token(const ds_tokenizer* tokenizer, int32_t id,
                         char** token, size_t* size,
                         int32_t* is_special) noexcept {
  return ApiCall([&]() -> absl::Status {
    if (token == nullptr) return NullArgument("ds_id_to_token", "token");
    *token = nullptr;
    if (size != nullptr) *size = 0;
    if (is_special != nullptr) *is_special = 0;
    DS_ASSIGN_OR_RETURN(const Tokenizer* t, Of(tokenizer, "ds_id_to_token"));
    if (id < 0 || id >= t->vocab_size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("ds_id_to_token: id ", id, "; 0 to ",
                       t->vocab_size() - 1, " are allowed"));
    }
    GiveText(t->IdToToken(id), token, size);
    if (is_special != nullptr) *is_special = t->IsSpecial(id);
    return absl::OkStatus();
  });
}

ds_status ds_new_decoder(const ds_tokenizer* tokenizer, int32_t skip_special,
                         ds_decoder** decoder) noexcept {
  return ApiCall([&]() -> absl::Status {
    if (decoder == nullptr) return NullArgument("ds_new_decoder", "decoder");
    *decoder = nullptr;
    DS_ASSIGN_OR_RETURN(const Tokenizer* t, Of(tokenizer, "ds_new_decoder"));
    *decoder = new ds_decoder{StreamDecoder(*t, skip_special != 0),
                              t->vocab_size(), std::string()};
    return absl::OkStatus();
  });
}

ds_status ds_decode(ds_decoder* decoder, int32_t id, const char** text,
                    size_t* size) noexcept {
  return ApiCall([&]() -> absl::Status {
    if (text == nullptr || size == nullptr) {
      return NullArgument("ds_decode", "text or size");
    }
    *text = "";
    *size = 0;
    if (decoder == nullptr) return NullArgument("ds_decode", "decoder");
    if (id == -1) {
      DS_ASSIGN_OR_RETURN(decoder->text, decoder->decoder.Finish());
    } else {
      if (id < 0 || id >= decoder->vocab_size) {
        return absl::InvalidArgumentError(absl::StrCat(
            "ds_decode: id ", id, "; 0 to ", decoder->vocab_size - 1,
            ", or -1 at the end, are allowed"));
      }
      DS_ASSIGN_OR_RETURN(decoder->text, decoder->decoder.Add(id));
    }
    *text = decoder->text.c_str();
    *size = decoder->text.size();
    return absl::OkStatus();
  });
}

void ds_free_decoder(ds_decoder* decoder) noexcept { delete decoder; }
