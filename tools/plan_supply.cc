#include "tools/plan_supply.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/checkpoint/loaded_checkpoint.h"
#include "compiler/measured_rows.h"
#include "ir/printer.h"
#include "schema/base/status_macros.h"
#include "schema/encoding.h"
#include "schema/synthetic.h"

namespace deepslice {
namespace {

int64_t ColsOf(const Weight& w) {
  return w.type.rank() < 2 ? 1 : w.type.dims[1].size;
}

Range Overlap(Range a, Range b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

// Whether weight `index` of the plan is what the graph says.
absl::Status CheckWeight(const Plan& plan, size_t index, const Weight& w) {
  const fb::Weight& found = *plan.fb().weights()->Get(index);
  std::vector<int64_t> shape;
  for (const Dim& d : w.type.dims) shape.push_back(d.size);
  if (found.name()->str() == w.name &&
      found.encoding() == static_cast<uint8_t>(w.encoding) &&
      std::equal(shape.begin(), shape.end(), found.shape()->begin(),
                 found.shape()->end()) &&
      found.source() != nullptr &&
      found.source()->str() == SourceText(w.source)) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrFormat(
      "rank %d: weight %d is @%s, %s; the graph that the plan was cut from "
      "makes it @%s, %s %s; compile the source again",
      plan.rank(), index, found.name()->str(),
      found.source() == nullptr ? "" : found.source()->str(), w.name,
      TypeText(w.type), SourceText(w.source)));
}

// Bytes of `row` of the run, part by part.
absl::Status GiveRow(const HeldRun& run, int64_t row, int64_t element_bytes,
                     ByteSink sink) {
  for (const HeldRows& part : run.parts) {
    DS_RETURN_IF_ERROR(sink(part.data + (row - run.rows.begin) * part.row_bytes,
                            part.cols.size() * element_bytes));
  }
  return absl::OkStatus();
}

void GiveScales(const HeldRun& run, std::vector<float>* scales) {
  const HeldRows& part = run.parts[0];
  for (int64_t i = 0; i < run.rows.size(); ++i) {
    scales->push_back(part.scales[i * part.scale_step]);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<PlanSupply>> PlanSupply::Create(
    const std::vector<Plan>& ranks, const std::vector<Graph>& graphs) {
  auto out = std::make_unique<PlanSupply>();
  for (size_t r = 0; r < ranks.size(); ++r) {
    const auto& weights = graphs[r].weights();
    if (weights.size() != ranks[r].fb().weights()->size()) {
      return absl::DataLossError(absl::StrFormat(
          "rank %d: has %d weights; the graph that the plan was cut from gives "
          "it %d; compile the source again",
          r, ranks[r].fb().weights()->size(), weights.size()));
    }
    for (size_t i = 0; i < weights.size(); ++i) {
      DS_RETURN_IF_ERROR(CheckWeight(ranks[r], i, *weights[i]));
      out->holders_[weights[i]->name].push_back(
          {&ranks[r], static_cast<int>(i), weights[i].get()});
    }
  }
  out->nothing_ = MakeCheckpoint({});
  return out;
}

const fb::Weight* PlanSupply::MadeUp(const std::string& name) const {
  const auto found = holders_.find(name);
  if (found == holders_.end()) return nullptr;
  for (const Holder& h : found->second) {
    const fb::Weight* w = h.plan->fb().weights()->Get(h.index);
    if (w->origin() == fb::WeightOrigin::Synthetic) return w;
  }
  return nullptr;
}

absl::optional<SyntheticRecipe> PlanSupply::Synthetic(const Weight& w) const {
  const fb::Weight* made_up = MadeUp(w.name);
  if (made_up == nullptr) return absl::nullopt;
  SyntheticTensor tensor;
  tensor.seed = made_up->seed();
  tensor.scale = made_up->synthetic_scale();
  auto recipe = SyntheticRecipeOf(
      [&](absl::string_view name) {
        tensor.key = SyntheticTensorKey(tensor.seed, name);
        return &tensor;
      },
      w);
  // With what the recipe adds.
  if (recipe.has_value()) recipe->mean = made_up->synthetic_mean();
  return recipe;
}

absl::StatusOr<std::vector<HeldRun>> PlanSupply::Find(
    const std::string& name, const SourcePiece& piece) const {
  std::vector<HeldRows> held;
  std::set<int64_t> borders = {piece.rows.begin, piece.rows.end};
  const auto found = holders_.find(name);
  if (found == holders_.end()) {
    return absl::DataLossError(absl::StrCat("@", name, " is in no rank"));
  }
  for (const Holder& h : found->second) {
    const int64_t element = EncodingBits(h.w->encoding) / 8;
    const int64_t row_bytes = ColsOf(*h.w) * element;
    const auto* data = static_cast<const char*>(h.plan->weight_data(h.index));
    const float* scales = h.plan->weight_scales(h.index);
    const auto& pieces = h.w->source.pieces;
    const int64_t step =
        h.w->source.interleaved ? static_cast<int64_t>(pieces.size()) : 1;
    int64_t first = 0;  // row of the weight that the piece begins at
    for (size_t p = 0; p < pieces.size(); ++p) {
      const SourcePiece& q = pieces[p];
      const int64_t begin =
          h.w->source.interleaved ? static_cast<int64_t>(p) : first;
      first += q.rows.size();
      const Range rows = Overlap(piece.rows, q.rows);
      const Range cols = Overlap(piece.cols, q.cols);
      if (!CountSameRows(piece, q) || rows.size() <= 0 || cols.size() <= 0) {
        continue;
      }
      const int64_t row = begin + (rows.begin - q.rows.begin) * step;
      HeldRows part;
      part.rows = rows;
      part.cols = cols;
      part.data =
          data + row * row_bytes + (cols.begin - q.cols.begin) * element;
      part.row_bytes = row_bytes * step;
      if (scales != nullptr) part.scales = scales + row;
      part.scale_step = step;
      held.push_back(part);
      borders.insert(rows.begin);
      borders.insert(rows.end);
    }
  }
  std::vector<HeldRun> runs;
  if (piece.rows.size() <= 0 || piece.cols.size() <= 0) return runs;
  for (auto border = borders.begin(); std::next(border) != borders.end();
       ++border) {
    HeldRun run;
    run.rows = {*border, *std::next(border)};
    for (int64_t col = piece.cols.begin; col < piece.cols.end;) {
      const auto next =
          std::find_if(held.begin(), held.end(), [&](const HeldRows& h) {
            return h.rows.begin <= run.rows.begin &&
                   h.rows.end >= run.rows.end && h.cols.begin <= col &&
                   h.cols.end > col;
          });
      if (next == held.end()) {
        return absl::DataLossError(absl::StrFormat(
            "@%s: row %d, column %d of tensor \"%s\" is in no rank; compile "
            "the source again",
            name, run.rows.begin, col, piece.tensor));
      }
      HeldRows part = *next;
      const int64_t down = run.rows.begin - part.rows.begin;
      const int64_t element = EncodingBits(found->second[0].w->encoding) / 8;
      part.data += down * part.row_bytes + (col - part.cols.begin) * element;
      if (part.scales != nullptr) part.scales += down * part.scale_step;
      part.rows = run.rows;
      part.cols.begin = col;
      col = part.cols.end;
      run.parts.push_back(part);
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

absl::Status PlanSupply::Emit(const Weight& w,
                              const std::vector<bool>& measured, ByteSink sink,
                              std::vector<float>* scales,
                              StorageError* error) const {
  const std::vector<SourcePiece>& pieces = w.source.pieces;
  if (pieces.empty()) {
    return EmitWeight(*nothing_, w, sink, scales, error, &measured);
  }
  const int64_t element = EncodingBits(w.encoding) / 8;
  const bool quantised = IsQuantized(w.encoding);
  std::vector<std::vector<HeldRun>> runs;
  for (const SourcePiece& piece : pieces) {
    SourcePiece wanted = piece;
    // A rank without columns still has its rows' scales.
    if (quantised && wanted.cols.size() == 0) wanted.cols = {0, 1};
    DS_ASSIGN_OR_RETURN(std::vector<HeldRun> of_piece, Find(w.name, wanted));
    if (piece.cols.size() == 0) {
      for (HeldRun& run : of_piece) {
        for (HeldRows& part : run.parts) part.cols = {0, 0};
      }
    }
    runs.push_back(std::move(of_piece));
  }
  if (!w.source.interleaved) {
    for (const std::vector<HeldRun>& of_piece : runs) {
      for (const HeldRun& run : of_piece) {
        const HeldRows& part = run.parts[0];
        if (run.parts.size() == 1 &&
            part.row_bytes == part.cols.size() * element) {
          DS_RETURN_IF_ERROR(sink(part.data, run.rows.size() * part.row_bytes));
        } else {
          for (int64_t row = run.rows.begin; row < run.rows.end; ++row) {
            DS_RETURN_IF_ERROR(GiveRow(run, row, element, sink));
          }
        }
        if (quantised) GiveScales(run, scales);
      }
    }
    return absl::OkStatus();
  }
  // All pieces have as many rows.
  std::vector<size_t> at(pieces.size(), 0);
  for (int64_t i = 0; i < pieces[0].rows.size(); ++i) {
    for (size_t p = 0; p < pieces.size(); ++p) {
      const int64_t row = pieces[p].rows.begin + i;
      while (at[p] < runs[p].size() && row >= runs[p][at[p]].rows.end) ++at[p];
      if (at[p] == runs[p].size()) break;  // no columns
      const HeldRun& run = runs[p][at[p]];
      DS_RETURN_IF_ERROR(GiveRow(run, row, element, sink));
      const HeldRows& part = run.parts[0];
      if (quantised) {
        scales->push_back(
            part.scales[(row - run.rows.begin) * part.scale_step]);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace deepslice
