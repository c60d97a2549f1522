// Stands before the C library's functions that change a file system, and fails,
// or ends the process at, one of their calls: a full disk and a kill at every
// moment that matters. And before read(), as a slow or broken disk. For
// LD_PRELOAD; the environment says what happens:
//
//   FAIL_AT=N      the Nth call, from 1 on; absent: none
//   FAIL_HOW       "full" (ENOSPC; EIO from fsync), "kill" (SIGKILL before the
//                  call) or "int" (SIGINT before it, then the call)
//   FAIL_STAYS=1   "full" fails every later call, too
//   FAIL_PLAIN=1   as on a file system without nameless files and without the
//                  exchange of two names
//   FAIL_COUNT     a file that gets the number of calls at the end
//   READ_SHORT=N   read() gives at most N bytes, and every other time EINTR
//   READ_FAILS=N   the Nth read() of more than 64 bytes fails with EIO
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>

namespace {

std::atomic<int> calls{0};

bool IsSet(const char* name) { return getenv(name) != nullptr; }

// Counts a call; true when it must fail, errno set.
bool Fails(int error = ENOSPC) {
  const int n = ++calls;
  const char* at = getenv("FAIL_AT");
  if (at == nullptr) return false;
  const int wanted = atoi(at);
  if (n != wanted && !(n > wanted && IsSet("FAIL_STAYS"))) return false;
  const char* how = getenv("FAIL_HOW");
  if (strcmp(how, "kill") == 0) raise(SIGKILL);
  if (strcmp(how, "int") == 0) {
    raise(SIGINT);
    return false;
  }
  errno = error;
  return true;
}

std::atomic<int> reads{0}, large_reads{0};

int NumberOf(const char* name) {
  const char* text = getenv(name);
  return text == nullptr ? 0 : atoi(text);
}

template <typename F>
F* Real(const char* name, F*) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

struct AtEnd {
  ~AtEnd() {
    const char* path = getenv("FAIL_COUNT");
    if (path == nullptr) return;
    FILE* f = fopen(path, "w");
    if (f == nullptr) return;
    fprintf(f, "%d\n", calls.load());
    fclose(f);
  }
} at_end;

}  // namespace

// The names that programs link to: off_t has 64 bits there and here.
#define WRAPPED(name) __asm__(name) __attribute__((visibility("default")))

extern "C" {

int WrappedOpen(const char* path, int flags, ...) WRAPPED("open64");
ssize_t WrappedWrite(int fd, const void* data, size_t bytes, off_t at)
    WRAPPED("pwrite64");
ssize_t WrappedRead(int fd, void* data, size_t bytes) WRAPPED("read");
int WrappedAllocate(int fd, off_t at, off_t bytes) WRAPPED("posix_fallocate64");
int WrappedTruncate(int fd, off_t bytes) WRAPPED("ftruncate64");
int WrappedSync(int fd) WRAPPED("fsync");
int WrappedMkdir(const char* path, mode_t mode) WRAPPED("mkdir");
int WrappedLink(int from, const char* a, int to, const char* b, int flags)
    WRAPPED("linkat");
int WrappedRename(const char* a, const char* b) WRAPPED("rename");
int WrappedRename2(int from, const char* a, int to, const char* b,
                   unsigned flags) WRAPPED("renameat2");

int WrappedOpen(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const bool makes = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  const int mode = makes ? va_arg(more, int) : 0;
  va_end(more);
  if (makes && Fails()) return -1;
  if (IsSet("FAIL_PLAIN") && (flags & O_TMPFILE) == O_TMPFILE) {
    errno = EOPNOTSUPP;
    return -1;
  }
  return Real("open64", &WrappedOpen)(path, flags, mode);
}

ssize_t WrappedWrite(int fd, const void* data, size_t bytes, off_t at) {
  if (Fails()) return -1;
  return Real("pwrite64", &WrappedWrite)(fd, data, bytes, at);
}

ssize_t WrappedRead(int fd, void* data, size_t bytes) {
  if (bytes > 64 && ++large_reads == NumberOf("READ_FAILS")) {
    errno = EIO;
    return -1;
  }
  const size_t most = static_cast<size_t>(NumberOf("READ_SHORT"));
  if (most > 0 && ++reads % 2 == 1) {
    errno = EINTR;
    return -1;
  }
  return Real("read", &WrappedRead)(fd, data,
                                    most > 0 && bytes > most ? most : bytes);
}

int WrappedAllocate(int fd, off_t at, off_t bytes) {
  if (Fails()) return errno;
  return Real("posix_fallocate64", &WrappedAllocate)(fd, at, bytes);
}

int WrappedTruncate(int fd, off_t bytes) {
  if (Fails()) return -1;
  return Real("ftruncate64", &WrappedTruncate)(fd, bytes);
}

int WrappedSync(int fd) {
  if (Fails(EIO)) return -1;
  return Real("fsync", &WrappedSync)(fd);
}

int WrappedMkdir(const char* path, mode_t mode) {
  if (Fails()) return -1;
  return Real("mkdir", &WrappedMkdir)(path, mode);
}

int WrappedLink(int from, const char* a, int to, const char* b, int flags) {
  if (Fails()) return -1;
  return Real("linkat", &WrappedLink)(from, a, to, b, flags);
}

int WrappedRename(const char* a, const char* b) {
  if (Fails()) return -1;
  return Real("rename", &WrappedRename)(a, b);
}

int WrappedRename2(int from, const char* a, int to, const char* b,
                   unsigned flags) {
  if (Fails()) return -1;
  if (IsSet("FAIL_PLAIN")) {
    errno = EINVAL;
    return -1;
  }
  return Real("renameat2", &WrappedRename2)(from, a, to, b, flags);
}

}  // extern "C"
