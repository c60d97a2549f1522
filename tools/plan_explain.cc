#include "tools/plan_explain.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "schema/base/nearest.h"
#include "schema/encoding.h"
#include "schema/ops.h"
#include "schema/roles.h"
#include "tools/plan_view.h"

namespace deepslice {
namespace {

bool Concerns(const fb::Weight& w, absl::string_view tensor) {
  if (w.name()->string_view() ==
      std::string_view(tensor.data(), tensor.size())) {
    return true;
  }
  return w.source() != nullptr &&
         absl::StrContains(w.source()->c_str(),
                           absl::StrCat("\"", tensor, "\""));
}

// Steps of the program that read weight `index`.
void AppendReaders(const fb::Program& program, int index, std::string* out) {
  for (size_t i = 0; i < program.steps()->size(); ++i) {
    const fb::Step& step = *program.steps()->Get(i);
    if (step.cpu_op() == nullptr) continue;
    const OpDef& def = *FindOpByTag(step.cpu_op()->op());
    for (size_t k = 0; k < step.cpu_op()->operands()->size(); ++k) {
      const fb::OperandRef& o = *step.cpu_op()->operands()->Get(k);
      if (o.kind() != fb::OperandKind::Weight || o.index() != index) continue;
      absl::StrAppendFormat(out, "      read by step %d, %%%s = %s, as %s\n", i,
                            step.name()->str(), def.spelling,
                            def.operands[k].name);
    }
  }
}

std::string CoverageLine(const json::Value& report, absl::string_view tensor) {
  const json::Value* coverage = report.Find("coverage");
  if (coverage == nullptr) return "";
  for (const json::Value& row : coverage->items()) {
    const json::Value* name = row.Find("tensor");
    if (name == nullptr || name->as_string() != tensor) continue;
    std::string out = absl::StrCat(tensor, ": ");
    if (const json::Value* use = row.Find("use")) {
      absl::StrAppend(&out, use->as_string());
    }
    for (const char* key : {"weights", "rule"}) {
      if (const json::Value* v = row.Find(key)) {
        absl::StrAppend(&out, ", ", key, " ", json::Write(*v));
      }
    }
    return out + "\n";
  }
  return "";
}

}  // namespace

absl::StatusOr<std::string> ExplainTensor(const std::vector<Plan>& ranks,
                                          const json::Value& report,
                                          absl::string_view tensor) {
  absl::ConsumePrefix(&tensor, "@");
  std::string out = CoverageLine(report, tensor);
  bool found = !out.empty();
  std::vector<std::string> known;
  for (const Plan& plan : ranks) {
    const fb::Plan& p = plan.fb();
    const fb::Program* program = CpuProgram(plan);
    absl::StrAppendFormat(&out, "  rank %d\n", plan.rank());
    for (size_t i = 0; i < p.weights()->size(); ++i) {
      const fb::Weight& w = *p.weights()->Get(i);
      known.push_back(w.name()->str());
      if (!Concerns(w, tensor)) continue;
      found = true;
      absl::StrAppendFormat(
          &out, "    @%s, role %s, %s: %s\n      bytes %d to %d of %s\n",
          w.name()->str(), GetRole(static_cast<Role>(w.role())).spelling,
          EncodingName(static_cast<Encoding>(w.encoding())),
          w.source() != nullptr ? w.source()->str() : "", w.offset(),
          w.offset() + w.bytes(),
          absl::StrFormat("rank_%04d.weights", plan.rank()));
      if (w.scales_bytes() > 0) {
        absl::StrAppendFormat(&out, "      scales: bytes %d to %d\n",
                              w.scales_offset(),
                              w.scales_offset() + w.scales_bytes());
      }
      if (program != nullptr) {
        AppendReaders(*program, static_cast<int>(i), &out);
      }
    }
  }
  if (!found) {
    if (const json::Value* coverage = report.Find("coverage")) {
      for (const json::Value& row : coverage->items()) {
        if (const json::Value* name = row.Find("tensor")) {
          known.push_back(name->as_string());
        }
      }
    }
    const std::string nearest = NearestName(tensor, known);
    return absl::NotFoundError(absl::StrCat(
        "no tensor or weight is called \"", tensor, "\"",
        nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?")));
  }
  return out;
}

}  // namespace deepslice
