#include "runtime/comm/ranks_for_test.h"

#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "runtime/comm/local.h"
#include "schema/base/check.h"

namespace deepslice {

std::string NewTestAddress() {
  static int count = 0;
  return DefaultShmAddress(absl::StrCat("test ", getpid(), " ", ++count));
}

std::vector<std::string> RunProcesses(
    const std::vector<std::function<std::string()>>& bodies,
    absl::Duration stagger) {
  std::vector<int> pipes, pids;
  for (const auto& body : bodies) {
    int ends[2];
    DS_CHECK(pipe(ends) == 0);
    const int pid = fork();
    DS_CHECK(pid >= 0);
    if (pid == 0) {
      close(ends[0]);
      const std::string result = body();
      for (size_t done = 0; done < result.size();) {
        const ssize_t n =
            write(ends[1], result.data() + done, result.size() - done);
        if (n <= 0) _exit(1);
        done += n;
      }
      _exit(0);
    }
    close(ends[1]);
    pipes.push_back(ends[0]);
    pids.push_back(pid);
    absl::SleepFor(stagger);
  }
  std::vector<std::string> results(bodies.size());
  for (size_t i = 0; i < bodies.size(); ++i) {
    char block[1 << 16];
    ssize_t n;
    while ((n = read(pipes[i], block, sizeof(block))) > 0) {
      results[i].append(block, n);
    }
    close(pipes[i]);
    int status = 0;
    DS_CHECK(waitpid(pids[i], &status, 0) == pids[i]);
    if (WIFSIGNALED(status)) {
      results[i] = WTERMSIG(status) == SIGKILL
                       ? "killed"
                       : absl::StrCat("signal ", WTERMSIG(status));
    }
  }
  return results;
}

std::vector<std::string> RunInRanks(CommKind kind, int world,
                                    const RankFunction& function) {
  if (kind == CommKind::kLocal) {
    std::vector<std::unique_ptr<Comm>> comms = MakeLocalComms(world);
    std::vector<std::string> results(world);
    std::vector<std::thread> threads;
    for (int r = 0; r < world; ++r) {
      threads.emplace_back([&, r] {
        results[r] = function(comms[r].get());
        comms[r].reset();  // the rank leaves, as a process would
      });
    }
    for (std::thread& t : threads) t.join();
    return results;
  }
  const std::string address = NewTestAddress();
  std::vector<std::function<std::string()>> bodies;
  for (int r = 0; r < world; ++r) {
    bodies.push_back([&, r]() -> std::string {
      ShmOptions options;
      options.rank = r;
      options.world = world;
      options.address = address;
      options.plan_set_id = "one set";
      auto comm = ConnectShm(options);
      return comm.ok() ? function(comm->get()) : comm.status().ToString();
    });
  }
  return RunProcesses(bodies);
}

}  // namespace deepslice
