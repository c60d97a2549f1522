// The canonical text of a graph.
#include "ir/printer.h"

#include <algorithm>
#include <charconv>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "ir/text_spelling.h"
#include "schema/base/digest.h"

namespace deepslice {
namespace {

constexpr size_t kColumns = 80;

// The shortest text that reads back equal, whatever the locale.
std::string NumberText(double number) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), number).ptr;
  return std::string(buffer, end);
}

std::string Quoted(absl::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      absl::StrAppend(&out, "\\", std::string(1, c));
    } else if (byte < 0x20 || byte == 0x7f) {
      absl::StrAppendFormat(&out, "\\x%02x", byte);
    } else {
      out.push_back(c);
    }
  }
  return out + "\"";
}

// Lines that are filled up to kColumns and go on at an indent.
class Lines {
 public:
  explicit Lines(std::string* out) : out_(out), line_begin_(out->size()) {}

  // `piece` on the current line, or on a new one where it would not fit.
  void Fill(absl::string_view piece, size_t indent) {
    if (out_->size() - line_begin_ + piece.size() > kColumns) {
      Break(indent);
      while (!piece.empty() && piece[0] == ' ') piece.remove_prefix(1);
    }
    absl::StrAppend(out_, piece);
  }
  void Break(size_t indent) {
    out_->push_back('\n');
    line_begin_ = out_->size();
    out_->append(indent, ' ');
  }
  void Append(absl::string_view text) { absl::StrAppend(out_, text); }
  // "a, b, c" and `tail` behind the last.
  void FillList(const std::vector<std::string>& items, absl::string_view tail,
                size_t indent) {
    for (size_t i = 0; i < items.size(); ++i) {
      Fill(absl::StrCat(i == 0 ? "" : " ", items[i],
                        i + 1 < items.size() ? "," : tail),
           indent);
    }
    if (items.empty()) Append(tail);
  }

 private:
  std::string* const out_;
  size_t line_begin_;
};

std::string PieceText(const SourcePiece& piece) {
  std::string text =
      absl::StrCat(piece.transposed ? "transpose " : "", Quoted(piece.tensor),
                   "[", piece.rows.begin, ":", piece.rows.end);
  if (piece.block > 0) {
    absl::StrAppend(&text, " of ", piece.block, " every ", piece.every,
                    " from ", piece.from);
  }
  if (!(piece.cols == Range{0, 1})) {
    absl::StrAppend(&text, ", ", piece.cols.begin, ":", piece.cols.end);
  }
  return text + "]";
}

// A recipe of several parts: "concat(", and the parts between commas and ")".
struct RecipeText {
  std::string head;
  std::vector<std::string> parts;
};

RecipeText RecipeOf(const WeightSource& source) {
  RecipeText text;
  for (const SourcePiece& p : source.pieces) text.parts.push_back(PieceText(p));
  for (const auto& [name, number] : source.arguments) {
    text.parts.push_back(absl::StrCat(name, "=", NumberText(number)));
  }
  text.head = !source.formula.empty() ? source.formula
              : source.interleaved    ? "interleave"
                                      : "concat";
  return text;
}

bool IsOnePiece(const WeightSource& source) {
  return source.pieces.size() == 1 && !source.interleaved;
}

std::string PlusText(const WeightSource& source) {
  return source.plus == 0 ? ""
                          : absl::StrCat(" plus ", NumberText(source.plus));
}

void PrintSource(const WeightSource& source, std::string* out) {
  if (source.empty()) return;
  Lines lines(out);
  lines.Break(6);
  lines.Append("= ");
  if (IsOnePiece(source)) {
    lines.Append(PieceText(source.pieces[0]));
  } else {
    const RecipeText recipe = RecipeOf(source);
    lines.Append(absl::StrCat(recipe.head, "("));
    lines.FillList(recipe.parts, ")", 10);
  }
  lines.Append(PlusText(source));
}

std::string AttrText(const AttrDef& def, const Attr& attr) {
  switch (def.type) {
    case AttrType::kI64:
      return absl::StrCat(def.name, "=", attr.i);
    case AttrType::kF64:
      return absl::StrCat(def.name, "=", NumberText(attr.f));
    case AttrType::kEnum:
      break;
  }
  const auto names = EnumValues(def.enum_name);
  const bool known = attr.i >= 0 && attr.i < static_cast<int64_t>(names.size());
  return known ? absl::StrCat(def.name, "=", names[attr.i])
               : absl::StrCat(def.name, "=", attr.i);
}

std::string OperandText(const Operand& operand) {
  if (operand.value != nullptr) return absl::StrCat("%", operand.value->name);
  if (operand.weight != nullptr) return absl::StrCat("@", operand.weight->name);
  return "absent";  // only in a graph that does not verify
}

void PrintNode(const Node& node, std::string* out) {
  const OpDef& def = node.def();
  std::vector<std::string> operands, attrs;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const bool optional = i < def.operands.size() && def.operands[i].optional;
    if (optional && !node.operands[i].present()) continue;
    operands.push_back(
        absl::StrCat(optional ? absl::StrCat(def.operands[i].name, "=") : "",
                     OperandText(node.operands[i])));
  }
  for (size_t a = 0; a < std::min(node.attrs.size(), def.attrs.size()); ++a) {
    const Attr& attr = node.attrs[a];
    if (def.attrs[a].optional && attr.i == 0 && attr.f == 0) continue;
    attrs.push_back(AttrText(def.attrs[a], attr));
  }
  const std::string head =
      absl::StrCat("  %", node.result->name, " = ", def.spelling, "(");
  const std::string state =
      node.state == nullptr ? ""
                            : absl::StrCat(" state(@", node.state->name, ")");
  const std::string type = absl::StrCat(" : ", TypeText(node.result->type));
  const std::string attr_text =
      attrs.empty() ? "" : absl::StrCat(" {", absl::StrJoin(attrs, ", "), "}");
  const std::string line = absl::StrCat(head, absl::StrJoin(operands, ", "),
                                        ")", attr_text, state, type);
  Lines lines(out);
  if (line.size() <= kColumns) {
    lines.Append(line);
  } else {
    lines.Append(head);
    lines.FillList(operands, ")", 6);
    if (!attrs.empty()) {
      lines.Break(6);
      lines.Append("{");
      lines.FillList(attrs, "}", 7);
    }
    if (!state.empty()) lines.Fill(state, 6);
    lines.Fill(type, 6);
  }
  out->push_back('\n');
}

}  // namespace

std::string SourceText(const WeightSource& source) {
  if (IsOnePiece(source)) {
    return PieceText(source.pieces[0]) + PlusText(source);
  }
  const RecipeText recipe = RecipeOf(source);
  return absl::StrCat(recipe.head, "(", absl::StrJoin(recipe.parts, ", "), ")",
                      PlusText(source));
}

std::string PrintGraph(const Graph& graph) {
  size_t width = 0;
  for (const auto& p : graph.params()) width = std::max(width, p->name.size());
  for (const auto& w : graph.weights()) width = std::max(width, w->name.size());
  for (const auto& s : graph.states()) width = std::max(width, s->name.size());
  const int pad = static_cast<int>(width);

  std::string out = absl::StrCat("graph @", graph.name, " {\n");
  for (const auto& p : graph.params()) {
    absl::StrAppendFormat(&out, "  param  %%%-*s : %s\n", pad, p->name,
                          TypeText(p->type));
  }
  for (const auto& w : graph.weights()) {
    absl::StrAppendFormat(&out, "  weight @%-*s : %s role(%s)", pad, w->name,
                          TypeText(w->type), GetRole(w->role).spelling);
    if (w->encoding != Encoding::kF32) {
      absl::StrAppend(&out, " encoding(", EncodingName(w->encoding), ")");
    }
    PrintSource(w->source, &out);
    out.push_back('\n');
  }
  for (const auto& s : graph.states()) {
    absl::StrAppendFormat(
        &out, "  state  @%-*s : %s(kv_heads=%d, head_dim=%d, encoding=%s)\n",
        pad, s->name, kStateKindNames[static_cast<int>(s->kind)], s->kv_heads,
        s->head_dim, EncodingName(s->encoding));
  }
  for (const auto& n : graph.nodes()) PrintNode(*n, &out);
  if (!graph.returns().empty()) {
    absl::StrAppend(&out, "  return ",
                    absl::StrJoin(graph.returns(), ", ",
                                  [](std::string* text, const Value* v) {
                                    absl::StrAppend(text, "%", v->name);
                                  }),
                    "\n");
  }
  return out + "}\n";
}

std::string GraphDigest(const Graph& graph) {
  return Sha256Hex(PrintGraph(graph));
}

}  // namespace deepslice
