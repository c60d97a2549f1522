// --feed and --fetch: one forward pass over named tensors.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schema/base/status_macros.h"
#include "tools/dsrun_work.h"
#include "tools/tensor_file.h"

namespace deepslice {
namespace {

class FeedWork final : public Work {
 public:
  explicit FeedWork(const DsrunOptions& o) : feed_(*o.feed), fetch_(*o.fetch) {}

  absl::StatusOr<RunLimits> Limits(const Plan& plan) override {
    DS_ASSIGN_OR_RETURN(const TensorFile file, TensorFile::Open(feed_));
    DS_RETURN_IF_ERROR(Annotate(Read(file), feed_));
    return RunLimits{.max_batch = static_cast<int64_t>(sequences_.size())};
  }
  absl::Status Run(Session& session) override;

 private:
  absl::Status Read(const TensorFile& file);

  const std::string feed_, fetch_;
  int64_t batch_ = 0, seq_ = 0;
  std::vector<bool> masked_;                     // [batch * seq]
  std::vector<std::vector<int32_t>> sequences_;  // rows without masked tokens
};

absl::Status FeedWork::Read(const TensorFile& file) {
  for (const FileTensor& t : file.tensors()) {
    if (t.name != "input_ids" && t.name != "attention_mask") {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor \"", t.name,
                       "\" is no input of the plan's step program; "
                       "its inputs are input_ids and attention_mask"));
    }
  }
  const FileTensor* ids = file.Find("input_ids");
  if (ids == nullptr) {
    return absl::InvalidArgumentError("there is no tensor \"input_ids\"");
  }
  const std::vector<int64_t>& shape = ids->shape;
  if (shape.empty() || shape.size() > 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor \"input_ids\" has ", shape.size(),
                     " dims; [batch, seq] or [seq] is needed"));
  }
  batch_ = shape.size() == 2 ? shape[0] : 1;
  seq_ = shape.back();
  if (batch_ == 0 || seq_ == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor \"input_ids\" is ", batch_, " x ", seq_, ": it has no tokens"));
  }
  DS_ASSIGN_OR_RETURN(const std::vector<int32_t> values, ReadIntegers(*ids));
  masked_.assign(values.size(), false);
  if (const FileTensor* mask = file.Find("attention_mask")) {
    if (mask->shape != shape) {
      return absl::InvalidArgumentError(
          "tensor \"attention_mask\" has another shape than \"input_ids\"");
    }
    DS_ASSIGN_OR_RETURN(const std::vector<int32_t> bits, ReadIntegers(*mask));
    for (size_t i = 0; i < bits.size(); ++i) masked_[i] = bits[i] == 0;
  }
  for (int64_t b = 0; b < batch_; ++b) {
    std::vector<int32_t> sequence;
    for (int64_t i = b * seq_; i < (b + 1) * seq_; ++i) {
      if (!masked_[i]) sequence.push_back(values[i]);
    }
    if (sequence.empty()) continue;
    sequences_.push_back(std::move(sequence));
  }
  return absl::OkStatus();
}

absl::Status FeedWork::Run(Session& session) {
  for (const auto& s : sequences_) {
    const auto length = static_cast<int64_t>(s.size());
    if (length > session.max_seq_len()) {
      return absl::FailedPreconditionError(absl::StrCat(
          feed_, ": a row has ", length, " tokens; the sequence ceiling is ",
          session.max_seq_len()));
    }
  }
  const int64_t vocab = session.executor().vocab_size();
  DS_ASSIGN_OR_RETURN(
      const auto writer,
      TensorWriter::Create(fetch_, "logits", {batch_, seq_, vocab}));
  int64_t next = 0;  // element of input_ids whose logits come next
  absl::Status written;
  const auto skip_masked = [&](int64_t end) {
    while (written.ok() && next < end && masked_[next]) {
      written = writer->AppendZeros(vocab);
      ++next;
    }
  };
  DS_RETURN_IF_ERROR(session.engine().Score(
      sequences_, [&](int, int64_t, const float* logits) {
        skip_masked(batch_ * seq_);
        if (!written.ok()) return;
        written = writer->Append(logits, vocab);
        ++next;
      }));
  skip_masked(batch_ * seq_);
  DS_RETURN_IF_ERROR(written);
  return writer->Finish();
}

}  // namespace

std::unique_ptr<Work> NewFeedWork(const DsrunOptions& options) {
  return std::make_unique<FeedWork>(options);
}

}  // namespace deepslice
