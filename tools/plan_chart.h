// The picture of a program's memory over its steps, as SVG.
#ifndef DEEPSLICE_TOOLS_PLAN_CHART_H_
#define DEEPSLICE_TOOLS_PLAN_CHART_H_

#include <string>

#include "tools/plan_view.h"

namespace deepslice {

// An <svg> element that takes its colours from the page's styles
// (plan_html.css) and tells each step's name and bytes when it is pointed at.
std::string MemoryChart(const ProgramSteps& program);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_PLAN_CHART_H_
