// Reads the tokenizer in GGUF's metadata: vocabulary and merges are there, the
// pre-tokenizer only by name.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/text/split_scanner.h"
#include "runtime/text/tokenizer_builder.h"
#include "runtime/text/tokenizer_tables.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// What a name stands for: the components of the tokenizer.json from which such
// files are converted. Names whose origin is not sure are left out, because
// another cut gives other ids without a sign.
struct PreTokenizerName {
  absl::string_view name;
  bool nfc;
  bool individual_digits;
  const absl::string_view* pattern;  // null: ByteLevel's own
  bool ignore_merges;
  bool add_bos;  // where the file does not say
};
constexpr PreTokenizerName kNames[] = {
    {"gpt-2", false, false, nullptr, false, false},
    {"phi-2", false, false, nullptr, false, false},
    {"smollm", false, true, nullptr, false, false},
    {"starcoder", false, true, nullptr, false, false},
    {"refact", false, true, nullptr, false, false},
    {"llama-bpe", false, false, &kLlama3Pattern, true, true},
    {"llama3", false, false, &kLlama3Pattern, true, true},
    {"llama-v3", false, false, &kLlama3Pattern, true, true},
    {"qwen2", true, false, &kQwen2Pattern, false, false},
};

// tokenizer.ggml.token_type.
enum TokenType : int64_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
};

class GgufReader {
 public:
  explicit GgufReader(const json::Value& metadata) : metadata_(metadata) {}

  absl::StatusOr<TokenizerTables> Read() {
    DS_RETURN_IF_ERROR(CheckModel());
    DS_RETURN_IF_ERROR(ReadPreTokenizer());
    DS_RETURN_IF_ERROR(ReadTokens());
    DS_RETURN_IF_ERROR(ReadMerges());
    builder_.Finish(&spec_);
    spec_.decoders = {{DecoderKind::kByteLevel}};
    DS_RETURN_IF_ERROR(ReadSpecial());
    tables_.bytes = SerializeTokenizer(spec_);
    return std::move(tables_);
  }

 private:
  static std::string Key(absl::string_view name) {
    return absl::StrCat("tokenizer.ggml.", name);
  }
  const json::Value* Get(absl::string_view name) const {
    return metadata_.Find(Key(name));
  }
  static absl::Status Invalid(absl::string_view name, absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(Key(name), ": ", what));
  }
  absl::StatusOr<const json::Value*> Need(absl::string_view name,
                                          json::Kind kind) const {
    const json::Value* v = Get(name);
    if (v && v->kind() == kind) return v;
    return Invalid(
        name, absl::StrCat("is ", v ? json::KindName(v->kind()) : "missing",
                           "; must be ", json::KindName(kind)));
  }

  absl::Status CheckModel() const {
    DS_ASSIGN_OR_RETURN(const json::Value* model,
                        Need("model", json::Kind::kString));
    if (model->as_string() == "gpt2") return absl::OkStatus();
    return absl::UnimplementedError(
        absl::StrCat(Key("model"), ": vocabulary kind \"", model->as_string(),
                     "\" is not supported; supported is gpt2"));
  }

  absl::Status ReadPreTokenizer() {
    const json::Value* pre = Get("pre");
    const std::string name =
        pre && pre->is_string() ? pre->as_string() : std::string();
    for (const PreTokenizerName& known : kNames) {
      if (name != known.name) continue;
      if (known.nfc) spec_.normalizers = {{NormalizerKind::kNfc}};
      if (known.individual_digits) {
        PreTokenizerStep digits;
        digits.kind = PreTokenizerKind::kDigits;
        digits.individual_digits = true;
        spec_.pre_tokenizers.push_back(digits);
      }
      if (known.pattern != nullptr) {
        PreTokenizerStep split;
        split.kind = PreTokenizerKind::kSplit;
        split.pattern = std::string(*known.pattern);
        split.is_regex = true;
        spec_.pre_tokenizers.push_back(split);
      }
      PreTokenizerStep bytes;
      bytes.kind = PreTokenizerKind::kByteLevel;
      bytes.use_regex = known.pattern == nullptr;
      DS_ASSIGN_OR_RETURN(bytes.add_prefix_space,
                          Flag("add_space_prefix", false));
      spec_.pre_tokenizers.push_back(bytes);
      spec_.ignore_merges = known.ignore_merges;
      add_bos_ = known.add_bos;
      return absl::OkStatus();
    }
    const std::string names = absl::StrJoin(
        kNames, ", ", [](std::string* out, const PreTokenizerName& n) {
          absl::StrAppend(out, n.name);
        });
    return absl::UnimplementedError(absl::StrCat(
        Key("pre"), ": ",
        pre ? absl::StrCat("pre-tokenizer \"", name, "\" is not known")
            : "is missing, so the cut into words is not known",
        "; known are ", names, "; a guess would give wrong ids"));
  }

  absl::Status ReadTokens() {
    DS_ASSIGN_OR_RETURN(const json::Value* tokens,
                        Need("tokens", json::Kind::kArray));
    const json::Value* types = Get("token_type");
    const size_t n = tokens->items().size();
    if (n == 0) return Invalid("tokens", "is empty");
    if (types && (!types->is_array() || types->items().size() != n)) {
      return Invalid(
          "token_type",
          absl::StrCat("has ", types->items().size(), " entries; tokens has ",
                       n, ", and there must be one for each"));
    }
    for (size_t i = 0; i < n; ++i) {
      const json::Value& token = tokens->items()[i];
      const json::Value* type = types ? &types->items()[i] : nullptr;
      if (!token.is_string() || (type && !type->is_int())) {
        return Invalid("tokens",
                       absl::StrCat("entry ", i, " is no text with a type"));
      }
      DS_RETURN_IF_ERROR(Annotate(
          AddToken(token.as_string(), static_cast<int64_t>(i),
                   type ? type->as_int() : static_cast<int64_t>(kNormal)),
          Key("tokens")));
    }
    if (const int32_t missing = builder_.CountMissingBytes(); missing > 0) {
      tables_.notes.push_back(
          absl::StrCat(Key("tokens"), ": ", missing,
                       " of the 256 bytes have no token and are dropped"));
    }
    return absl::OkStatus();
  }

  absl::Status AddToken(absl::string_view text, int64_t id, int64_t type) {
    AddedToken added;
    switch (type) {
      case kNormal:
        return builder_.AddModelToken(text, id);
      case kUnknown:
      case kControl:
        added.special = true;
        return builder_.AddAddedToken(text, id, added);
      case kUserDefined:
        return builder_.AddAddedToken(text, id, added);
      case kUnused:
        return builder_.AddUnusedToken(text, id);
      default:
        return absl::InvalidArgumentError(
            absl::StrCat("token ", id, " has type ", type,
                         "; in a gpt2 vocabulary 1 to 5 are known"));
    }
  }

  absl::Status ReadMerges() {
    DS_ASSIGN_OR_RETURN(const json::Value* merges,
                        Need("merges", json::Kind::kArray));
    for (size_t i = 0; i < merges->items().size(); ++i) {
      const json::Value& merge = merges->items()[i];
      const absl::string_view text = merge.as_string();
      const size_t space = text.find(' ');
      if (!merge.is_string() || space == text.npos ||
          text.find(' ', space + 1) != text.npos) {
        return Invalid("merges", absl::StrCat("entry ", i, " (\"", text,
                                              "\") must be two tokens with a "
                                              "space between them"));
      }
      DS_RETURN_IF_ERROR(Annotate(
          builder_.AddMerge(text.substr(0, space), text.substr(space + 1)),
          Key("merges")));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<bool> Flag(absl::string_view name, bool fallback) const {
    const json::Value* v = Get(name);
    if (!v) return fallback;
    if (!v->is_bool()) {
      return Invalid(name, absl::StrCat("is ", json::KindName(v->kind()),
                                        "; must be a boolean"));
    }
    return v->as_bool();
  }

  absl::StatusOr<int32_t> TokenId(absl::string_view name) const {
    const json::Value* v = Get(name);
    if (!v) return -1;
    if (!v->is_int() || v->as_int() < 0 || v->as_int() >= spec_.vocab_size()) {
      return Invalid(name, absl::StrCat("is ", json::Write(*v),
                                        "; must be an id of the vocabulary of ",
                                        spec_.vocab_size(), " tokens"));
    }
    return static_cast<int32_t>(v->as_int());
  }

  absl::Status ReadSpecial() {
    DS_ASSIGN_OR_RETURN(spec_.bos_id, TokenId("bos_token_id"));
    DS_ASSIGN_OR_RETURN(spec_.eos_id, TokenId("eos_token_id"));
    DS_ASSIGN_OR_RETURN(const bool bos, Flag("add_bos_token", add_bos_));
    DS_ASSIGN_OR_RETURN(const bool eos, Flag("add_eos_token", false));
    for (const bool first : {true, false}) {
      if (!(first ? bos : eos)) continue;
      const int32_t id = first ? spec_.bos_id : spec_.eos_id;
      if (id < 0) {
        return Invalid(
            first ? "add_bos_token" : "add_eos_token",
            absl::StrCat("is set, but ",
                         Key(first ? "bos_token_id" : "eos_token_id"),
                         " is missing"));
      }
      (first ? spec_.prefix_ids : spec_.suffix_ids) = {id};
    }
    return absl::OkStatus();
  }

  const json::Value& metadata_;
  TokenizerBuilder builder_;
  TokenizerSpec spec_;
  TokenizerTables tables_;
  bool add_bos_ = false;
};

}  // namespace

absl::StatusOr<TokenizerTables> ReadTokenizerGguf(const json::Value& metadata) {
  return GgufReader(metadata).Read();
}

}  // namespace deepslice
