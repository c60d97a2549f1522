// dsrun: runs the plans that dscompile makes.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/api/session.h"
#include "runtime/comm/shm.h"
#include "runtime/launch.h"
#include "runtime/launch_host.h"
#include "runtime/manifest.h"
#include "runtime/spawn.h"
#include "schema/base/exit_code.h"
#include "schema/base/file.h"
#include "schema/base/status_macros.h"
#include "tools/cli_parse.h"
#include "tools/command_line.h"
#include "tools/dsrun_options.h"
#include "tools/dsrun_report.h"
#include "tools/dsrun_work.h"
#include "tools/progress.h"
#include "tools/rank_stderr.h"
#include "tools/tensor_file.h"

namespace deepslice {
namespace {

volatile sig_atomic_t interrupted = 0;
// A byte per SIGINT, so that a wait can watch for one beside its input: a
// signal just before the wait, or taken by another thread, is not lost.
int interrupt_pipe[2] = {-1, -1};

void SetInterrupted(int) {
  const int error = errno;
  interrupted = 1;
  // Full: enough bytes are there already.
  if (write(interrupt_pipe[1], "", 1) < 0) errno = error;
}

// Ends the process at once, as the other ranks and the supervisor expect, but
// leaves no half-written file.
void RemoveUnfinished() {
  if (const char* path = TensorWriter::UnfinishedPath()) unlink(path);
  if (const char* path = ShmListeningPath()) unlink(path);
}
void EndOnSignal(int number) {
  LeaveShmBySignal(number);
  RemoveUnfinished();
  _exit(128 + number);
}

void Handle(int number, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;  // without SA_RESTART: reading a line ends, too
  sigaction(number, &action, nullptr);
}

// The process that started this one, asked for as early as can be.
pid_t parent = 0;

const char* Env(const char* name) { return std::getenv(name); }

void PrintError(const absl::Status& status) {
  deepslice::PrintError("dsrun", status);
}

std::unique_ptr<Work> MakeWork(const DsrunOptions& o) {
  if (o.verb == DsrunOptions::Verb::kBench) return NewBenchWork(o);
  if (o.verb == DsrunOptions::Verb::kTune) return NewTuneWork(o);
  if (o.verb == DsrunOptions::Verb::kSelftest) return NewSelftestWork(o);
  if (o.verb == DsrunOptions::Verb::kEmbed) return NewEmbedWork(o);
  if (o.verb == DsrunOptions::Verb::kClassify) return NewClassifyWork(o);
  if (o.verb == DsrunOptions::Verb::kFillMask) return NewFillMaskWork(o);
  if (o.feed.has_value()) return NewFeedWork(o);
  if (o.perplexity.has_value()) return NewPerplexityWork(o);
  if (o.chat) return NewChatWork(o);
  return NewGenerateWork(o);
}

// A terminal that goes away ends the process, too, but for nohup's.
void HandleEnds() {
  for (const int number : {SIGINT, SIGTERM}) Handle(number, EndOnSignal);
  struct sigaction hangup;
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 &&
      hangup.sa_handler != SIG_IGN) {
    Handle(SIGHUP, EndOnSignal);
  }
}

// Whether this rank's failure is news that no other rank prints: rank 0 prints
// what ends a launch, whoever failed; rank 1 prints it when rank 0 is gone.
bool IsNews(int rank, bool connected, const absl::Status& status) {
  return rank == 0 || !connected ||
         (rank == 1 && absl::StartsWith(status.message(), "rank 0 "));
}

// The rank's part of the run, between the flags' wishes about it.
absl::Status RunSession(const DsrunOptions& options, Work& work,
                        Session& session) {
  Executor& executor = *session.mutable_executor();
  if (options.profile.has_value()) {
    DS_RETURN_IF_ERROR(Annotate(executor.TimeSteps(true), "--profile"));
  }
  DS_RETURN_IF_ERROR(session.rank() > 0 ? RunFollower(&executor, session.comm())
                                        : work.Run(session));
  if (options.report_memory) {
    const std::string table = absl::StrCat(
        MemoryReport(executor.memory(), session.rank(),
                     session.plan().world_size()),
        LoadReport(static_cast<int64_t>(session.plan().weights().size()),
                   executor.weights_seconds()));
    std::fputs(table.c_str(), stderr);
  }
  if (!options.profile.has_value()) return absl::OkStatus();
  DS_ASSIGN_OR_RETURN(const auto timings, executor.TakeTimings());
  return WriteFile(ProfilePath(*options.profile, session.rank()),
                   ChromeTrace(timings, session.rank()));
}

// What runs, and with which ceilings.
std::string LoadedText(Session& session) {
  const Executor& executor = session.executor();
  const RunLimits& limits = executor.limits();
  return absl::StrCat("loaded for ", session.target(), ": sequences of up to ",
                      limits.max_seq_len, " tokens, up to ", limits.max_batch,
                      " at a time, ", limits.max_step_tokens,
                      " tokens a step, ", executor.num_blocks(),
                      " cache blocks of ", executor.block_tokens(), " tokens");
}

// The signals and the terminal of the rank at `place`.
void SettleRank(const DsrunOptions& options, const RankPlace& place,
                const Manifest& manifest) {
  if (place.rank == 0) {
    HandleEnds();
    if (!place.source.empty() && !options.verbosity.quiet) {
      absl::FPrintF(
          stderr, "%s\n",
          OneLine(LaunchLine(place, Env, HostName(), manifest.plan_set_id)));
    }
    return;
  }
  // A conversation's Ctrl-C is rank 0's to understand, and goes to all.
  if (options.chat) Handle(SIGINT, SIG_IGN);
  if (isatty(STDERR_FILENO) != 0) {
    PrefixStderr(absl::StrCat("[rank ", place.rank, "] "));
  }
}

absl::Status CheckTakes(const Work& work, const Plan& plan,
                        const std::string& folder) {
  if (work.takes_encoders() || EncodeProgram(plan) == nullptr) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      folder, ": is an encoder, which generates nothing; use dsrun embed, "
      "classify or fill-mask, or --feed"));
}

// Runs this process as the rank at `place`; returns its exit code.
int RunRank(const DsrunOptions& options, const RankPlace& place,
            const Manifest& manifest) {
  SettleRank(options, place, manifest);
  SessionOptions session_options = {
      .plan = options.plan,
      .place = place,
      .launch_id = LaunchId(Env, LauncherProcess(), manifest.plan_set_id),
      .threads = options.threads,
      .limits = options.limits,
      .device = options.device};
  if (options.spawned.has_value()) {
    session_options.sockets = options.spawned->sockets;
  }
  // Of rank 0 alone; the others read as much.
  Progress progress(
      place.rank == 0 && !options.verbosity.quiet && options.verbosity.progress,
      Progress::Stderr());
  session_options.on_loaded = [&](int64_t done, int64_t all) {
    progress.Report("loaded", done, all);
  };
  const auto say = [&](const char* kind, absl::string_view text) {
    if (options.verbosity.quiet) return;
    progress.Clear();
    absl::FPrintF(stderr, "%s: %s\n", kind, OneLine(text));
  };
  session_options.on_slow = [&](absl::string_view text) {
    say("warning", text);
  };
  session_options.on_note = [&](absl::string_view text) { say("note", text); };
  std::unique_ptr<Work> work = MakeWork(options);
  bool connected = false;
  // When the launcher has ended, that is what rank 0 tells, once, and what the
  // ranks see of each other's end is no news.
  std::optional<ParentWatch> launcher;
  std::atomic<bool> told_of_launcher = false;
  const auto tell_of_launcher = [&](pid_t ended) {
    if (place.rank != 0 || told_of_launcher.exchange(true)) return;
    PrintError(absl::UnavailableError(
        absl::StrCat("the launcher (pid ", ended, ", ", place.source,
                     ") has ended, and its ranks with it")));
  };
  const auto tell = [&](const absl::Status& why) {
    const pid_t ended = launcher.has_value() ? launcher->Ended() : 0;
    if (options.spawned.has_value()) {
      ReportFailure(options.spawned->report_fd, why);
    } else if (ended != 0) {
      tell_of_launcher(ended);
    } else if (IsNews(place.rank, connected, why)) {
      PrintError(why);
    }
  };
  // The device keeps this thread waiting although a rank is lost: the watchdog
  // ends the process in its place.
  session_options.device.on_stuck = [&](const absl::Status& why) {
    tell(why);
    _exit(ExitCodeOf(why));
  };
  if (place.launcher_stays) {
    launcher.emplace(parent, [&](pid_t ended) {
      tell_of_launcher(ended);
      RemoveUnfinished();
      _exit(kExitRankFailed);
    });
  }
  const absl::Status status = [&]() -> absl::Status {
    try {
      if (place.rank == 0) DS_RETURN_IF_ERROR(work->Before(manifest));
      DS_ASSIGN_OR_RETURN(const auto session,
                          Session::Connect(session_options, manifest));
      connected = true;
      DS_RETURN_IF_ERROR(
          session->Load([&](const Plan& plan) -> absl::StatusOr<RunLimits> {
            DS_RETURN_IF_ERROR(CheckTakes(*work, plan, options.plan));
            return work->Limits(plan);
          }));
      progress.Clear();
      if (options.verbosity.verbose && place.rank == 0) {
        say("note", LoadedText(*session));
      }
      return RunSession(options, *work, *session);
    } catch (...) {  // the supervisor, or rank 0, is to hear of it
      return StatusOfException(std::current_exception());
    }
  }();
  progress.Clear();
  // Ctrl-C at a conversation's prompt, or a signal to rank 0: the user's will
  // and no failure.
  if (absl::IsCancelled(status)) return kExitInterrupted;
  if (!status.ok()) tell(status);
  return ExitCodeOf(status);
}

// Work that reads a prompt from the terminal wants to be asked for.
absl::Status CheckHasWork(const DsrunOptions& o) {
  const bool named = o.verb != DsrunOptions::Verb::kGenerate || o.chat ||
                     o.feed.has_value() || o.perplexity.has_value() ||
                     o.prompt.has_value() || o.prompt_file.has_value() ||
                     o.prompts.has_value() || !o.prompt_ids.empty();
  if (named || o.rank_flags.rank.has_value() || isatty(STDIN_FILENO) == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "nothing to do: give -p TEXT, --chat, --prompt-ids, --feed, "
      "--perplexity, or a prompt on stdin; see dsrun --help");
}

// CheckPlace, and that MASTER_ADDR is this host where no launcher has told on
// which hosts its ranks are.
absl::Status CheckPlaceHere(const RankPlace& place, int plan_world,
                            const std::string& plan) {
  DS_RETURN_IF_ERROR(CheckPlace(place, plan_world, plan));
  const char* master = Env("MASTER_ADDR");
  if (place.world == 1 || place.knows_hosts || master == nullptr ||
      *master == '\0') {
    return absl::OkStatus();
  }
  return Annotate(CheckMasterIsHere(master), plan);
}

int Main(int argc, char** argv) {
  const auto usage = [](const absl::Status& status) {
    PrintError(status);
    return kExitUsage;
  };
  const auto fail = [](const absl::Status& status) {
    PrintError(status);
    return ExitCodeOf(status);
  };
  const auto parsed = ParseDsrunOptions(argc, argv);
  if (!parsed.ok()) {
    PrintError(parsed.status());
    return UsageExitCode(parsed.status());
  }
  if (!parsed->has_value()) return kExitDone;
  const DsrunOptions& options = **parsed;

  if (options.verb == DsrunOptions::Verb::kTemplate) {
    const absl::Status status = RenderTemplate(options);
    return status.ok() ? kExitDone : fail(status);
  }
  if (options.verb == DsrunOptions::Verb::kTokenize) {
    const absl::Status status = Tokenize(options);
    return status.ok() ? kExitDone : fail(status);
  }
  if (const absl::Status status = CheckHasWork(options); !status.ok()) {
    return usage(status);
  }
  const auto manifest = ReadManifest(options.plan);
  if (!manifest.ok()) return fail(manifest.status());

  if (options.spawned.has_value()) {
    RankPlace place = {.rank = options.spawned->rank,
                       .world = options.spawned->world,
                       .local_rank = options.spawned->rank,
                       .local_world = options.spawned->world,
                       .source = "started here"};
    return RunRank(options, place, *manifest);
  }
  const auto place =
      DiscoverRank(options.rank_flags, Env, manifest->world_size);
  if (!place.ok()) return usage(place.status());
  if (place->has_value()) {
    const absl::Status fits =
        CheckPlaceHere(**place, manifest->world_size, options.plan);
    if (!fits.ok()) return fail(fits);
    return RunRank(options, **place, *manifest);
  }
  if (options.rank_flags.spawn.has_value()) {
    const absl::Status fits = CheckSpawn(*options.rank_flags.spawn,
                                         manifest->world_size, options.plan);
    if (absl::IsInvalidArgument(fits)) return usage(fits);
    if (!fits.ok()) return fail(fits);
  }
  if (manifest->world_size == 1) {
    return RunRank(options, RankPlace(), *manifest);
  }
  const auto end = RunRanks(options.arguments, manifest->world_size);
  if (!end.ok()) return fail(end.status());
  if (!end->why.ok()) PrintError(end->why);
  return end->exit_code;
}

}  // namespace

const fb::Program* EncodeProgram(const Plan& plan) {
  for (const fb::Target* t : *plan.fb().targets()) {
    for (const fb::Program* p : *t->programs()) {
      if (p->kind() == fb::ProgramKind::Encode) return p;
    }
  }
  return nullptr;
}

bool TakeInterrupt() {
  const bool was = interrupted != 0;
  interrupted = 0;
  char bytes[64];
  while (read(interrupt_pipe[0], bytes, sizeof(bytes)) > 0) {
  }
  return was;
}

absl::Status HandleInterrupts() {
  if (pipe2(interrupt_pipe, O_CLOEXEC | O_NONBLOCK) != 0) {
    return absl::InternalError(
        absl::StrCat("no pipe for signals: ", std::strerror(errno)));
  }
  Handle(SIGINT, SetInterrupted);
  return absl::OkStatus();
}

int InterruptFd() { return interrupt_pipe[0]; }

}  // namespace deepslice

int main(int argc, char** argv) {
  deepslice::parent = getppid();
  return deepslice::RunProgram("dsrun", deepslice::Main, argc, argv);
}
