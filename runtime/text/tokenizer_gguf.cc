// Reads the tokenizer in GGUF's metadata, by the kind of its vocabulary.
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/text/gguf_vocabulary.h"
#include "runtime/text/json_at.h"
#include "runtime/text/tokenizer_tables.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// A "gpt2" vocabulary: text in the byte alphabet and merges.
absl::Status AddBpeTokens(const GgufVocabulary& v, TokenizerBuilder* builder) {
  for (size_t i = 0; i < v.tokens().size(); ++i) {
    const GgufVocabulary::Token& t = v.tokens()[i];
    const auto id = static_cast<int64_t>(i);
    AddedToken added;
    absl::Status status;
    switch (t.type) {
      case GgufTokenType::kNormal:
        status = builder->AddModelToken(t.text, id);
        break;
      case GgufTokenType::kUnknown:
      case GgufTokenType::kControl:
        added.special = true;
        status = builder->AddAddedToken(t.text, id, added);
        break;
      case GgufTokenType::kUserDefined:
        status = builder->AddAddedToken(t.text, id, added);
        break;
      case GgufTokenType::kUnused:
        status = builder->AddUnusedToken(t.text, id);
        break;
      case GgufTokenType::kByte:
        status = absl::InvalidArgumentError(
            absl::StrCat("token ", id,
                         " has type 6 (byte); a gpt2 vocabulary "
                         "has types 1 to 5"));
        break;
    }
    DS_RETURN_IF_ERROR(Annotate(status, GgufVocabulary::Key("tokens")));
  }
  return absl::OkStatus();
}

absl::Status AddMerges(const GgufVocabulary& v, TokenizerBuilder* builder) {
  DS_ASSIGN_OR_RETURN(const json::Value* merges,
                      v.Need("merges", json::Kind::kArray));
  for (size_t i = 0; i < merges->items().size(); ++i) {
    const json::Value& merge = merges->items()[i];
    const absl::string_view text = merge.as_string();
    const size_t space = text.find(' ');
    if (!merge.is_string() || space == text.npos ||
        text.find(' ', space + 1) != text.npos) {
      return GgufVocabulary::Invalid(
          "merges", absl::StrCat("entry ", i, " (\"", ShownText(text),
                                 "\") must be two tokens with a "
                                 "space between them"));
    }
    DS_RETURN_IF_ERROR(Annotate(
        builder->AddMerge(text.substr(0, space), text.substr(space + 1)),
        GgufVocabulary::Key("merges")));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadGgufBpe(const GgufVocabulary& v, TokenizerSpec* spec,
                         std::vector<std::string>* notes) {
  DS_ASSIGN_OR_RETURN(const GgufPreTokenizer pre,
                      ReadGgufPreTokenizer(v, spec));
  spec->ignore_merges = pre.ignore_merges;
  TokenizerBuilder builder;
  builder.Expect(v.tokens().size());
  DS_RETURN_IF_ERROR(AddBpeTokens(v, &builder));
  if (const int32_t missing = builder.CountMissingBytes(); missing > 0) {
    notes->push_back(
        absl::StrCat(GgufVocabulary::Key("tokens"), ": ", missing,
                     " of the 256 bytes have no token: a text that has one "
                     "loses it, as with the published tokenizer"));
  }
  DS_RETURN_IF_ERROR(AddMerges(v, &builder));
  builder.Finish(spec);
  spec->decoders = {{DecoderKind::kByteLevel}};
  DS_RETURN_IF_ERROR(v.PlaceBosAndEos(pre.add_bos, false, spec));
  DS_ASSIGN_OR_RETURN(const bool add_sep, v.Flag("add_sep_token", pre.add_sep));
  if (add_sep) {
    DS_ASSIGN_OR_RETURN(const int32_t sep,
                        v.TokenId("seperator_token_id", spec->eos_id));
    if (sep < 0) {
      return GgufVocabulary::Invalid(
          "seperator_token_id",
          "is missing, but such a text ends in it; the file must name it");
    }
    spec->suffix_ids = {sep};
  }
  return absl::OkStatus();
}

absl::StatusOr<TokenizerTables> ReadTokenizerGguf(const json::Value& metadata) {
  const json::Value* model = metadata.Find(GgufVocabulary::Key("model"));
  if (model == nullptr || !model->is_string()) {
    return GgufVocabulary::Invalid(
        "model",
        absl::StrCat("is ", model ? json::KindName(model->kind()) : "missing",
                     "; must be a string"));
  }
  const std::string& kind = model->as_string();
  TokenizerTables tables;
  if (kind == "none" || kind == "no_vocab") {
    tables.notes.push_back(absl::StrCat(GgufVocabulary::Key("model"), ": \"",
                                        kind,
                                        "\": the file has no vocabulary"));
    return tables;
  }
  if (kind != "llama" && kind != "gpt2" && kind != "bert" && kind != "t5" &&
      kind != "rwkv") {
    return absl::UnimplementedError(absl::StrCat(
        GgufVocabulary::Key("model"), ": vocabulary kind \"", kind,
        "\" is not supported; supported are bert, gpt2, llama, rwkv and t5"));
  }
  DS_ASSIGN_OR_RETURN(const GgufVocabulary v, GgufVocabulary::Read(metadata));
  TokenizerSpec spec;
  if (kind == "gpt2") {
    DS_RETURN_IF_ERROR(ReadGgufBpe(v, &spec, &tables.notes));
  } else if (kind == "bert") {
    DS_RETURN_IF_ERROR(ReadGgufBert(v, &spec, &tables.notes));
  } else if (kind == "rwkv") {
    DS_RETURN_IF_ERROR(ReadGgufRwkv(v, &spec));
  } else {
    DS_RETURN_IF_ERROR(ReadGgufPieces(v, kind == "t5", &spec));
  }
  tables.bytes = SerializeTokenizer(spec);
  return tables;
}

}  // namespace deepslice
