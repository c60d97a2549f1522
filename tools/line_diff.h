// Which lines one list has and the other lacks.
#ifndef DEEPSLICE_TOOLS_LINE_DIFF_H_
#define DEEPSLICE_TOOLS_LINE_DIFF_H_

#include <string>
#include <vector>

namespace deepslice {

struct LineChange {
  bool added = false;  // in `b` alone; else in `a` alone
  int line = 0;        // there, from 0
  std::string text;
};

// The shortest list of changes that turns `a` into `b`, in order. Where the
// lists, without what begins and ends them alike, have more than 16 million
// pairs of lines, all of that part counts as changed.
std::vector<LineChange> DiffLines(const std::vector<std::string>& a,
                                  const std::vector<std::string>& b);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_LINE_DIFF_H_
