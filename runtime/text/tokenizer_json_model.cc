// BPE, Unigram, WordPiece and WordLevel as tokenizer.json writes them.
#include "runtime/text/tokenizer_json_model.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

absl::Status ReadMerges(const JsonAt& list, size_t right_prefix,
                        TokenizerBuilder* builder) {
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
    DS_RETURN_IF_ERROR(Annotate(builder->AddMerge(left, right, right_prefix),
                                "tokenizer.json: ", list.path));
  }
  return absl::OkStatus();
}

// A member that may be null or missing, then it is empty.
absl::StatusOr<std::string> Affix(const JsonAt& model, absl::string_view key) {
  const JsonAt m = model.Member(key);
  if (m.is_null()) return std::string();
  DS_RETURN_IF_ERROR(m.Expect(json::Kind::kString));
  if (m.value->as_string().size() > limits::kAddedTokenBytes) {
    return m.Invalid(absl::StrCat("has ", m.value->as_string().size(),
                                  " bytes; at most ", limits::kAddedTokenBytes,
                                  " are allowed"));
  }
  return m.value->as_string();
}

absl::Status ReadVocabulary(const JsonAt& vocab, TokenizerBuilder* builder) {
  DS_RETURN_IF_ERROR(vocab.Expect(json::Kind::kObject));
  builder->Expect(vocab.value->members().size());
  for (const json::Value::Member& m : vocab.value->members()) {
    if (!m.second.is_int()) {
      return vocab.Member(m.first).Invalid(absl::StrCat(
          "is no integer; must be an id, 0 to ", limits::kVocab - 1));
    }
    DS_RETURN_IF_ERROR(
        Annotate(builder->AddModelToken(m.first, m.second.as_int()),
                 "tokenizer.json: ", vocab.path));
  }
  return absl::OkStatus();
}

absl::Status ReadUnknown(const JsonAt& model, const TokenizerBuilder& builder,
                         TokenizerSpec* spec) {
  const JsonAt unk = model.Member("unk_token");
  if (unk.is_null()) return absl::OkStatus();
  DS_RETURN_IF_ERROR(unk.Expect(json::Kind::kString));
  spec->unk_id = builder.Find(unk.value->as_string());
  if (spec->unk_id < 0) {
    return unk.Invalid(absl::StrCat("\"", ShownText(unk.value->as_string()),
                                    "\" is no token of the vocabulary"));
  }
  return absl::OkStatus();
}

void NoteMissingBytes(const JsonAt& model, const TokenizerBuilder& builder,
                      std::vector<std::string>* notes) {
  if (const int32_t missing = builder.CountMissingByteTokens(); missing > 0) {
    notes->push_back(absl::StrCat(
        "tokenizer.json: ", model.path, ".byte_fallback: ", missing,
        " of the 256 tokens <0x00> to <0xFF> are missing; characters that need "
        "them are unknown"));
  }
}

absl::Status ReadBpe(const JsonAt& model, TokenizerBuilder* builder,
                     TokenizerSpec* spec, std::vector<std::string>* notes) {
  DS_RETURN_IF_ERROR(model.OnlyMembers(
      {"type", "dropout", "unk_token", "continuing_subword_prefix",
       "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges",
       "vocab", "merges"}));
  const JsonAt dropout = model.Member("dropout");
  if (!dropout.is_null() &&
      (!dropout.value->is_number() || dropout.value->as_double() != 0)) {
    return dropout.NotSupported(
        "dropout makes ids random; only null is supported");
  }
  spec->model = ModelKind::kBpe;
  DS_ASSIGN_OR_RETURN(spec->continuing_prefix,
                      Affix(model, "continuing_subword_prefix"));
  DS_ASSIGN_OR_RETURN(spec->end_of_word_suffix,
                      Affix(model, "end_of_word_suffix"));
  DS_ASSIGN_OR_RETURN(spec->fuse_unk, model.BoolOr("fuse_unk", false));
  DS_ASSIGN_OR_RETURN(spec->byte_fallback,
                      model.BoolOr("byte_fallback", false));
  DS_ASSIGN_OR_RETURN(spec->ignore_merges,
                      model.BoolOr("ignore_merges", false));
  DS_RETURN_IF_ERROR(ReadVocabulary(model.Member("vocab"), builder));
  DS_ASSIGN_OR_RETURN(const JsonAt merges, model.Array("merges"));
  DS_RETURN_IF_ERROR(
      ReadMerges(merges, spec->continuing_prefix.size(), builder));
  if (spec->byte_fallback) NoteMissingBytes(model, *builder, notes);
  return ReadUnknown(model, *builder, spec);
}

// A score as the published library reads it: its JSON reader takes the digits
// as an integer and divides by a power of ten, which rounds twice. Cuts of
// equal probability are told apart by such a last bit.
double ScoreAsPublished(double exact) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof(text), std::abs(exact),
                                 std::chars_format::scientific);
  uint64_t digits = 0;
  int exponent = 0;
  bool fraction = false;
  for (const char* p = text; p < end.ptr; ++p) {
    if (*p == 'e') {
      int written = 0;
      p += p[1] == '+' ? 2 : 1;
      std::from_chars(p, end.ptr, written);
      exponent += written;
      break;
    }
    if (*p == '.') {
      fraction = true;
      continue;
    }
    digits = digits * 10 + static_cast<uint64_t>(*p - '0');
    exponent -= fraction;
  }
  double value = static_cast<double>(digits);
  if (exponent >= 0 || exponent < -300) return exact;
  value /= std::pow(10.0, -exponent);
  return exact < 0 ? -value : value;
}

absl::Status ReadUnigram(const JsonAt& model, TokenizerBuilder* builder,
                         TokenizerSpec* spec, std::vector<std::string>* notes) {
  DS_RETURN_IF_ERROR(
      model.OnlyMembers({"type", "unk_id", "vocab", "byte_fallback"}));
  spec->model = ModelKind::kUnigram;
  spec->fuse_unk = true;
  DS_ASSIGN_OR_RETURN(spec->byte_fallback,
                      model.BoolOr("byte_fallback", false));
  DS_ASSIGN_OR_RETURN(const JsonAt vocab, model.Array("vocab"));
  const auto& items = vocab.value->items();
  builder->Expect(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    const auto& pair = items[i].items();
    if (!items[i].is_array() || pair.size() != 2 || !pair[0].is_string() ||
        !pair[1].is_number() || !std::isfinite(pair[1].as_double())) {
      return vocab.Item(i).Invalid(
          "must be a token and its score, as [\"a\", -1.5]");
    }
    DS_RETURN_IF_ERROR(Annotate(
        builder->AddModelToken(pair[0].as_string(), static_cast<int64_t>(i)),
        "tokenizer.json: ", vocab.path));
    spec->scores.push_back(ScoreAsPublished(pair[1].as_double()));
  }
  if (spec->scores.empty()) {
    return vocab.Invalid("is empty; must hold tokens");
  }
  const JsonAt unk = model.Member("unk_id");
  if (!unk.is_null()) {
    DS_RETURN_IF_ERROR(unk.Expect(json::Kind::kInt));
    const int64_t id = unk.value->as_int();
    if (id < 0 || id >= static_cast<int64_t>(items.size())) {
      return unk.Invalid(absl::StrCat("is ", id, "; the vocabulary has ",
                                      items.size(), " tokens"));
    }
    spec->unk_id = static_cast<int32_t>(id);
  }
  if (spec->byte_fallback) NoteMissingBytes(model, *builder, notes);
  return absl::OkStatus();
}

absl::Status ReadWordPiece(const JsonAt& model, TokenizerBuilder* builder,
                           TokenizerSpec* spec) {
  DS_RETURN_IF_ERROR(
      model.OnlyMembers({"type", "unk_token", "continuing_subword_prefix",
                         "max_input_chars_per_word", "vocab"}));
  spec->model = ModelKind::kWordPiece;
  DS_ASSIGN_OR_RETURN(spec->continuing_prefix,
                      Affix(model, "continuing_subword_prefix"));
  DS_ASSIGN_OR_RETURN(const int64_t most,
                      model.Int("max_input_chars_per_word"));
  if (most < 0) {
    return model.Member("max_input_chars_per_word")
        .Invalid(absl::StrCat("is ", most, "; must be 0 or more"));
  }
  spec->max_word_chars =
      static_cast<uint32_t>(std::min<int64_t>(most, UINT32_MAX));
  DS_RETURN_IF_ERROR(ReadVocabulary(model.Member("vocab"), builder));
  return ReadUnknown(model, *builder, spec);
}

absl::Status ReadWordLevel(const JsonAt& model, TokenizerBuilder* builder,
                           TokenizerSpec* spec) {
  DS_RETURN_IF_ERROR(model.OnlyMembers({"type", "unk_token", "vocab"}));
  spec->model = ModelKind::kWordLevel;
  DS_RETURN_IF_ERROR(ReadVocabulary(model.Member("vocab"), builder));
  return ReadUnknown(model, *builder, spec);
}

// Old files leave the type out; it shows in the other members.
absl::StatusOr<std::string> TypeOf(const JsonAt& model) {
  const JsonAt type = model.Member("type");
  if (!type.is_null()) return model.String("type");
  if (!model.Member("merges").is_null()) return std::string("BPE");
  const JsonAt vocab = model.Member("vocab");
  if (!vocab.is_null() && vocab.value->is_array()) {
    return std::string("Unigram");
  }
  if (!model.Member("max_input_chars_per_word").is_null()) {
    return std::string("WordPiece");
  }
  if (!vocab.is_null() && !model.Member("unk_token").is_null()) {
    return std::string("WordLevel");
  }
  return type.Invalid(
      "is missing; must be BPE, Unigram, WordLevel or WordPiece");
}

}  // namespace

absl::Status ReadJsonModel(const JsonAt& model, TokenizerBuilder* builder,
                           TokenizerSpec* spec,
                           std::vector<std::string>* notes) {
  DS_RETURN_IF_ERROR(model.Expect(json::Kind::kObject));
  DS_ASSIGN_OR_RETURN(const std::string type, TypeOf(model));
  if (type == "BPE") return ReadBpe(model, builder, spec, notes);
  if (type == "Unigram") return ReadUnigram(model, builder, spec, notes);
  if (type == "WordPiece") return ReadWordPiece(model, builder, spec);
  if (type == "WordLevel") return ReadWordLevel(model, builder, spec);
  return model.Member("type").NotSupported(
      absl::StrCat("model \"", ShownText(type),
                   "\" is not supported; supported are BPE, Unigram, "
                   "WordLevel and WordPiece"));
}

}  // namespace deepslice
