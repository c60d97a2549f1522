// The C interface for C++ programs of this tree, dsrun above all: a session as
// its handle, and its failures as absl::Status.
#ifndef DEEPSLICE_RUNTIME_API_HANDLE_H_
#define DEEPSLICE_RUNTIME_API_HANDLE_H_

#include <memory>

#include "absl/status/status.h"
#include "runtime/api/deepslice.h"
#include "runtime/api/session.h"

namespace deepslice {

// What frees each kind of handle.
struct FreeHandle {
  void operator()(ds_model* m) const { ds_free(m); }
  void operator()(ds_tokenizer* t) const { ds_free_tokenizer(t); }
  void operator()(ds_generation* g) const { ds_free_generation(g); }
  void operator()(void* memory) const { ds_release(memory); }
};
template <typename T>
using Handle = std::unique_ptr<T, FreeHandle>;

// A model over a session that is loaded and outlives it.
Handle<ds_model> ModelOver(Session* session);

// What a call that gave `status` just now, in this thread, has failed with.
absl::Status StatusOf(ds_status status);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_API_HANDLE_H_
