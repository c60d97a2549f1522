// Runs a function in every rank, over threads or over forked processes.
#ifndef DEEPSLICE_RUNTIME_COMM_RANKS_FOR_TEST_H_
#define DEEPSLICE_RUNTIME_COMM_RANKS_FOR_TEST_H_

#include <functional>
#include <string>
#include <vector>

#include "runtime/comm/comm.h"
#include "runtime/comm/shm.h"

namespace deepslice {

enum class CommKind { kLocal, kShm };

// The bytes that each rank's function returned. A process that was killed
// gives "killed".
using RankFunction = std::function<std::string(Comm*)>;
std::vector<std::string> RunInRanks(CommKind kind, int world,
                                    const RankFunction& function);

// The same in processes that do their own ConnectShm. In the order of `bodies`;
// each starts `stagger` after the one before.
std::vector<std::string> RunProcesses(
    const std::vector<std::function<std::string()>>& bodies,
    absl::Duration stagger = absl::ZeroDuration());

// An address that no other test uses.
std::string NewTestAddress();

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_COMM_RANKS_FOR_TEST_H_
