// What the few functions and classes that torch.save's files call stand for.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_PICKLE_CALLS_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_PICKLE_CALLS_H_

#include "absl/status/statusor.h"
#include "compiler/checkpoint/pickle_value.h"

namespace deepslice::pickle {

// What `callee` (kGlobal or kObject) would give for a kTuple of arguments:
// dicts, sets, bytes and tensors where it is one of their makers, whose
// arguments are then checked, else a kObject that keeps both.
absl::StatusOr<Value*> Call(Heap& heap, const Value* callee, const Value* args);

Value* NewObject(Heap& heap, const Value* cls, const Value* args);

// What a persistent id stands for: ("storage", class, key, location, count[,
// view]) gives a kStorage.
absl::StatusOr<Value*> Persistent(Heap& heap, const Value* id);

}  // namespace deepslice::pickle

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_PICKLE_CALLS_H_
