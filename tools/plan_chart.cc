#include "tools/plan_chart.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/plan_html.h"
#include "tools/progress.h"

namespace deepslice {
namespace {

// In the picture's own units; the page scales it.
constexpr double kWidth = 1150, kHeight = 210;
constexpr double kLeft = 74, kRight = 12, kTop = 14, kBottom = 26;
constexpr int kMostLabels = 16;

class Chart {
 public:
  explicit Chart(const ProgramSteps& program) : program_(program) {
    most_ = std::max<double>(1, static_cast<double>(program.arena_bytes));
    for (const int64_t b : program.live_bytes) {
      most_ = std::max(most_, static_cast<double>(b));
    }
  }

  std::string Draw() {
    absl::StrAppendFormat(&out_,
                          "<svg viewBox=\"0 0 %g %g\" role=\"img\" "
                          "aria-label=\"memory over the steps\">\n",
                          kWidth, kHeight);
    AddLayers();
    AddAxis();
    AddLive();
    absl::StrAppend(&out_, "</svg>\n");
    return std::move(out_);
  }

 private:
  double X(double step) const {
    return kLeft + (kWidth - kLeft - kRight) * step /
                       std::max<size_t>(1, program_.steps.size());
  }
  double Y(double bytes) const {
    return kTop + (kHeight - kTop - kBottom) * (1 - bytes / most_);
  }

  // Every other layer on a band, and as many numbers as find place.
  void AddLayers() {
    const std::vector<StepView>& steps = program_.steps;
    int layers = 0;
    for (size_t i = 0; i < steps.size(); ++i) {
      if (steps[i].layer >= 0 &&
          (i == 0 || steps[i - 1].layer != steps[i].layer)) {
        ++layers;
      }
    }
    const int every = std::max(1, (layers + kMostLabels - 1) / kMostLabels);
    int seen = 0;
    for (size_t begin = 0; begin < steps.size();) {
      size_t end = begin + 1;
      while (end < steps.size() && steps[end].layer == steps[begin].layer)
        ++end;
      if (steps[begin].layer >= 0) {
        const double x = X(begin), width = X(end) - x;
        if (seen % 2 == 0) {
          absl::StrAppendFormat(&out_,
                                "<rect class=\"band\" x=\"%.2f\" y=\"%g\" "
                                "width=\"%.2f\" height=\"%g\"/>\n",
                                x, kTop, width, kHeight - kTop - kBottom);
        }
        if (seen % every == 0) {
          absl::StrAppendFormat(
              &out_,
              "<text x=\"%.2f\" y=\"%g\" text-anchor=\"%s\">%s%d</text>\n",
              seen == 0 ? x : x + width / 2, kHeight - 8,
              seen == 0 ? "start" : "middle", seen == 0 ? "layer " : "",
              steps[begin].layer);
        }
        ++seen;
      }
      begin = end;
    }
  }

  void AddAxis() {
    for (const double part : {0.0, 0.5, 1.0}) {
      const double y = Y(part * most_);
      absl::StrAppendFormat(
          &out_,
          "<line class=\"grid\" x1=\"%g\" x2=\"%g\" y1=\"%.2f\" "
          "y2=\"%.2f\"/><text x=\"%g\" y=\"%.2f\" "
          "text-anchor=\"end\">%s</text>\n",
          kLeft, kWidth - kRight, y, y, kLeft - 8, y + 4,
          BytesText(part * most_));
    }
    const double y = Y(static_cast<double>(program_.arena_bytes));
    absl::StrAppendFormat(&out_,
                          "<line class=\"planned\" x1=\"%g\" x2=\"%g\" "
                          "y1=\"%.2f\" y2=\"%.2f\"/>\n",
                          kLeft, kWidth - kRight, y, y);
  }

  void AddLive() {
    std::string path = absl::StrFormat("M%.2f %.2f", X(0), Y(0));
    for (size_t i = 0; i < program_.live_bytes.size(); ++i) {
      const double y = Y(static_cast<double>(program_.live_bytes[i]));
      absl::StrAppendFormat(&path, "L%.2f %.2fL%.2f %.2f", X(i), y, X(i + 1),
                            y);
    }
    absl::StrAppendFormat(&path, "L%.2f %.2fZ", X(program_.live_bytes.size()),
                          Y(0));
    absl::StrAppend(&out_, "<path class=\"live\" d=\"", path, "\"/>\n");
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      const StepView& s = program_.steps[i];
      if (s.collective) {
        absl::StrAppendFormat(&out_,
                              "<line class=\"comm\" x1=\"%.2f\" x2=\"%.2f\" "
                              "y1=\"%g\" y2=\"%g\"/>\n",
                              X(i + 0.5), X(i + 0.5), kHeight - kBottom,
                              kHeight - kBottom + 6);
      }
      absl::StrAppendFormat(
          &out_,
          "<rect class=\"hit\" x=\"%.2f\" y=\"%g\" width=\"%.2f\" "
          "height=\"%g\"><title>%s</title></rect>\n",
          X(i), kTop, X(i + 1) - X(i), kHeight - kTop - kBottom,
          EscapeHtml(absl::StrCat(
              "step ", i, ": %", s.name, " = ", s.op, "\n",
              BytesText(static_cast<double>(program_.live_bytes[i])),
              " in use")));
    }
  }

  const ProgramSteps& program_;
  double most_ = 1;
  std::string out_;
};

}  // namespace

std::string MemoryChart(const ProgramSteps& program) {
  return Chart(program).Draw();
}

}  // namespace deepslice
