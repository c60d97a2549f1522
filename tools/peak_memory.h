// The most memory that a process held.
#ifndef DEEPSLICE_TOOLS_PEAK_MEMORY_H_
#define DEEPSLICE_TOOLS_PEAK_MEMORY_H_

namespace deepslice {

// Of this one since it began, files' pages among it, in bytes; 0 when unknown.
// Not getrusage's, which counts in what the process held that started this one.
double PeakMemory();

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_PEAK_MEMORY_H_
