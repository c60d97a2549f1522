#include "runtime/comm/shm_messages.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace deepslice {
namespace {

void CopyText(absl::string_view from, char* to, size_t to_bytes) {
  const size_t n = std::min(from.size(), to_bytes - 1);
  if (n > 0) std::memcpy(to, from.data(), n);  // an empty view may be null
  std::memset(to + n, 0, to_bytes - n);
}

// Receives at most `size` bytes, with a descriptor if one comes. MSG_TRUNC in
// the flags makes the result the message's own length.
ssize_t Receive(int socket, void* to, size_t size, ScopedFd* descriptor) {
  iovec data = {to, size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t n;
  do {
    n = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | MSG_TRUNC);
  } while (n < 0 && errno == EINTR);
  if (n < 0) return n;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr;
       c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    int fd;
    std::memcpy(&fd, CMSG_DATA(c), sizeof(fd));
    ScopedFd owned(fd);
    if (descriptor != nullptr) *descriptor = std::move(owned);
  }
  return n;
}

Received Classify(ssize_t n, size_t wanted) {
  if (n < 0) {
    return errno == EAGAIN || errno == EWOULDBLOCK ? Received::kLater
                                                   : Received::kGone;
  }
  if (n == 0) return Received::kGone;
  return static_cast<size_t>(n) == wanted ? Received::kMessage
                                          : Received::kJunk;
}

}  // namespace

Hello MakeHello(const ShmOptions& options) {
  Hello hello = {};
  std::memcpy(hello.magic, kHelloMagic, sizeof(hello.magic));
  hello.protocol = kShmProtocol;
  hello.rank = options.rank;
  hello.world = options.world;
  hello.pid = getpid();
  CopyText(options.plan_set_id, hello.plan_set_id, sizeof(hello.plan_set_id));
  return hello;
}

bool SendHello(int socket, const Hello& hello) {
  return send(socket, &hello, sizeof(hello), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(sizeof(hello));
}

bool SendWelcome(int socket, const absl::Status& status, int memory) {
  Welcome welcome = {};
  std::memcpy(welcome.magic, kWelcomeMagic, sizeof(welcome.magic));
  welcome.code = static_cast<int32_t>(status.code());
  CopyText(status.message(), welcome.text, sizeof(welcome.text));
  iovec data = {&welcome, sizeof(welcome)};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (memory >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(c), &memory, sizeof(int));
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL) ==
         static_cast<ssize_t>(sizeof(welcome));
}

Received ReceiveHello(int socket, Hello* hello) {
  const Received got =
      Classify(Receive(socket, hello, sizeof(*hello), nullptr), sizeof(*hello));
  if (got != Received::kMessage) return got;
  if (std::memcmp(hello->magic, kHelloMagic, sizeof(hello->magic)) != 0) {
    return Received::kJunk;
  }
  hello->plan_set_id[kMaxPlanSetId] = '\0';
  return Received::kMessage;
}

Received ReceiveWelcome(int socket, absl::Status* status, ScopedFd* memory) {
  Welcome welcome;
  const Received got = Classify(
      Receive(socket, &welcome, sizeof(welcome), memory), sizeof(welcome));
  if (got != Received::kMessage) return got;
  if (std::memcmp(welcome.magic, kWelcomeMagic, sizeof(welcome.magic)) != 0) {
    return Received::kJunk;
  }
  welcome.text[sizeof(welcome.text) - 1] = '\0';
  *status = absl::Status(static_cast<absl::StatusCode>(welcome.code),
                         absl::string_view(welcome.text));
  return Received::kMessage;
}

}  // namespace deepslice
