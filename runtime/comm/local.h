// Ranks as threads of one process: for tests and `dsplan verify`.
#ifndef DEEPSLICE_RUNTIME_COMM_LOCAL_H_
#define DEEPSLICE_RUNTIME_COMM_LOCAL_H_

#include <memory>
#include <vector>

#include "runtime/comm/comm.h"

namespace deepslice {

// One Comm per rank, each for one thread at a time. A rank whose Comm is
// destroyed has left: ranks that wait for it then or later get Aborted.
std::vector<std::unique_ptr<Comm>> MakeLocalComms(int world);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_COMM_LOCAL_H_
