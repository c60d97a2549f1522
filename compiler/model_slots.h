// Which places a policy's patterns fill in one model, and how large they are.
#ifndef DEEPSLICE_COMPILER_MODEL_SLOTS_H_
#define DEEPSLICE_COMPILER_MODEL_SLOTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compiler/model.h"
#include "compiler/model_attributes.h"
#include "compiler/policy.h"
#include "compiler/weight_slot.h"

namespace deepslice {

// Rows or columns of a slot in this model; 1 for kNone.
int64_t SlotSize(const ModelDescription& model, SlotDim dim);
// Whether the model's head reads the pattern's tensors.
bool IsOfHead(const WeightPattern& pattern, const ModelFlags& flags);
// Whether the config has tensors of that pattern.
bool IsWanted(const WeightPattern& pattern, const ModelFlags& flags);
// The role of a slot in this model.
Role SlotRole(const ModelDescription& model, const WeightSlot& slot);
// The shape of a pattern's tensor as it is published, and its rows before the
// first that the weights take.
std::vector<int64_t> PublishedShape(const WeightPattern& pattern,
                                    const ModelDescription& model,
                                    const ModelFlags& flags);
int64_t FirstRow(const WeightPattern& pattern, const ModelFlags& flags);

// The weight of a slot at one layer, without its pieces.
ModelWeight NewWeight(const ModelDescription& model, const WeightSlot& slot,
                      int64_t layer);
// Where the rows of slot `index` lie in a tensor of that layout: block, every
// and from of the piece. kThirds leaves them: it is told by rows alone.
void PlaceRows(const ModelDescription& model, const WeightPattern& pattern,
               RowLayout layout, size_t index, SourcePiece* piece);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_MODEL_SLOTS_H_
