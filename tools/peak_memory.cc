#include "tools/peak_memory.h"

#include <cstdio>

namespace deepslice {

double PeakMemory() {
  std::FILE* file = std::fopen("/proc/self/status", "r");
  if (file == nullptr) return 0;
  char line[256];
  double kib = 0;
  while (std::fgets(line, sizeof(line), file) != nullptr &&
         std::sscanf(line, "VmHWM: %lf kB", &kib) != 1) {
  }
  std::fclose(file);
  return kib * 1024;
}

}  // namespace deepslice
