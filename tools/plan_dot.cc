#include "tools/plan_dot.h"

#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/command_line.h"

namespace deepslice {
namespace {

// A string of the dot language that shows `text` as it is: \N and the like
// would be replaced, and a control character might end a line.
std::string Quoted(absl::string_view text) {
  std::string out = "\"";
  for (const char c : OneLine(text)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

// Two lines of one label.
std::string Label(absl::string_view first, absl::string_view second) {
  std::string label = Quoted(first);
  label.pop_back();
  return absl::StrCat(label, "\\n", Quoted(second).substr(1));
}

const char* Fill(const StepView& s) {
  return s.collective ? "#f6d6a8" : "white";
}

std::string BlockName(const StepBlock& b) {
  return b.times == 1 ? absl::StrCat("layer ", b.first_layer)
                      : absl::StrCat("layers ", b.first_layer, " to ",
                                     b.first_layer + b.times - 1, ", ", b.times,
                                     " times");
}

}  // namespace

std::string ProgramDot(const ProgramSteps& program) {
  const std::vector<StepBlock> blocks = CollapseLayers(program);
  // The step that stands for each.
  std::vector<int> shown(program.steps.size());
  std::string out = absl::StrCat(
      "digraph plan {\n  label=",
      Quoted(absl::StrCat(program.target, ", program ", program.name)),
      ";\n  labelloc=t; fontname=\"sans-serif\"; rankdir=TB;\n"
      "  node [shape=box, style=filled, fontname=\"sans-serif\", "
      "fontsize=11];\n"
      "  edge [fontname=\"sans-serif\", fontsize=9];\n");
  int place = 0;
  for (size_t b = 0; b < blocks.size(); ++b) {
    const StepBlock& block = blocks[b];
    const int size = block.end - block.begin;
    for (int i = 0; i < size * block.times; ++i, ++place) {
      shown[place] = block.begin + i % size;
    }
    if (block.first_layer >= 0) {
      absl::StrAppendFormat(
          &out,
          "  subgraph cluster_%d {\n    label=%s; "
          "style=\"rounded,filled\"; fillcolor=\"#eef2f7\";\n",
          b, Quoted(BlockName(block)));
    }
    for (int i = block.begin; i < block.end; ++i) {
      const StepView& s = program.steps[i];
      absl::StrAppendFormat(&out, "    s%d [label=%s, fillcolor=\"%s\"];\n", i,
                            Label(s.op, absl::StrCat("%", s.name)), Fill(s));
    }
    if (block.first_layer >= 0) absl::StrAppend(&out, "  }\n");
  }
  // Who made each buffer last, as the steps go by.
  std::map<int, int> maker;
  std::set<std::pair<int, int>> drawn;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const StepView& s = program.steps[i];
    for (const int b : s.inputs) {
      const auto made = maker.find(b);
      if (made == maker.end()) continue;  // the caller's
      const int from = made->second;
      if (!drawn.insert({shown[from], shown[i]}).second) continue;
      const bool next = shown[from] >= shown[i];  // of the layer before
      absl::StrAppendFormat(
          &out, "  s%d -> s%d [label=%s%s];\n", shown[from], shown[i],
          Quoted(absl::StrCat(program.steps[from].type,
                              next ? ", to the next layer" : "")),
          next ? ", style=dashed, constraint=false" : "");
    }
    for (const int b : s.outputs) maker[b] = static_cast<int>(i);
  }
  return out + "}\n";
}

}  // namespace deepslice
