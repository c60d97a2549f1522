#include "tools/dsrun_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schema/base/json.h"

namespace deepslice {

std::string MemoryReport(absl::Span<const Executor::MemoryLine> lines, int rank,
                         int world) {
  std::string out = absl::StrFormat(
      "%-22s %16s %16s\n",
      world > 1 ? absl::StrCat("rank ", rank, " memory") : "memory", "planned",
      "taken");
  int64_t planned = 0, actual = 0;
  for (const bool in_plan : {true, false}) {
    for (const Executor::MemoryLine& l : lines) {
      if (l.in_plan != in_plan) continue;
      absl::StrAppendFormat(
          &out, "%-22s %16s %16d\n", l.what,
          in_plan ? absl::StrCat(l.planned) : std::string("-"), l.actual);
      if (in_plan) {
        planned += l.planned;
        actual += l.actual;
      }
    }
    if (in_plan) {
      absl::StrAppendFormat(
          &out, "%-22s %16d %16d  ratio %.4f\n", "of the plan", planned, actual,
          planned > 0 ? static_cast<double>(actual) / planned : 1.0);
    }
  }
  return out;
}

std::string LoadReport(int64_t bytes, double seconds) {
  if (seconds <= 0) return "";
  return absl::StrFormat("%.2f GB of weights came in %.4f s, %.1f GB/s\n",
                         bytes * 1e-9, seconds, bytes / seconds * 1e-9);
}

std::string ChromeTrace(absl::Span<const Executor::StepTiming> timings,
                        int rank) {
  json::Value events = json::Value::Array();
  for (const Executor::StepTiming& t : timings) {
    json::Value args = json::Value::Object();
    args.Set("program", t.program);
    args.Set("layer", t.layer);
    json::Value e = json::Value::Object();
    e.Set("name", t.name);
    e.Set("cat", t.kind);
    e.Set("ph", "X");
    e.Set("ts", t.begin_us);
    e.Set("dur", t.us);
    e.Set("pid", rank);
    e.Set("tid", 0);
    e.Set("args", std::move(args));
    events.Add(std::move(e));
  }
  json::Value out = json::Value::Object();
  out.Set("displayTimeUnit", "ns");
  out.Set("traceEvents", std::move(events));
  return json::Write(out) + "\n";
}

std::string ProfilePath(const std::string& path, int rank) {
  if (rank == 0) return path;
  const size_t slash = path.rfind('/');
  size_t dot = path.rfind('.');
  if (dot == std::string::npos || (slash != std::string::npos && dot < slash)) {
    dot = path.size();
  }
  return absl::StrCat(path.substr(0, dot), ".rank", rank, path.substr(dot));
}

std::vector<KindTime> TimeByKind(
    absl::Span<const Executor::StepTiming> timings) {
  std::vector<KindTime> kinds;
  for (const Executor::StepTiming& t : timings) {
    auto at = std::find_if(kinds.begin(), kinds.end(),
                           [&](const KindTime& k) { return k.kind == t.kind; });
    if (at == kinds.end()) at = kinds.insert(at, KindTime{t.kind});
    ++at->steps;
    at->us += t.us;
  }
  std::stable_sort(
      kinds.begin(), kinds.end(),
      [](const KindTime& a, const KindTime& b) { return a.us > b.us; });
  return kinds;
}

}  // namespace deepslice
