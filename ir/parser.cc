// Recursive descent, one function per phrase of the text form (printer.h).
#include "ir/parser.h"

#include <charconv>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/lexer.h"
#include "ir/names.h"
#include "ir/shape_rules.h"
#include "ir/text_spelling.h"
#include "schema/base/limits.h"
#include "schema/base/nearest.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

template <typename T>
bool ReadNumber(absl::string_view text, T* out) {
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size();
}

class Parser {
 public:
  Parser(absl::string_view text, absl::string_view file) : lexer_(text, file) {}

  absl::StatusOr<Graph> Run() {
    DS_RETURN_IF_ERROR(EatWord("graph"));
    DS_ASSIGN_OR_RETURN(graph_.name, Name(Token::kSymbol, "@name"));
    DS_RETURN_IF_ERROR(Eat('{'));
    bool returned = false;
    while (!lexer_.Peek().Is('}')) {
      const Token& next = lexer_.Peek();
      if (returned) return lexer_.Expected(next, "'}' after return");
      if (next.IsWord("param")) {
        DS_RETURN_IF_ERROR(Param());
      } else if (next.IsWord("weight")) {
        DS_RETURN_IF_ERROR(ParseWeight());
      } else if (next.IsWord("state")) {
        DS_RETURN_IF_ERROR(ParseState());
      } else if (next.IsWord("return")) {
        DS_RETURN_IF_ERROR(Return());
        returned = true;
      } else if (next.kind == Token::kValue) {
        DS_RETURN_IF_ERROR(ParseNode());
      } else {
        return lexer_.Expected(
            next, "param, weight, state, return, %name or '}'");
      }
    }
    DS_RETURN_IF_ERROR(Eat('}'));
    if (lexer_.Peek().kind != Token::kEnd) {
      return lexer_.Expected(lexer_.Peek(), "end of text after the graph");
    }
    return std::move(graph_);
  }

 private:
  // ---- words and punctuation -----------------------------------------------

  absl::Status Eat(char c) {
    if (!lexer_.Peek().Is(c)) {
      return lexer_.Expected(lexer_.Peek(),
                             absl::StrCat("'", std::string(1, c), "'"));
    }
    lexer_.Take();
    return absl::OkStatus();
  }
  bool TryEat(char c) {
    if (!lexer_.Peek().Is(c)) return false;
    lexer_.Take();
    return true;
  }
  absl::Status EatWord(absl::string_view word) {
    if (!lexer_.Peek().IsWord(word)) {
      return lexer_.Expected(lexer_.Peek(), absl::StrCat("'", word, "'"));
    }
    lexer_.Take();
    return absl::OkStatus();
  }
  bool TryEatWord(absl::string_view word) {
    if (!lexer_.Peek().IsWord(word)) return false;
    lexer_.Take();
    return true;
  }
  // item {',' item} ')'.
  template <typename Item>
  absl::Status ListUntil(char close, Item item) {
    do {
      DS_RETURN_IF_ERROR(item());
    } while (TryEat(','));
    if (lexer_.Peek().Is(close)) return Eat(close);
    return lexer_.Expected(lexer_.Peek(), absl::StrCat("',' or '",
                                                       std::string(1, close),
                                                       "'"));
  }

  absl::StatusOr<std::string> Name(Token::Kind kind, absl::string_view what) {
    const Token token = lexer_.Take();
    if (token.kind != kind) return lexer_.Expected(token, what);
    if (static_cast<int64_t>(token.value.size()) > limits::kTensorNameBytes) {
      return lexer_.ErrorAt(
          token, absl::StrCat("expected a name of at most ",
                              limits::kTensorNameBytes, " bytes, got ",
                              token.value.size()));
    }
    return token.value;
  }
  absl::StatusOr<std::string> Identifier(absl::string_view what) {
    const Token token = lexer_.Take();
    if (token.kind != Token::kIdentifier ||
        static_cast<int64_t>(token.text.size()) > limits::kTensorNameBytes) {
      return lexer_.Expected(token, what);
    }
    return std::string(token.text);
  }

  // A name of `names_` that is not taken yet.
  absl::StatusOr<std::string> NewName(Token::Kind kind, absl::string_view what,
                                      absl::flat_hash_map<std::string, int>&
                                          lines) {
    const Token token = lexer_.Peek();
    DS_ASSIGN_OR_RETURN(std::string name, Name(kind, what));
    const auto [it, is_new] = lines.emplace(name, token.line);
    if (!is_new) {
      return lexer_.Expected(token, absl::StrCat("a new name (line ",
                                                 it->second, " has it)"));
    }
    return name;
  }

  absl::StatusOr<int64_t> Integer(absl::string_view what, int64_t lo,
                                  int64_t hi) {
    const Token token = lexer_.Take();
    int64_t number = 0;
    if (token.kind != Token::kNumber || !ReadNumber(token.text, &number) ||
        number < lo || number > hi) {
      return lexer_.Expected(token,
                             absl::StrCat(what, " from ", lo, " to ", hi));
    }
    return number;
  }
  absl::StatusOr<double> Real() {
    const Token token = lexer_.Take();
    double number = 0;
    if (token.kind != Token::kNumber || !ReadNumber(token.text, &number)) {
      return lexer_.Expected(token, "a number");
    }
    return number;
  }
  absl::StatusOr<int> OneOf(absl::Span<const absl::string_view> names) {
    const Token token = lexer_.Take();
    for (size_t i = 0; i < names.size(); ++i) {
      if (token.IsWord(names[i])) return static_cast<int>(i);
    }
    return lexer_.Expected(
        token, absl::StrCat("one of ", absl::StrJoin(names, ", ")));
  }

  // ---- declarations --------------------------------------------------------

  // f32[T, 64]
  absl::StatusOr<TensorType> Type() {
    const Token token = lexer_.Take();
    const std::optional<DType> dtype =
        token.kind == Token::kIdentifier ? ParseDType(token.text)
                                         : std::nullopt;
    if (!dtype.has_value()) return lexer_.Expected(token, "a type like f32[T]");
    TensorType type{*dtype, {}};
    DS_RETURN_IF_ERROR(Eat('['));
    if (TryEat(']')) return type;
    DS_RETURN_IF_ERROR(ListUntil(']', [&]() -> absl::Status {
      if (type.rank() == limits::kTensorRank) {
        return lexer_.Expected(
            lexer_.Peek(),
            absl::StrCat("at most ", limits::kTensorRank, " dims"));
      }
      if (lexer_.Peek().kind == Token::kIdentifier) {
        DS_ASSIGN_OR_RETURN(std::string symbol, Identifier("a dim"));
        type.dims.emplace_back(std::move(symbol));
      } else {
        DS_ASSIGN_OR_RETURN(
            const int64_t size,
            Integer("a dim: a symbol or a number", 0, limits::kTensorBytes));
        type.dims.emplace_back(size);
      }
      return absl::OkStatus();
    }));
    return type;
  }

  absl::Status Param() {
    DS_RETURN_IF_ERROR(EatWord("param"));
    DS_ASSIGN_OR_RETURN(const std::string name,
                        NewName(Token::kValue, "%name", value_lines_));
    DS_RETURN_IF_ERROR(Eat(':'));
    DS_ASSIGN_OR_RETURN(TensorType type, Type());
    values_[name] = graph_.AddParam(name, std::move(type));
    return absl::OkStatus();
  }

  absl::StatusOr<Encoding> ParseEncodingName() {
    const Token token = lexer_.Take();
    const std::optional<Encoding> encoding =
        token.kind == Token::kIdentifier ? ParseEncoding(token.text)
                                         : std::nullopt;
    if (!encoding.has_value()) {
      std::vector<absl::string_view> names;
      for (int e = 0; e < kNumEncodings; ++e) {
        names.push_back(EncodingName(static_cast<Encoding>(e)));
      }
      return lexer_.Expected(
          token, absl::StrCat("one of ", absl::StrJoin(names, ", ")));
    }
    return *encoding;
  }

  absl::Status ParseWeight() {
    DS_RETURN_IF_ERROR(EatWord("weight"));
    DS_ASSIGN_OR_RETURN(const std::string name,
                        NewName(Token::kSymbol, "@name", symbol_lines_));
    DS_RETURN_IF_ERROR(Eat(':'));
    DS_ASSIGN_OR_RETURN(TensorType type, Type());
    DS_RETURN_IF_ERROR(EatWord("role"));
    DS_RETURN_IF_ERROR(Eat('('));
    const Token role_token = lexer_.Take();
    const std::optional<Role> role = ParseRole(role_token.text);
    if (!role.has_value()) {
      std::vector<absl::string_view> names;
      for (const RoleDef& r : kRoles) names.push_back(r.spelling);
      return lexer_.Expected(role_token, WithHint("a role", role_token, names));
    }
    DS_RETURN_IF_ERROR(Eat(')'));
    Weight* weight = graph_.AddWeight(name, std::move(type), *role);
    weights_[name] = weight;
    if (TryEatWord("encoding")) {
      DS_RETURN_IF_ERROR(Eat('('));
      DS_ASSIGN_OR_RETURN(weight->encoding, ParseEncodingName());
      DS_RETURN_IF_ERROR(Eat(')'));
    }
    return TryEat('=') ? Source(&weight->source) : absl::OkStatus();
  }

  // A piece, concat(pieces), interleave(pieces) or formula(name=number, ...).
  absl::Status Source(WeightSource* source) {
    const Token& next = lexer_.Peek();
    if (next.kind == Token::kString || next.IsWord("transpose")) {
      return Piece(source);
    }
    source->interleaved = next.IsWord("interleave");
    const bool joined = source->interleaved || next.IsWord("concat");
    DS_ASSIGN_OR_RETURN(
        std::string word,
        Identifier("\"tensor\", transpose, concat, interleave or a formula"));
    DS_RETURN_IF_ERROR(Eat('('));
    if (joined) return ListUntil(')', [&] { return Piece(source); });
    source->formula = std::move(word);
    if (TryEat(')')) return absl::OkStatus();
    return ListUntil(')', [&]() -> absl::Status {
      DS_ASSIGN_OR_RETURN(std::string name, Identifier("an argument's name"));
      DS_RETURN_IF_ERROR(Eat('='));
      DS_ASSIGN_OR_RETURN(const double number, Real());
      source->arguments.emplace_back(std::move(name), number);
      return absl::OkStatus();
    });
  }

  // [transpose] "tensor"[0:172, 0:64]
  absl::Status Piece(WeightSource* source) {
    SourcePiece piece;
    piece.transposed = TryEatWord("transpose");
    DS_ASSIGN_OR_RETURN(piece.tensor,
                        Name(Token::kString, "a tensor's name in quotes"));
    DS_RETURN_IF_ERROR(Eat('['));
    DS_RETURN_IF_ERROR(ParseRange(&piece.rows));
    piece.cols = {0, 1};
    if (TryEat(',')) DS_RETURN_IF_ERROR(ParseRange(&piece.cols));
    source->pieces.push_back(std::move(piece));
    return Eat(']');
  }
  absl::Status ParseRange(Range* range) {
    DS_ASSIGN_OR_RETURN(range->begin,
                        Integer("an index", 0, limits::kTensorBytes));
    DS_RETURN_IF_ERROR(Eat(':'));
    DS_ASSIGN_OR_RETURN(
        range->end, Integer("an index", range->begin, limits::kTensorBytes));
    return absl::OkStatus();
  }

  absl::Status ParseState() {
    DS_RETURN_IF_ERROR(EatWord("state"));
    DS_ASSIGN_OR_RETURN(const std::string name,
                        NewName(Token::kSymbol, "@name", symbol_lines_));
    DS_RETURN_IF_ERROR(Eat(':'));
    DS_ASSIGN_OR_RETURN(const int kind, OneOf(kStateKindNames));
    DS_RETURN_IF_ERROR(Eat('('));
    DS_RETURN_IF_ERROR(EatWord("kv_heads"));
    DS_RETURN_IF_ERROR(Eat('='));
    DS_ASSIGN_OR_RETURN(const int64_t kv_heads,
                        Integer("a count", 0, limits::kHeads));
    DS_RETURN_IF_ERROR(Eat(','));
    DS_RETURN_IF_ERROR(EatWord("head_dim"));
    DS_RETURN_IF_ERROR(Eat('='));
    DS_ASSIGN_OR_RETURN(const int64_t head_dim,
                        Integer("a size", 1, limits::kHiddenSize));
    DS_RETURN_IF_ERROR(Eat(','));
    DS_RETURN_IF_ERROR(EatWord("encoding"));
    DS_RETURN_IF_ERROR(Eat('='));
    DS_ASSIGN_OR_RETURN(const Encoding encoding, ParseEncodingName());
    State* state = graph_.AddState(name, static_cast<StateKind>(kind), kv_heads,
                                   head_dim);
    state->encoding = encoding;
    states_[name] = state;
    return Eat(')');
  }

  // ---- nodes ---------------------------------------------------------------

  static std::string WithHint(absl::string_view what, const Token& got,
                              const std::vector<absl::string_view>& names) {
    const std::string nearest = NearestName(got.text, names);
    return nearest.empty() ? std::string(what)
                           : absl::StrCat(what, " (", nearest, "?)");
  }

  absl::StatusOr<const OpDef*> Op() {
    const Token token = lexer_.Take();
    const OpDef* def = token.kind == Token::kIdentifier
                           ? FindOpBySpelling(token.text)
                           : nullptr;
    if (def != nullptr) return def;
    std::vector<absl::string_view> names;
    for (const OpDef& op : AllOps()) names.push_back(op.spelling);
    return lexer_.Expected(token, WithHint("an op", token, names));
  }

  absl::StatusOr<Operand> ParseOperand() {
    const Token token = lexer_.Take();
    if (token.kind == Token::kValue) {
      const auto it = values_.find(token.value);
      if (it != values_.end()) return Operand(it->second);
      return lexer_.Expected(token, "a value defined above");
    }
    if (token.kind == Token::kSymbol) {
      const auto it = weights_.find(token.value);
      if (it != weights_.end()) return Operand(it->second);
      return lexer_.Expected(token, "a weight declared above");
    }
    return lexer_.Expected(token, "an operand: %value or @weight");
  }

  // Required operands in table order, then name=operand for the others.
  absl::Status Operands(Node* node) {
    const OpDef& def = node->def();
    DS_RETURN_IF_ERROR(Eat('('));
    size_t position = 0;
    DS_RETURN_IF_ERROR(ListUntil(')', [&]() -> absl::Status {
      const Token name = lexer_.Peek();
      size_t i = position;
      if (i < def.operands.size() && !def.operands[i].optional) {
        ++position;
      } else {
        std::vector<absl::string_view> left;
        for (i = 0; i < def.operands.size(); ++i) {
          if (!def.operands[i].optional || node->operands[i].present()) {
            continue;
          }
          if (name.IsWord(def.operands[i].name)) break;
          left.push_back(def.operands[i].name);
        }
        if (i == def.operands.size()) {
          return lexer_.Expected(
              name, left.empty()
                        ? "no more operands"
                        : absl::StrCat(absl::StrJoin(left, "= or "), "="));
        }
        lexer_.Take();
        DS_RETURN_IF_ERROR(Eat('='));
      }
      DS_ASSIGN_OR_RETURN(node->operands[i], ParseOperand());
      return absl::OkStatus();
    }));
    return absl::OkStatus();
  }

  absl::Status AttrValue(const AttrDef& def, Attr* attr) {
    switch (def.type) {
      case AttrType::kI64: {
        DS_ASSIGN_OR_RETURN(attr->i, Integer("an integer", INT64_MIN,
                                             INT64_MAX));
        return absl::OkStatus();
      }
      case AttrType::kF64: {
        DS_ASSIGN_OR_RETURN(attr->f, Real());
        return absl::OkStatus();
      }
      case AttrType::kEnum: {
        DS_ASSIGN_OR_RETURN(attr->i, OneOf(EnumValues(def.enum_name)));
        return absl::OkStatus();
      }
    }
    return absl::OkStatus();
  }

  // {heads=6, scale=0.5}: each attribute of the table once, in any order.
  absl::Status Attributes(Node* node) {
    const OpDef& def = node->def();
    if (def.attrs.empty()) return absl::OkStatus();
    DS_RETURN_IF_ERROR(Eat('{'));
    std::vector<bool> seen(def.attrs.size());
    const auto missing = [&] {
      std::vector<absl::string_view> names;
      for (size_t a = 0; a < seen.size(); ++a) {
        if (!seen[a]) names.push_back(def.attrs[a].name);
      }
      return absl::StrJoin(names, "= or ");
    };
    do {
      const Token name = lexer_.Take();
      size_t a = 0;
      while (a < seen.size() && (seen[a] || !name.IsWord(def.attrs[a].name))) {
        ++a;
      }
      if (a == seen.size()) {
        const std::string names = missing();
        return lexer_.Expected(
            name, names.empty() ? "'}'" : absl::StrCat(names, "="));
      }
      seen[a] = true;
      DS_RETURN_IF_ERROR(Eat('='));
      DS_RETURN_IF_ERROR(AttrValue(def.attrs[a], &node->attrs[a]));
    } while (TryEat(','));
    const std::string names = missing();
    if (names.empty()) return Eat('}');
    return lexer_.Expected(lexer_.Peek(), absl::StrCat("',' and then ", names, "="));
  }

  absl::Status ParseNode() {
    DS_ASSIGN_OR_RETURN(const std::string name,
                        NewName(Token::kValue, "%name", value_lines_));
    DS_RETURN_IF_ERROR(Eat('='));
    const Token op_token = lexer_.Peek();
    DS_ASSIGN_OR_RETURN(const OpDef* def, Op());
    Node node;
    node.op = def->kind;
    node.operands.resize(def->operands.size());
    node.attrs.resize(def->attrs.size());
    DS_RETURN_IF_ERROR(Operands(&node));
    DS_RETURN_IF_ERROR(Attributes(&node));
    if (def->effect == Effect::kState) {
      DS_RETURN_IF_ERROR(EatWord("state"));
      DS_RETURN_IF_ERROR(Eat('('));
      const Token token = lexer_.Take();
      const auto it = states_.find(token.value);
      if (token.kind != Token::kSymbol || it == states_.end()) {
        return lexer_.Expected(token, "a state declared above");
      }
      node.state = it->second;
      DS_RETURN_IF_ERROR(Eat(')'));
    }
    absl::StatusOr<TensorType> inferred = InferType(node);
    if (!inferred.ok()) {
      return lexer_.ErrorAt(op_token, inferred.status().message());
    }
    if (TryEat(':')) {
      const Token token = lexer_.Peek();
      DS_ASSIGN_OR_RETURN(const TensorType type, Type());
      if (type != *inferred) {
        return lexer_.ErrorAt(token, absl::StrCat("expected ",
                                                  TypeText(*inferred), ", got ",
                                                  TypeText(type)));
      }
    }
    values_[name] = graph_
                        .AddNode(node.op, std::move(node.operands),
                                 std::move(node.attrs), name, node.state)
                        ->result;
    return absl::OkStatus();
  }

  absl::Status Return() {
    DS_RETURN_IF_ERROR(EatWord("return"));
    do {
      const Token token = lexer_.Take();
      const auto it = values_.find(token.value);
      if (token.kind != Token::kValue || it == values_.end()) {
        return lexer_.Expected(token, "a value defined above");
      }
      graph_.returns().push_back(it->second);
    } while (TryEat(','));
    return absl::OkStatus();
  }

  Lexer lexer_;
  Graph graph_;
  absl::flat_hash_map<std::string, Value*> values_;
  absl::flat_hash_map<std::string, Weight*> weights_;
  absl::flat_hash_map<std::string, State*> states_;
  // Where each name was defined.
  absl::flat_hash_map<std::string, int> value_lines_, symbol_lines_;
};

}  // namespace

absl::StatusOr<Graph> ParseGraph(absl::string_view text,
                                 absl::string_view file) {
  if (static_cast<int64_t>(text.size()) > limits::kIrTextBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": found ", text.size(),
                     " bytes; allowed: at most ", limits::kIrTextBytes));
  }
  return Parser(text, file).Run();
}

}  // namespace deepslice
