#include "runtime/api/model.h"

#include "absl/strings/str_cat.h"
#include "runtime/api/handle.h"
#include "schema/base/status_macros.h"

namespace deepslice {

absl::StatusOr<const ds_tokenizer*> TokenizerOf(ds_model& model) {
  std::lock_guard<std::mutex> lock(model.tokenizer_mutex);
  DS_ASSIGN_OR_RETURN(model.tokenizer.tokenizer, model.session->tokenizer());
  return &model.tokenizer;
}

Handle<ds_model> ModelOver(Session* session) {
  return Handle<ds_model>(new ds_model(session));
}

absl::Status StatusOf(ds_status status) {
  return absl::Status(static_cast<absl::StatusCode>(status), ds_last_error());
}

Running::Running(const char* function, ds_model* model) {
  if (model == nullptr) {
    status_ = NullArgument(function, "model");
    return;
  }
  if (model->session->rank() > 0) {
    status_ = absl::FailedPreconditionError(
        absl::StrCat(function, ": rank ", model->session->rank(),
                     " runs what rank 0 runs; call ds_follow"));
    return;
  }
  if (model->runner.load() == std::this_thread::get_id()) {
    status_ = absl::FailedPreconditionError(absl::StrCat(
        function, ": called from a callback of the same model; return first"));
    return;
  }
  lock_ = std::unique_lock<std::mutex>(model->run_mutex);
  model_ = model;
  model_->runner.store(std::this_thread::get_id());
}

Running::~Running() {
  if (model_ != nullptr) model_->runner.store(std::thread::id());
}

}  // namespace deepslice
