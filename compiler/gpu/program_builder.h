// Collects the steps of one GPU program and gives its buffers their places.
#ifndef DEEPSLICE_COMPILER_GPU_PROGRAM_BUILDER_H_
#define DEEPSLICE_COMPILER_GPU_PROGRAM_BUILDER_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/gpu/lowered_program.h"

namespace deepslice {

// Each kernel once, in the order of first use.
class SpecTable {
 public:
  int Add(const KernelSpec& spec);
  const std::vector<KernelSpec>& specs() const { return specs_; }

 private:
  std::vector<KernelSpec> specs_;
  std::map<std::pair<std::string, std::string>, int> index_;  // source, entry
};

class ProgramBuilder {
 public:
  // `kernels` must outlive the builder.
  ProgramBuilder(std::string name, int bucket, std::vector<ScheduledDim> dims,
                 SpecTable* kernels);

  const LoweredProgram& program() const { return program_; }
  int DimIndex(absl::string_view name) const;  // must exist
  int64_t DimMaximum(absl::string_view name) const;

  int AddInput(absl::string_view name, DType dtype,
               std::vector<LoweredExtent> extents);
  int AddBuffer(absl::string_view name, DType dtype,
                std::vector<LoweredExtent> extents);
  // Bytes that one step works with.
  int AddScratch(absl::string_view name, int64_t bytes);
  // The first of so many words, which no other step of the program has.
  int AddSync(int64_t words);
  void set_tile_tokens(int64_t tokens) { program_.tile_tokens = tokens; }
  void set_encodes() { program_.encodes = true; }

  // The output may take the slot of buffer `in_place` (-1: of none) where no
  // later step reads that one and both are of one type.
  void Launch(const KernelSpec& spec, absl::string_view name,
              std::vector<LoweredOperand> operands, int output,
              int in_place = -1, int64_t sync_words = 0);
  // residual -1: none.
  void Gemm(absl::string_view name, int a, int weight, int residual,
            int output);
  void Collective(LoweredStep::Collective kind, absl::string_view name,
                  int input, int output, int64_t columns);

  // Lives, slots, and which launches may start early.
  LoweredProgram Finish(std::vector<int> outputs) &&;

 private:
  LoweredStep& AddStep(LoweredStep::Kind kind, absl::string_view name,
                       int output, int in_place);
  void DropUnusedInputs();
  void FindLives();
  void AssignSlots();

  LoweredProgram program_;
  // What a launch is over; a step may have none of it.
  enum class Rows { kTokens, kImages, kSources };
  Rows last_rows_ = Rows::kTokens;
  std::vector<int> in_place_;  // per step
  SpecTable& kernels_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_GPU_PROGRAM_BUILDER_H_
