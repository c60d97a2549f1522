// The two messages of the rendezvous, as bytes on a SOCK_SEQPACKET socket.
#ifndef DEEPSLICE_RUNTIME_COMM_SHM_MESSAGES_H_
#define DEEPSLICE_RUNTIME_COMM_SHM_MESSAGES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/comm/shm_rendezvous.h"
#include "schema/base/limits.h"

namespace deepslice {

inline constexpr uint32_t kShmProtocol = 2;
inline constexpr size_t kMaxPlanSetId = limits::kPlanSetIdBytes;

struct Hello {
  char magic[8];  // kHelloMagic
  uint32_t protocol;
  uint32_t rank;
  uint32_t world;
  uint32_t pid;
  char plan_set_id[kMaxPlanSetId + 1];  // NUL-terminated
};
inline constexpr char kHelloMagic[] = "DSHELLO";

// code 0: come in, the shared memory's descriptor travels along. Else why not.
struct Welcome {
  char magic[8];  // kWelcomeMagic
  int32_t code;
  char text[1024];  // NUL-terminated
};
inline constexpr char kWelcomeMagic[] = "DSWELCM";

Hello MakeHello(const ShmOptions& options);
// False when the peer is gone.
bool SendHello(int socket, const Hello& hello);
// `memory` < 0: none goes along.
bool SendWelcome(int socket, const absl::Status& status, int memory);

// kJunk: not our message, so a stranger. kGone: closed. kLater: nothing yet.
enum class Received { kMessage, kJunk, kGone, kLater };
// Neither waits.
Received ReceiveHello(int socket, Hello* hello);
Received ReceiveWelcome(int socket, absl::Status* status, ScopedFd* memory);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_COMM_SHM_MESSAGES_H_
