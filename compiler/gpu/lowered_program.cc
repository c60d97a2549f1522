#include "compiler/gpu/lowered_program.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace deepslice {
namespace {

using Kind = LoweredOperand::Kind;

std::string BufferType(const LoweredProgram& p, const LoweredBuffer& b) {
  const std::string dims = absl::StrJoin(
      b.extents, ", ", [&](std::string* out, const LoweredExtent& e) {
        absl::StrAppend(out,
                        e.dim < 0 ? absl::StrCat(e.size) : p.dims[e.dim].name);
      });
  return absl::StrCat(DTypeName(b.dtype), "[", dims, "]");
}

std::string GridText(const LoweredProgram& p, const LoweredGrid& g) {
  if (g.dim < 0) return absl::StrCat(g.times);
  const std::string count =
      g.per_block == 1
          ? p.dims[g.dim].name
          : absl::StrCat("ceil(", p.dims[g.dim].name, " / ", g.per_block, ")");
  return g.times == 1 ? count : absl::StrCat(g.times, " * ", count);
}

absl::string_view CollectiveName(LoweredStep::Collective kind) {
  switch (kind) {
    case LoweredStep::Collective::kAllReduce:
      return "all_reduce";
    case LoweredStep::Collective::kAllGather:
      return "all_gather";
    case LoweredStep::Collective::kBroadcast:
      return "broadcast";
  }
  return "";
}

}  // namespace

std::vector<int> LoweredStep::Reads() const {
  std::vector<int> out;
  for (const LoweredOperand& o : operands) {
    if (o.kind == LoweredOperand::Kind::kBuffer) out.push_back(o.index);
  }
  for (const int b : {a, residual, input}) {
    if (b >= 0) out.push_back(b);
  }
  return out;
}

int64_t GpuPrograms::ArenaBytes() const {
  int64_t most = 0;
  for (const LoweredProgram& p : programs) {
    most = std::max(most, deepslice::ArenaBytes(p.slots, p.dims));
  }
  return most;
}

std::vector<std::string> CollectiveLines(const LoweredProgram& program) {
  std::vector<std::string> lines;
  for (const LoweredStep& s : program.steps) {
    if (s.kind != LoweredStep::Kind::kCollective) continue;
    lines.push_back(absl::StrFormat(
        "%s %s of %d columns %%%s", CollectiveName(s.collective),
        BufferType(program, program.buffers[s.input]), s.columns, s.name));
  }
  return lines;
}

std::string PrintLoweredProgram(const LoweredProgram& program,
                                const std::vector<KernelSpec>& kernels,
                                const std::vector<std::string>& weight_names,
                                const std::vector<std::string>& state_names) {
  const auto buffer = [&](int b) {
    return absl::StrCat("%", program.buffers[b].name);
  };
  const auto operand = [&](const LoweredOperand& o) -> std::string {
    switch (o.kind) {
      case Kind::kBuffer:
        return buffer(o.index);
      case Kind::kWeight:
        return absl::StrCat("@", weight_names[o.index]);
      case Kind::kState:
        return absl::StrCat("state @", state_names[o.index]);
      case Kind::kSync:
        return absl::StrCat("sync ", o.index);
      case Kind::kScales:
        return absl::StrCat("scales @", weight_names[o.index]);
      case Kind::kNone:
        break;
    }
    return "-";
  };
  std::string out = absl::StrFormat(
      "program %s: bucket %d, tiles of %d tokens, arena %d bytes, sync %d "
      "words\n",
      program.name, program.bucket, program.tile_tokens,
      ArenaBytes(program.slots, program.dims), program.sync_words);
  for (const ScheduledDim& d : program.dims) {
    absl::StrAppend(&out, "  dim ", d.name, " <= ", d.maximum, "\n");
  }
  for (const int b : program.inputs) {
    absl::StrAppend(&out, "  input ", buffer(b), " : ",
                    BufferType(program, program.buffers[b]), "\n");
  }
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const LoweredStep& s = program.steps[i];
    const std::string results =
        absl::StrJoin(s.outputs, ", ", [&](std::string* to, int b) {
          absl::StrAppend(to, buffer(b), " : ",
                          BufferType(program, program.buffers[b]), " in ",
                          program.buffers[b].slot);
        });
    absl::StrAppendFormat(&out, "%4d  ", i);
    switch (s.kind) {
      case LoweredStep::Kind::kLaunch:
        absl::StrAppendFormat(
            &out, "launch      %s = [%s](%s) grid(%s, %s, %s) block(%s)",
            results, kernels[s.kernel].label,
            absl::StrJoin(s.operands, ", ",
                          [&](std::string* to, const LoweredOperand& o) {
                            absl::StrAppend(to, operand(o));
                          }),
            GridText(program, s.grid[0]), GridText(program, s.grid[1]),
            GridText(program, s.grid[2]), absl::StrJoin(s.block, ", "));
        if (s.shared_bytes > 0) {
          absl::StrAppend(&out, " shared ", s.shared_bytes);
        }
        if (s.programmatic) absl::StrAppend(&out, " programmatic");
        break;
      case LoweredStep::Kind::kGemm:
        absl::StrAppendFormat(
            &out, "gemm        %s = (%s, @%s%s)", results, buffer(s.a),
            weight_names[s.weight],
            s.residual < 0 ? "" : absl::StrCat(", + ", buffer(s.residual)));
        break;
      case LoweredStep::Kind::kCollective:
        absl::StrAppendFormat(&out, "collective  %s = %s %d (%s) of %d columns",
                              results, CollectiveName(s.collective), s.sequence,
                              buffer(s.input), s.columns);
        break;
    }
    absl::StrAppend(&out, "\n");
  }
  return out;
}

}  // namespace deepslice
