// Loading a plan through the C interface: which rank this process is, or all
// ranks as its threads.
#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/api/api_call.h"
#include "runtime/api/model.h"
#include "runtime/launch.h"
#include "runtime/launch_host.h"
#include "runtime/manifest.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

const char* Env(const char* name) { return std::getenv(name); }

// Of the first version of each struct.
constexpr size_t kLoadParamsBytes = sizeof(ds_load_params);

ds_load_params DefaultLoadParams() {
  ds_load_params p = {};
  p.struct_size = sizeof(p);
  p.rank = p.world_size = p.local_rank = -1;
  p.init_timeout_seconds = 60;
  return p;
}

absl::Status CheckCount(const char* name, int64_t value, int64_t most) {
  if (value >= 0 && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "ds_load: ", name, " is ", value, "; 0 to ", most, " are allowed"));
}

absl::Status CheckParams(const ds_load_params& p) {
  constexpr int64_t kMost = int64_t{1} << 31;
  DS_RETURN_IF_ERROR(CheckCount("threads", p.threads, 4096));
  DS_RETURN_IF_ERROR(CheckCount("max_batch", p.max_batch, kMost));
  DS_RETURN_IF_ERROR(CheckCount("max_step_tokens", p.max_step_tokens, kMost));
  DS_RETURN_IF_ERROR(CheckCount("max_seq_len", p.max_seq_len, kMost));
  // Not a number, too.
  if (!(p.init_timeout_seconds > 0) || p.init_timeout_seconds > 1e9) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ds_load: init_timeout_seconds is ", p.init_timeout_seconds,
        "; above 0 and up to 1e9 are "
        "allowed"));
  }
  return absl::OkStatus();
}

// nullopt: the ranks are threads of this process.
absl::StatusOr<std::optional<RankPlace>> FindPlace(const ds_load_params& p,
                                                   int plan_world) {
  if (p.rank < 0 && (plan_world == 1 || p.world_size == 1)) {
    return std::optional<RankPlace>();
  }
  RankFlags flags;
  const auto set = [](int32_t value, std::optional<std::string>* flag) {
    if (value >= 0) *flag = absl::StrCat(value);
  };
  set(p.rank, &flags.rank);
  set(p.world_size, &flags.world_size);
  set(p.local_rank, &flags.local_rank);
  return DiscoverRank(flags, Env, plan_world);
}

// All ranks in this process, those above 0 as threads.
absl::Status LoadHere(SessionOptions options, int world, ds_model* model) {
  options.place.world = options.place.local_world = world;
  if (options.device.kind == DeviceChoice::Kind::kCuda) {
    return absl::FailedPreconditionError(absl::StrCat(
        options.plan, ": has ", world,
        " ranks, and as threads of one process they run on the CPU; start a "
        "process for each, by torchrun or mpirun, for the GPUs"));
  }
  options.device.kind = DeviceChoice::Kind::kCpu;
  model->ranks = LocalRanks::Start(options, world);
  model->owned = Session::Over(options, model->ranks->TakeComm());
  const absl::Status status =
      model->owned->Load([](const Plan&) { return RunLimits(); });
  if (status.ok()) return status;
  model->owned.reset();
  return model->ranks->RootCause(status);
}

absl::Status Load(const std::string& folder, const ds_load_params& p,
                  ds_model* model) {
  DS_RETURN_IF_ERROR(CheckParams(p));
  SessionOptions options;
  options.plan = folder;
  options.threads = p.threads;
  options.limits = {.max_batch = p.max_batch,
                    .max_step_tokens = p.max_step_tokens,
                    .max_seq_len = p.max_seq_len};
  DS_RETURN_IF_ERROR(Annotate(
      ParseDevice(p.device == nullptr ? "auto" : p.device, &options.device),
      "ds_load: device"));
  options.device.share_gpu = p.share_gpu != 0;
  options.device.init_timeout = absl::Seconds(p.init_timeout_seconds);
  if (p.on_note != nullptr) {
    options.on_note = options.on_slow = [p](absl::string_view text) {
      p.on_note(p.user, std::string(text).c_str());
    };
  }
  DS_ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(folder));
  const int world = manifest.world_size;
  DS_ASSIGN_OR_RETURN(const std::optional<RankPlace> place,
                      FindPlace(p, world));
  if (!place.has_value() && world > 1) return LoadHere(options, world, model);
  if (place.has_value()) {
    DS_RETURN_IF_ERROR(CheckPlace(*place, world, folder));
    options.place = *place;
    options.launch_id =
        p.launch_id != nullptr
            ? p.launch_id
            : LaunchId(Env, LauncherProcess(), manifest.plan_set_id);
  }
  DS_ASSIGN_OR_RETURN(model->owned, Session::Connect(options, manifest));
  return model->owned->Load([](const Plan&) { return RunLimits(); });
}

bool HasText(const flatbuffers::String* text) {
  return text != nullptr && text->size() > 0;
}

}  // namespace
}  // namespace deepslice

using namespace deepslice;  // NOLINT: the interface's functions have no other

void ds_init_load_params(ds_load_params* params, size_t size) noexcept {
  if (params != nullptr) WriteStruct(DefaultLoadParams(), params, size);
}

ds_status ds_load(const char* folder, const ds_load_params* params,
                  ds_model** model) noexcept {
  return ApiCall([&]() -> absl::Status {
    if (model == nullptr) return NullArgument("ds_load", "model");
    *model = nullptr;
    if (folder == nullptr) return NullArgument("ds_load", "folder");
    ds_load_params p = DefaultLoadParams();
    DS_RETURN_IF_ERROR(
        ReadStruct(params, kLoadParamsBytes, "ds_load_params", &p));
    auto loaded = std::make_unique<ds_model>();
    DS_RETURN_IF_ERROR(Load(folder, p, loaded.get()));
    loaded->session = loaded->owned.get();
    *model = loaded.release();
    return absl::OkStatus();
  });
}

void ds_free(ds_model* model) noexcept { delete model; }

ds_status ds_get_model_info(const ds_model* model, ds_model_info* info,
                            size_t size) noexcept {
  return ApiCall([&]() -> absl::Status {
    if (info == nullptr) return NullArgument("ds_get_model_info", "info");
    ds_model_info out = {};
    WriteStruct(out, info, size);
    if (model == nullptr) return NullArgument("ds_get_model_info", "model");
    const Session& s = *model->session;
    const fb::Plan& plan = s.plan().fb();
    const RunLimits& limits = s.executor().limits();
    out.rank = s.rank();
    out.world_size = s.plan().world_size();
    out.vocab_size = s.executor().vocab_size();
    out.max_batch = limits.max_batch;
    out.max_step_tokens = limits.max_step_tokens;
    out.max_seq_len = limits.max_seq_len;
    out.has_tokenizer = s.has_tokenizer();
    out.has_chat_template = HasText(plan.chat_template());
    out.device = s.target().c_str();
    out.plan_set_id = plan.plan_set_id()->c_str();
    WriteStruct(out, info, size);
    return absl::OkStatus();
  });
}

ds_status ds_follow(ds_model* model) noexcept {
  return ApiCall([&]() -> absl::Status {
    if (model == nullptr) return NullArgument("ds_follow", "model");
    Session& s = *model->session;
    if (s.rank() == 0) {
      return absl::FailedPreconditionError(
          "ds_follow: this is rank 0, which the others follow");
    }
    return RunFollower(s.mutable_executor(), s.comm());
  });
}
