// plan_html.css inside the binary.
#ifndef DEEPSLICE_TOOLS_PLAN_STYLE_H_
#define DEEPSLICE_TOOLS_PLAN_STYLE_H_

namespace deepslice {

struct PageStyle {
  const char* name;
  const char* text;
};
extern const PageStyle kPlanStyle[];
extern const int kPlanStyleCount;

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_PLAN_STYLE_H_
