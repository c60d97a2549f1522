// GGUF's "bert" and "rwkv" vocabularies.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/text/byte_level.h"
#include "runtime/text/gguf_vocabulary.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

constexpr absl::string_view kSpaceSymbol = "\xE2\x96\x81";  // U+2581

// Bytes written as in a literal of Python: \t, \n, \r, \x00, \\.
absl::StatusOr<std::string> Unescape(absl::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out.push_back(text[i]);
      continue;
    }
    if (++i == text.size()) {
      return absl::InvalidArgumentError("ends in a backslash");
    }
    switch (text[i]) {
      case 't':
        out.push_back('\t');
        break;
      case 'n':
        out.push_back('\n');
        break;
      case 'r':
        out.push_back('\r');
        break;
      case 'x': {
        int value = 0;
        for (int k = 1; k <= 2; ++k) {
          const char c = i + k < text.size() ? text[i + k] : '\0';
          const int digit = c >= '0' && c <= '9'   ? c - '0'
                            : c >= 'a' && c <= 'f' ? c - 'a' + 10
                            : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                   : -1;
          if (digit < 0) {
            return absl::InvalidArgumentError(
                "has \\x without two hexadecimal digits");
          }
          value = value * 16 + digit;
        }
        out.push_back(static_cast<char>(value));
        i += 2;
        break;
      }
      default:
        out.push_back(text[i]);
    }
  }
  return out;
}

bool HasUpperCase(absl::string_view text) {
  for (char c : text) {
    if (c >= 'A' && c <= 'Z') return true;
  }
  return false;
}

}  // namespace

absl::Status ReadGgufBert(const GgufVocabulary& v, TokenizerSpec* spec,
                          std::vector<std::string>* notes) {
  TokenizerBuilder builder;
  builder.Expect(v.tokens().size());
  bool cased = false;
  for (size_t i = 0; i < v.tokens().size(); ++i) {
    const GgufVocabulary::Token& t = v.tokens()[i];
    const auto id = static_cast<int64_t>(i);
    absl::Status status;
    if (t.type == GgufTokenType::kNormal) {
      // Stored with a mark at the start of words; published with one inside.
      const bool word = absl::StartsWith(t.text, kSpaceSymbol);
      const absl::string_view plain =
          word ? t.text.substr(kSpaceSymbol.size()) : t.text;
      // [unused0] and the like say nothing about the texts.
      cased |= plain.substr(0, 1) != "[" && HasUpperCase(plain);
      status = builder.AddModelToken(absl::StrCat(word ? "" : "##", plain), id);
    } else if (t.type == GgufTokenType::kUnused ||
               t.type == GgufTokenType::kByte) {
      status = builder.AddUnusedToken(t.text, id);
    } else {
      AddedToken added;
      added.special = t.type != GgufTokenType::kUserDefined;
      status = builder.AddAddedToken(t.text, id, added);
    }
    DS_RETURN_IF_ERROR(Annotate(status, GgufVocabulary::Key("tokens")));
  }
  builder.Finish(spec);
  spec->model = ModelKind::kWordPiece;
  spec->continuing_prefix = "##";
  spec->max_word_chars = 100;
  DS_ASSIGN_OR_RETURN(spec->unk_id, v.TokenId("unknown_token_id", 100));
  NormalizerStep bert{
      NormalizerKind::kBert,
      NormalizerStep::kBertClean | NormalizerStep::kBertIdeographs};
  DS_ASSIGN_OR_RETURN(const bool lower, v.Flag("normalizer.lowercase", !cased));
  DS_ASSIGN_OR_RETURN(const bool accents,
                      v.Flag("normalizer.strip_accents", lower));
  if (lower) bert.flags |= NormalizerStep::kBertLowercase;
  if (accents) bert.flags |= NormalizerStep::kBertStripAccents;
  if (cased && v.Get("normalizer.lowercase") == nullptr) {
    notes->push_back(absl::StrCat(
        GgufVocabulary::Key("tokens"),
        ": the vocabulary has upper-case words, so that text keeps its case"));
  }
  spec->normalizers = {bert};
  PreTokenizerStep split;
  split.kind = PreTokenizerKind::kBert;
  spec->pre_tokenizers = {split};
  spec->decoders = {{DecoderKind::kWordPiece, DecoderStep::kCleanup, "##"}};
  DS_ASSIGN_OR_RETURN(const int32_t cls, v.TokenId("cls_token_id", 101));
  spec->bos_id = cls;
  DS_RETURN_IF_ERROR(v.PlaceBosAndEos(true, false, spec));
  DS_ASSIGN_OR_RETURN(const bool add_sep, v.Flag("add_sep_token", true));
  DS_ASSIGN_OR_RETURN(const int32_t sep, v.TokenId("seperator_token_id", 102));
  if (add_sep) {
    if (sep < 0) {
      return GgufVocabulary::Invalid(
          "seperator_token_id",
          "is missing, but such a text ends in it; the file must name it");
    }
    spec->suffix_ids.push_back(sep);
  }
  return absl::OkStatus();
}

absl::Status ReadGgufRwkv(const GgufVocabulary& v, TokenizerSpec* spec) {
  TokenizerBuilder builder;
  builder.Expect(v.tokens().size());
  for (size_t i = 0; i < v.tokens().size(); ++i) {
    const GgufVocabulary::Token& t = v.tokens()[i];
    const auto id = static_cast<int64_t>(i);
    auto bytes = Unescape(t.text);
    DS_RETURN_IF_ERROR(
        Annotate(bytes.status(), GgufVocabulary::Key("tokens"), ": token ", i));
    std::string text;
    AppendByteLevel(*bytes, &text);
    absl::Status status;
    if (t.type == GgufTokenType::kNormal ||
        t.type == GgufTokenType::kUserDefined) {
      status = builder.AddModelToken(text, id);
    } else if (t.type == GgufTokenType::kControl ||
               t.type == GgufTokenType::kUnknown) {
      AddedToken added;
      added.special = true;
      status = builder.AddAddedToken(t.text, id, added);
    } else {
      status = builder.AddUnusedToken(text, id);
    }
    DS_RETURN_IF_ERROR(Annotate(status, GgufVocabulary::Key("tokens")));
  }
  builder.Finish(spec);
  spec->model = ModelKind::kLongest;
  DS_ASSIGN_OR_RETURN(spec->unk_id, v.TokenId("unknown_token_id", -1));
  // Words are whole texts, as characters of the byte alphabet.
  PreTokenizerStep bytes;
  spec->pre_tokenizers = {bytes};
  spec->decoders = {{DecoderKind::kByteLevel}};
  return v.PlaceBosAndEos(false, false, spec);
}

}  // namespace deepslice
