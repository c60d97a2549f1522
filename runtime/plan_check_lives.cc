// That what a step reads was written and is still there. A buffer lives from
// the step that writes it to the last that reads it; two that are alive
// together have slots of their own.
#include <algorithm>
#include <vector>

#include "absl/algorithm/container.h"
#include "runtime/plan_check.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

class Lives {
 public:
  Lives(const ProgramView& view, const std::vector<StepAccess>& steps)
      : program_(view.program),
        steps_(steps),
        last_use_(program_.buffers()->size(), -1),
        written_(program_.buffers()->size()),
        scratch_(program_.buffers()->size()),
        holder_(program_.slots()->size(), -1) {
    FindScratch(view.cpu);
  }

  absl::Status Run() {
    const int64_t end = steps_.size();
    for (int64_t i = 0; i < end; ++i) {
      for (const int32_t b : steps_[i].reads) last_use_[b] = i;
      for (const int32_t b : steps_[i].writes) last_use_[b] = i;
    }
    for (const int32_t b : *program_.outputs()) last_use_[b] = end;
    for (const int32_t b : *program_.inputs()) written_[b] = true;
    for (int64_t i = 0; i < end; ++i) {
      DS_RETURN_IF_ERROR(Annotate(Step(i), "steps[", i, "] (",
                                  Quoted(program_.steps()->Get(i)->name()),
                                  ")"));
    }
    for (const int32_t b : *program_.outputs()) {
      if (!written_[b]) return Senseless("outputs: no step writes ", Name(b));
    }
    return absl::OkStatus();
  }

 private:
  // Bytes of a slot that no step writes for another: working space.
  void FindScratch(bool cpu) {
    if (cpu) return;
    for (uint32_t b = 0; b < program_.buffers()->size(); ++b) {
      const fb::Buffer& buffer = *program_.buffers()->Get(b);
      scratch_[b] = buffer.slot() >= 0 &&
                    buffer.dtype() == static_cast<uint8_t>(DType::kU8);
    }
    for (const StepAccess& s : steps_) {
      for (const int32_t b : s.writes) scratch_[b] = false;
    }
  }

  std::string Name(int32_t b) const {
    return absl::StrCat("buffers[", b, "] (",
                        Quoted(program_.buffers()->Get(b)->name()), ")");
  }

  absl::Status Step(int64_t i) {
    for (const int32_t b : steps_[i].reads) {
      if (scratch_[b]) {
        DS_RETURN_IF_ERROR(Hold(i, b));
      } else if (!written_[b]) {
        return Senseless("reads ", Name(b), " before any step writes it");
      }
    }
    for (const int32_t b : steps_[i].writes) {
      // "sampled", whose value is the newest one.
      if (program_.buffers()->Get(b)->slot() < 0) continue;
      if (written_[b]) {
        return Senseless("writes ", Name(b), ", which has its value already");
      }
      DS_RETURN_IF_ERROR(Hold(i, b));
      written_[b] = true;
    }
    return absl::OkStatus();
  }

  // From step i on, b is what its slot holds.
  absl::Status Hold(int64_t i, int32_t b) {
    const fb::Buffer& buffer = *program_.buffers()->Get(b);
    int32_t& held = holder_[buffer.slot()];
    if (held == b) return absl::OkStatus();
    if (held >= 0 && last_use_[held] >= i) {
      const fb::Buffer& old = *program_.buffers()->Get(held);
      const bool replaced =
          last_use_[held] == i && !scratch_[held] &&
          absl::c_linear_search(steps_[i].replaceable, held) &&
          old.dtype() == buffer.dtype() && SameExtents(old, buffer);
      if (!replaced) {
        return Senseless("writes ", Name(b), " over ", Name(held), " in slots[",
                         buffer.slot(), "], which is still needed");
      }
    }
    held = b;
    return absl::OkStatus();
  }

  const fb::Program& program_;
  const std::vector<StepAccess>& steps_;
  std::vector<int64_t> last_use_;
  std::vector<bool> written_, scratch_;
  std::vector<int32_t> holder_;
};

}  // namespace

absl::Status CheckLives(const ProgramView& view,
                        const std::vector<StepAccess>& steps) {
  return Lives(view, steps).Run();
}

}  // namespace deepslice
