// Reads a sentencepiece model file, as sentencepiece encodes by it or, where
// the model's class is known, as that class does.
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "runtime/text/json_at.h"
#include "runtime/text/sentencepiece_proto.h"
#include "runtime/text/sentencepiece_spec.h"
#include "runtime/text/tokenizer_builder.h"
#include "runtime/text/tokenizer_config.h"
#include "runtime/text/tokenizer_tables.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// What a class of the transformers library puts around a text by default.
struct ClassRule {
  absl::string_view name;
  bool add_bos;
  bool add_eos;
  int64_t extra_ids;  // <extra_id_0>, ... that the class adds by itself
};
constexpr ClassRule kClasses[] = {
    {"LlamaTokenizer", true, false, 0},
    {"CodeLlamaTokenizer", true, false, 0},
    {"GemmaTokenizer", true, false, 0},
    {"T5Tokenizer", false, true, 100},
};
// By model_type of config.json, when no class is named.
constexpr std::pair<absl::string_view, absl::string_view> kModelTypes[] = {
    {"llama", "LlamaTokenizer"},   {"mistral", "LlamaTokenizer"},
    {"mixtral", "LlamaTokenizer"}, {"gemma", "GemmaTokenizer"},
    {"gemma2", "GemmaTokenizer"},  {"gemma3_text", "GemmaTokenizer"},
    {"t5", "T5Tokenizer"},         {"mt5", "T5Tokenizer"},
};

// Null when nothing says which class it is: sentencepiece's own rules.
absl::StatusOr<const ClassRule*> ClassOf(const json::Value& config,
                                         absl::string_view model_type) {
  std::string name;
  if (const json::Value* v = config.Find("tokenizer_class");
      v != nullptr && v->is_string()) {
    name = v->as_string();
  }
  absl::string_view plain = name;
  absl::ConsumeSuffix(&plain, "Fast");
  const bool generic = name.empty() || plain == "PreTrainedTokenizer" ||
                       name == "TokenizersBackend";
  if (generic) {
    for (const auto& [type, class_name] : kModelTypes) {
      if (model_type == type) plain = class_name;
    }
  }
  for (const ClassRule& rule : kClasses) {
    if (plain == rule.name) return &rule;
  }
  if (generic) return nullptr;
  return absl::UnimplementedError(absl::StrCat(
      "tokenizer_config.json: tokenizer_class \"", name,
      "\" is not supported beside a sentencepiece model, whose ids it may "
      "renumber; supported are CodeLlamaTokenizer, GemmaTokenizer, "
      "LlamaTokenizer and T5Tokenizer: save it with its tokenizer.json"));
}

class Reader {
 public:
  Reader(const json::Value& config, const ClassRule* rule)
      : config_(config), rule_(rule) {}

  absl::StatusOr<TokenizerTables> Read(absl::string_view bytes) {
    DS_ASSIGN_OR_RETURN(model_, ParseSentencePieceModel(bytes));
    const ControlTokens control =
        rule_ == nullptr ? ControlTokens::kText : ControlTokens::kToken;
    DS_RETURN_IF_ERROR(AddPieces(model_, control, &builder_));
    if (rule_ != nullptr) {
      DS_RETURN_IF_ERROR(AddDeclaredTokens(config_, &builder_, &declared_));
      DS_RETURN_IF_ERROR(AddExtraIds());
      DS_RETURN_IF_ERROR(AddControlTokens());
    }
    builder_.Finish(&spec_);
    DS_RETURN_IF_ERROR(FillSentencePieceSpec(model_, control, &spec_));
    DS_RETURN_IF_ERROR(PlaceSpecial());
    tables_.bytes = SerializeTokenizer(spec_);
    return std::move(tables_);
  }

 private:
  static absl::Status Invalid(absl::string_view path, absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("tokenizer_config.json: ", path, ": ", what));
  }

  // T5's sentinels, from the end of the vocabulary backwards.
  absl::Status AddExtraIds() {
    int64_t n = rule_->extra_ids;
    if (const json::Value* v = config_.Find("extra_ids");
        v != nullptr && v->is_int()) {
      n = v->as_int();
    }
    if (declared_ || n == 0) return absl::OkStatus();
    if (n < 0 || n > 65536) {
      return Invalid("extra_ids",
                     absl::StrCat("is ", n, "; must be 0 to 65536"));
    }
    const int64_t pieces = static_cast<int64_t>(model_.pieces.size());
    for (int64_t i = 0; i < n; ++i) {
      AddedToken token;
      token.special = true;
      DS_RETURN_IF_ERROR(builder_.AddAddedToken(
          absl::StrCat("<extra_id_", i, ">"), pieces + n - 1 - i, token));
    }
    return absl::OkStatus();
  }

  absl::Status AddControlTokens() {
    for (size_t i = 0; i < model_.pieces.size(); ++i) {
      const SentencePieceModel::Piece& p = model_.pieces[i];
      if ((p.type != PieceType::kControl && p.type != PieceType::kUnknown) ||
          builder_.IsAdded(static_cast<int32_t>(i))) {
        continue;
      }
      AddedToken token;
      token.special = true;
      DS_RETURN_IF_ERROR(
          builder_.AddAddedToken(p.text, static_cast<int64_t>(i), token));
    }
    return absl::OkStatus();
  }

  absl::Status PlaceSpecial() {
    const auto control = [&](absl::string_view text) {
      const int32_t id = builder_.Find(text);
      return id >= 0 && id < static_cast<int32_t>(model_.pieces.size()) &&
                     model_.pieces[id].type == PieceType::kControl
                 ? id
                 : -1;
    };
    spec_.bos_id = control(model_.bos_piece);
    spec_.eos_id = control(model_.eos_piece);
    if (rule_ == nullptr) return absl::OkStatus();
    DS_RETURN_IF_ERROR(
        NameSpecialTokens(config_, builder_, &spec_, &tables_.notes));
    if (rule_->add_bos && spec_.bos_id >= 0) spec_.prefix_ids = {spec_.bos_id};
    if (rule_->add_eos && spec_.eos_id >= 0) spec_.suffix_ids = {spec_.eos_id};
    if (const json::Value* legacy = config_.Find("legacy");
        legacy != nullptr && legacy->is_bool() && !legacy->as_bool()) {
      // Only the very start of a text gets a space.
      spec_.normalizers[0].flags |= NormalizerStep::kSpmPrefixFirstOnly;
    }
    std::vector<std::string> by_design;  // the class's own flags
    return PlaceSpecialTokens(config_, &spec_, &by_design);
  }

  const json::Value& config_;
  const ClassRule* rule_;
  SentencePieceModel model_;
  TokenizerBuilder builder_;
  TokenizerSpec spec_;
  TokenizerTables tables_;
  bool declared_ = false;
};

}  // namespace

absl::StatusOr<TokenizerTables> ReadTokenizerSentencePiece(
    absl::string_view bytes, const json::Value& tokenizer_config,
    absl::string_view model_type) {
  DS_ASSIGN_OR_RETURN(const ClassRule* rule,
                      ClassOf(tokenizer_config, model_type));
  return Reader(tokenizer_config, rule).Read(bytes);
}

}  // namespace deepslice
