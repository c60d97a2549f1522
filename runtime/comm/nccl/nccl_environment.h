// What NCCL must find in the environment before it is opened.
#ifndef DEEPSLICE_RUNTIME_COMM_NCCL_NCCL_ENVIRONMENT_H_
#define DEEPSLICE_RUNTIME_COMM_NCCL_NCCL_ENVIRONMENT_H_

#include <string>
#include <utility>
#include <vector>

namespace deepslice {

// Names and values for rank `rank`. `share_gpu`: several ranks have the same
// GPU, which NCCL refuses unless it takes them for ranks of different hosts,
// which then talk through the loopback device.
std::vector<std::pair<std::string, std::string>> NcclEnvironment(
    int rank, bool share_gpu);

// Sets those that the user has not set; call it while there is one thread.
void SetNcclEnvironment(int rank, bool share_gpu);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_COMM_NCCL_NCCL_ENVIRONMENT_H_
