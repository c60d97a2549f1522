// Recursive descent, one function per phrase of the text form (printer.h).
#include "ir/parser.h"

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/shape_rules.h"
#include "ir/text_spelling.h"
#include "ir/token_reader.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

class Parser {
 public:
  Parser(absl::string_view text, absl::string_view file) : in_(text, file) {}

  absl::StatusOr<Graph> Run() {
    DS_RETURN_IF_ERROR(in_.EatWord("graph"));
    DS_ASSIGN_OR_RETURN(graph_.name, in_.Name(Token::kSymbol, "@name"));
    DS_RETURN_IF_ERROR(in_.Eat('{'));
    bool returned = false;
    while (!in_.Peek().Is('}')) {
      const Token& next = in_.Peek();
      if (returned) return in_.Expected(next, "'}' after return");
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
        return in_.Expected(next, "param, weight, state, return, %name or '}'");
      }
    }
    DS_RETURN_IF_ERROR(in_.Eat('}'));
    if (in_.Peek().kind != Token::kEnd) {
      return in_.Expected(in_.Peek(), "end of text after the graph");
    }
    return std::move(graph_);
  }

 private:
  // A name that is not taken yet.
  absl::StatusOr<std::string> NewName(
      Token::Kind kind, absl::string_view what,
      absl::flat_hash_map<std::string, int>& lines) {
    const Token token = in_.Peek();
    DS_ASSIGN_OR_RETURN(std::string name, in_.Name(kind, what));
    const auto [it, is_new] = lines.emplace(name, token.line);
    if (!is_new) {
      return in_.Expected(
          token, absl::StrCat("a new name (line ", it->second, " has it)"));
    }
    return name;
  }

  // ---- declarations --------------------------------------------------------

  // f32[T, 64]
  absl::StatusOr<TensorType> Type() {
    const Token token = in_.Take();
    const std::optional<DType> dtype = token.kind == Token::kIdentifier
                                           ? ParseDType(token.text)
                                           : std::nullopt;
    if (!dtype.has_value()) return in_.Expected(token, "a type like f32[T]");
    TensorType type{*dtype, {}};
    DS_RETURN_IF_ERROR(in_.Eat('['));
    if (in_.TryEat(']')) return type;
    DS_RETURN_IF_ERROR(in_.ListUntil(']', [&]() -> absl::Status {
      if (type.rank() == limits::kTensorRank) {
        return in_.Expected(
            in_.Peek(), absl::StrCat("at most ", limits::kTensorRank, " dims"));
      }
      if (in_.Peek().kind == Token::kIdentifier) {
        DS_ASSIGN_OR_RETURN(std::string symbol, in_.Identifier("a dim"));
        type.dims.emplace_back(std::move(symbol));
      } else {
        DS_ASSIGN_OR_RETURN(const int64_t size,
                            in_.Integer("a dim: a symbol or a number", 0,
                                        limits::kTensorBytes));
        type.dims.emplace_back(size);
      }
      return absl::OkStatus();
    }));
    return type;
  }

  absl::Status Param() {
    DS_RETURN_IF_ERROR(in_.EatWord("param"));
    DS_ASSIGN_OR_RETURN(const std::string name,
                        NewName(Token::kValue, "%name", value_lines_));
    DS_RETURN_IF_ERROR(in_.Eat(':'));
    DS_ASSIGN_OR_RETURN(TensorType type, Type());
    values_[name] = graph_.AddParam(name, std::move(type));
    return absl::OkStatus();
  }

  absl::StatusOr<Encoding> ParseEncodingName() {
    const Token token = in_.Take();
    const std::optional<Encoding> encoding = token.kind == Token::kIdentifier
                                                 ? ParseEncoding(token.text)
                                                 : std::nullopt;
    if (!encoding.has_value()) {
      std::vector<absl::string_view> names;
      for (int e = 0; e < kNumEncodings; ++e) {
        names.push_back(EncodingName(static_cast<Encoding>(e)));
      }
      return in_.Expected(token,
                          absl::StrCat("one of ", absl::StrJoin(names, ", ")));
    }
    return *encoding;
  }

  absl::Status ParseWeight() {
    DS_RETURN_IF_ERROR(in_.EatWord("weight"));
    DS_ASSIGN_OR_RETURN(const std::string name,
                        NewName(Token::kSymbol, "@name", symbol_lines_));
    DS_RETURN_IF_ERROR(in_.Eat(':'));
    DS_ASSIGN_OR_RETURN(TensorType type, Type());
    DS_RETURN_IF_ERROR(in_.EatWord("role"));
    DS_RETURN_IF_ERROR(in_.Eat('('));
    const Token role_token = in_.Take();
    const std::optional<Role> role = ParseRole(role_token.text);
    if (!role.has_value()) {
      std::vector<absl::string_view> names;
      for (const RoleDef& r : kRoles) names.push_back(r.spelling);
      return in_.Expected(role_token, WithHint("a role", role_token, names));
    }
    DS_RETURN_IF_ERROR(in_.Eat(')'));
    Weight* weight = graph_.AddWeight(name, std::move(type), *role);
    weights_[name] = weight;
    if (in_.TryEatWord("encoding")) {
      DS_RETURN_IF_ERROR(in_.Eat('('));
      DS_ASSIGN_OR_RETURN(weight->encoding, ParseEncodingName());
      DS_RETURN_IF_ERROR(in_.Eat(')'));
    }
    if (!in_.TryEat('=')) return absl::OkStatus();
    DS_RETURN_IF_ERROR(Source(&weight->source));
    if (!in_.TryEatWord("plus")) return absl::OkStatus();
    DS_ASSIGN_OR_RETURN(weight->source.plus, in_.Real());
    return absl::OkStatus();
  }

  // A piece, concat(pieces), interleave(pieces) or formula(name=number, ...).
  absl::Status Source(WeightSource* source) {
    const Token& next = in_.Peek();
    if (next.kind == Token::kString || next.IsWord("transpose")) {
      return Piece(source);
    }
    source->interleaved = next.IsWord("interleave");
    const bool joined = source->interleaved || next.IsWord("concat");
    DS_ASSIGN_OR_RETURN(
        std::string word,
        in_.Identifier(
            "\"tensor\", transpose, concat, interleave or a formula"));
    DS_RETURN_IF_ERROR(in_.Eat('('));
    if (joined) return in_.ListUntil(')', [&] { return Piece(source); });
    source->formula = std::move(word);
    if (in_.TryEat(')')) return absl::OkStatus();
    return in_.ListUntil(')', [&]() -> absl::Status {
      DS_ASSIGN_OR_RETURN(std::string name,
                          in_.Identifier("an argument's name"));
      DS_RETURN_IF_ERROR(in_.Eat('='));
      DS_ASSIGN_OR_RETURN(const double number, in_.Real());
      source->arguments.emplace_back(std::move(name), number);
      return absl::OkStatus();
    });
  }

  // [transpose] "tensor"[0:172 of 32 every 96 from 32, 0:64]
  absl::Status Piece(WeightSource* source) {
    SourcePiece piece;
    piece.transposed = in_.TryEatWord("transpose");
    DS_ASSIGN_OR_RETURN(piece.tensor,
                        in_.Name(Token::kString, "a tensor's name in quotes"));
    DS_RETURN_IF_ERROR(in_.Eat('['));
    DS_RETURN_IF_ERROR(ParseRange(&piece.rows));
    if (in_.TryEatWord("of")) DS_RETURN_IF_ERROR(ParseStride(&piece));
    piece.cols = {0, 1};
    if (in_.TryEat(',')) DS_RETURN_IF_ERROR(ParseRange(&piece.cols));
    source->pieces.push_back(std::move(piece));
    return in_.Eat(']');
  }
  absl::Status ParseStride(SourcePiece* piece) {
    DS_ASSIGN_OR_RETURN(
        piece->block, in_.Integer("a number of rows", 1, limits::kTensorBytes));
    DS_RETURN_IF_ERROR(in_.EatWord("every"));
    DS_ASSIGN_OR_RETURN(
        piece->every,
        in_.Integer("a number of rows", piece->block, limits::kTensorBytes));
    DS_RETURN_IF_ERROR(in_.EatWord("from"));
    DS_ASSIGN_OR_RETURN(piece->from,
                        in_.Integer("a row", 0, limits::kTensorBytes));
    return absl::OkStatus();
  }
  absl::Status ParseRange(Range* range) {
    DS_ASSIGN_OR_RETURN(range->begin,
                        in_.Integer("an index", 0, limits::kTensorBytes));
    DS_RETURN_IF_ERROR(in_.Eat(':'));
    DS_ASSIGN_OR_RETURN(range->end, in_.Integer("an index", range->begin,
                                                limits::kTensorBytes));
    return absl::OkStatus();
  }

  absl::Status ParseState() {
    DS_RETURN_IF_ERROR(in_.EatWord("state"));
    DS_ASSIGN_OR_RETURN(const std::string name,
                        NewName(Token::kSymbol, "@name", symbol_lines_));
    DS_RETURN_IF_ERROR(in_.Eat(':'));
    DS_ASSIGN_OR_RETURN(const int kind, in_.OneOf(kStateKindNames));
    DS_RETURN_IF_ERROR(in_.Eat('('));
    DS_RETURN_IF_ERROR(in_.EatWord("kv_heads"));
    DS_RETURN_IF_ERROR(in_.Eat('='));
    DS_ASSIGN_OR_RETURN(const int64_t kv_heads,
                        in_.Integer("a count", 0, limits::kHeads));
    DS_RETURN_IF_ERROR(in_.Eat(','));
    DS_RETURN_IF_ERROR(in_.EatWord("head_dim"));
    DS_RETURN_IF_ERROR(in_.Eat('='));
    DS_ASSIGN_OR_RETURN(const int64_t head_dim,
                        in_.Integer("a size", 1, limits::kHiddenSize));
    DS_RETURN_IF_ERROR(in_.Eat(','));
    DS_RETURN_IF_ERROR(in_.EatWord("encoding"));
    DS_RETURN_IF_ERROR(in_.Eat('='));
    DS_ASSIGN_OR_RETURN(const Encoding encoding, ParseEncodingName());
    State* state =
        graph_.AddState(name, static_cast<StateKind>(kind), kv_heads, head_dim);
    state->encoding = encoding;
    states_[name] = state;
    return in_.Eat(')');
  }

  // ---- nodes ---------------------------------------------------------------

  absl::StatusOr<const OpDef*> Op() {
    const Token token = in_.Take();
    const OpDef* def = token.kind == Token::kIdentifier
                           ? FindOpBySpelling(token.text)
                           : nullptr;
    if (def != nullptr) return def;
    std::vector<absl::string_view> names;
    for (const OpDef& op : AllOps()) names.push_back(op.spelling);
    return in_.Expected(token, WithHint("an op", token, names));
  }

  absl::StatusOr<Operand> ParseOperand() {
    const Token token = in_.Take();
    if (token.kind == Token::kValue) {
      const auto it = values_.find(token.value);
      if (it != values_.end()) return Operand(it->second);
      return in_.Expected(token, "a value defined above");
    }
    if (token.kind == Token::kSymbol) {
      const auto it = weights_.find(token.value);
      if (it != weights_.end()) return Operand(it->second);
      return in_.Expected(token, "a weight declared above");
    }
    return in_.Expected(token, "an operand: %value or @weight");
  }

  // Required operands in table order, then name=operand for the others.
  absl::Status Operands(Node* node) {
    const OpDef& def = node->def();
    DS_RETURN_IF_ERROR(in_.Eat('('));
    size_t position = 0;
    DS_RETURN_IF_ERROR(in_.ListUntil(')', [&]() -> absl::Status {
      const Token name = in_.Peek();
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
          return in_.Expected(
              name, left.empty()
                        ? "no more operands"
                        : absl::StrCat(absl::StrJoin(left, "= or "), "="));
        }
        in_.Take();
        DS_RETURN_IF_ERROR(in_.Eat('='));
      }
      DS_ASSIGN_OR_RETURN(node->operands[i], ParseOperand());
      return absl::OkStatus();
    }));
    return absl::OkStatus();
  }

  absl::Status AttrValue(const AttrDef& def, Attr* attr) {
    switch (def.type) {
      case AttrType::kI64: {
        DS_ASSIGN_OR_RETURN(attr->i,
                            in_.Integer("an integer", INT64_MIN, INT64_MAX));
        return absl::OkStatus();
      }
      case AttrType::kF64: {
        DS_ASSIGN_OR_RETURN(attr->f, in_.Real());
        return absl::OkStatus();
      }
      case AttrType::kEnum: {
        DS_ASSIGN_OR_RETURN(attr->i, in_.OneOf(EnumValues(def.enum_name)));
        return absl::OkStatus();
      }
    }
    return absl::OkStatus();
  }

  // {heads=6, scale=0.5}: each attribute of the table once, in any order;
  // optional ones may be absent.
  absl::Status Attributes(Node* node) {
    const OpDef& def = node->def();
    if (def.attrs.empty()) return absl::OkStatus();
    DS_RETURN_IF_ERROR(in_.Eat('{'));
    std::vector<bool> seen(def.attrs.size());
    const auto missing = [&](bool optional_too) {
      std::vector<absl::string_view> names;
      for (size_t a = 0; a < seen.size(); ++a) {
        if (seen[a] || (def.attrs[a].optional && !optional_too)) continue;
        names.push_back(def.attrs[a].name);
      }
      return absl::StrJoin(names, "= or ");
    };
    do {
      const Token name = in_.Take();
      size_t a = 0;
      while (a < seen.size() && (seen[a] || !name.IsWord(def.attrs[a].name))) {
        ++a;
      }
      if (a == seen.size()) {
        const std::string names = missing(/*optional_too=*/true);
        return in_.Expected(name,
                            names.empty() ? "'}'" : absl::StrCat(names, "="));
      }
      seen[a] = true;
      DS_RETURN_IF_ERROR(in_.Eat('='));
      DS_RETURN_IF_ERROR(AttrValue(def.attrs[a], &node->attrs[a]));
    } while (in_.TryEat(','));
    const std::string names = missing(/*optional_too=*/false);
    if (names.empty()) return in_.Eat('}');
    return in_.Expected(in_.Peek(), absl::StrCat("',' and then ", names, "="));
  }

  absl::Status ParseNode() {
    DS_ASSIGN_OR_RETURN(const std::string name,
                        NewName(Token::kValue, "%name", value_lines_));
    DS_RETURN_IF_ERROR(in_.Eat('='));
    const Token op_token = in_.Peek();
    DS_ASSIGN_OR_RETURN(const OpDef* def, Op());
    Node node;
    node.op = def->kind;
    node.operands.resize(def->operands.size());
    node.attrs.resize(def->attrs.size());
    DS_RETURN_IF_ERROR(Operands(&node));
    DS_RETURN_IF_ERROR(Attributes(&node));
    if (def->effect == Effect::kState) {
      DS_RETURN_IF_ERROR(in_.EatWord("state"));
      DS_RETURN_IF_ERROR(in_.Eat('('));
      const Token token = in_.Take();
      const auto it = states_.find(token.value);
      if (token.kind != Token::kSymbol || it == states_.end()) {
        return in_.Expected(token, "a state declared above");
      }
      node.state = it->second;
      DS_RETURN_IF_ERROR(in_.Eat(')'));
    }
    absl::StatusOr<TensorType> inferred = InferType(node);
    if (!inferred.ok()) {
      return in_.ErrorAt(op_token, inferred.status().message());
    }
    if (in_.TryEat(':')) {
      const Token token = in_.Peek();
      DS_ASSIGN_OR_RETURN(const TensorType type, Type());
      if (type != *inferred) {
        return in_.ErrorAt(token, absl::StrCat("expected ", TypeText(*inferred),
                                               ", got ", TypeText(type)));
      }
    }
    values_[name] = graph_
                        .AddNode(node.op, std::move(node.operands),
                                 std::move(node.attrs), name, node.state)
                        ->result;
    return absl::OkStatus();
  }

  absl::Status Return() {
    DS_RETURN_IF_ERROR(in_.EatWord("return"));
    do {
      const Token token = in_.Take();
      const auto it = values_.find(token.value);
      if (token.kind != Token::kValue || it == values_.end()) {
        return in_.Expected(token, "a value defined above");
      }
      graph_.returns().push_back(it->second);
    } while (in_.TryEat(','));
    return absl::OkStatus();
  }

  TokenReader in_;
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
        absl::StrCat(file, ": found ", text.size(), " bytes; allowed: at most ",
                     limits::kIrTextBytes));
  }
  return Parser(text, file).Run();
}

}  // namespace deepslice
