// The step programs of a plan as pictures and tables want them: every step with
// what it reads and makes, memory that is alive at each, layers that repeat.
#ifndef DEEPSLICE_TOOLS_PLAN_VIEW_H_
#define DEEPSLICE_TOOLS_PLAN_VIEW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/plan.h"

namespace deepslice {

struct StepView {
  std::string name;  // of the result, without %
  std::string op;    // "linear", or a kernel's label
  bool collective = false;
  int layer = -1;
  std::vector<std::string> reads;  // "%embed", "@layers.0.mlp_in", "bias=@..."
  std::string detail;              // attributes, or grid and block
  std::string type;                // "f32[T, 576]"
  int slot = -1;
  std::vector<int> inputs, outputs;  // buffers
  int64_t collective_bytes = 0;      // at the ceilings
  std::string group;                 // "tp: 0, 1", of collectives
};

// Steps [begin, end) of a program, `times` times, each time of the next layer.
struct StepBlock {
  int begin = 0, end = 0;
  int times = 1;
  int first_layer = -1;  // -1: outside the layers
};

struct ProgramSteps {
  std::string target, name;
  std::vector<StepView> steps;
  // Bytes of the arena's slots that hold something while step i runs, at the
  // ceilings.
  std::vector<int64_t> live_bytes;
  int64_t arena_bytes = 0;
  std::string ceilings;  // "T 512, R 8"
};

// What runs on the CPU: the step program, or that of an encoder; nullptr when
// nothing does.
const fb::Program* CpuProgram(const Plan& plan);

// Every step program of every target, in the plan's order.
std::vector<ProgramSteps> ViewPrograms(const Plan& plan);

// The program in blocks that cover its steps in order: layers whose steps are
// alike but for the layer's number are one block.
std::vector<StepBlock> CollapseLayers(const ProgramSteps& program);

// One line for each collective: what all ranks must agree on.
std::string CollectiveLine(const StepView& step);

// Bytes of a rank's caches when every sequence has its full length.
int64_t CacheBytesAtCeilings(const Plan& plan);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_PLAN_VIEW_H_
