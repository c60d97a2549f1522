#include "runtime/comm/nccl/nccl_environment.h"

#include <stdlib.h>

#include "absl/strings/str_cat.h"

namespace deepslice {

std::vector<std::pair<std::string, std::string>> NcclEnvironment(
    int rank, bool share_gpu) {
  // Multicast memory fails under some virtualised drivers at first use, long
  // after NCCL chose it; small messages go over peer memory anyway.
  std::vector<std::pair<std::string, std::string>> out = {
      {"NCCL_NVLS_ENABLE", "0"}};
  if (share_gpu) {
    out.emplace_back("NCCL_HOSTID", absl::StrCat("deepslice-rank-", rank));
    out.emplace_back("NCCL_SOCKET_IFNAME", "lo");
    out.emplace_back("NCCL_IB_DISABLE", "1");
  }
  return out;
}

void SetNcclEnvironment(int rank, bool share_gpu) {
  for (const auto& [name, value] : NcclEnvironment(rank, share_gpu)) {
    setenv(name.c_str(), value.c_str(), /*replace=*/0);
  }
}

}  // namespace deepslice
