// --feed and --fetch: one forward pass over named tensors.
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/encode.h"
#include "schema/base/status_macros.h"
#include "tools/dsrun_work.h"
#include "tools/fed_batch.h"
#include "tools/tensor_file.h"

namespace deepslice {
namespace {

// What one kind of plan makes of the fed file.
class Feed {
 public:
  virtual ~Feed() = default;
  virtual absl::StatusOr<RunLimits> Read(const TensorFile& file) = 0;
  virtual absl::Status Run(Session& session) = 0;
};

// Tokens in, logits of all of them out; with an encoder beside the decoder, the
// tokens of both in.
class DecoderFeed final : public Feed {
 public:
  DecoderFeed(const Plan& plan, std::string feed, std::string fetch)
      : has_source_(plan.fb().encoder() != nullptr &&
                    plan.fb().encoder()->start_id() >= 0),
        feed_(std::move(feed)),
        fetch_(std::move(fetch)) {}

  absl::StatusOr<RunLimits> Read(const TensorFile& file) override {
    if (has_source_) {
      DS_RETURN_IF_ERROR(ReadBoth(file));
    } else {
      DS_RETURN_IF_ERROR(CheckFedNames(file, {"input_ids", "attention_mask"}));
      DS_ASSIGN_OR_RETURN(in_,
                          ReadFedBatch(file, "input_ids", "attention_mask"));
    }
    for (size_t r = 0; r < in_.rows.size(); ++r) {
      if (in_.rows[r].empty()) continue;
      sequences_.push_back(in_.rows[r]);
      if (has_source_) sources_.push_back(source_.rows[r]);
    }
    return RunLimits{.max_batch = static_cast<int64_t>(sequences_.size())};
  }
  absl::Status Run(Session& session) override;

 private:
  absl::Status ReadBoth(const TensorFile& file) {
    DS_RETURN_IF_ERROR(
        CheckFedNames(file, {"input_ids", "attention_mask", "decoder_input_ids",
                             "decoder_attention_mask"}));
    DS_ASSIGN_OR_RETURN(source_,
                        ReadFedBatch(file, "input_ids", "attention_mask"));
    DS_ASSIGN_OR_RETURN(
        in_, ReadFedBatch(file, "decoder_input_ids", "decoder_attention_mask"));
    if (in_.batch == source_.batch) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("tensor \"decoder_input_ids\" has ", in_.batch,
                     " rows, \"input_ids\" has ", source_.batch));
  }

  const bool has_source_;
  const std::string feed_, fetch_;
  FedBatch in_, source_;
  std::vector<std::vector<int32_t>> sequences_;  // rows that have tokens
  std::vector<std::vector<int32_t>> sources_;    // what the encoder reads
};

absl::Status DecoderFeed::Run(Session& session) {
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
      TensorWriter::Create(fetch_, {{"logits", {in_.batch, in_.seq, vocab}}}));
  int64_t next = 0;  // element of input_ids whose logits come next
  absl::Status written;
  const auto skip_masked = [&](int64_t end) {
    while (written.ok() && next < end && in_.masked[next]) {
      written = writer->AppendZeros(vocab);
      ++next;
    }
  };
  DS_RETURN_IF_ERROR(session.engine().Score(
      sequences_,
      [&](int, int64_t, const float* logits) {
        skip_masked(in_.batch * in_.seq);
        if (!written.ok()) return;
        written = writer->Append(logits, vocab);
        ++next;
      },
      sources_));
  skip_masked(in_.batch * in_.seq);
  DS_RETURN_IF_ERROR(written);
  return writer->Finish();
}

// Texts in, every output of the program out.
class EncoderFeed final : public Feed {
 public:
  EncoderFeed(const Plan& plan, std::string feed, std::string fetch)
      : has_types_(plan.fb().encoder() != nullptr &&
                   plan.fb().encoder()->types() > 0),
        image_(plan.fb().encoder() == nullptr ? nullptr
                                              : plan.fb().encoder()->image()),
        feed_(std::move(feed)),
        fetch_(std::move(fetch)) {}

  absl::StatusOr<RunLimits> Read(const TensorFile& file) override {
    std::vector<absl::string_view> names = {"input_ids", "attention_mask"};
    if (has_types_) names.push_back("token_type_ids");
    if (image_ != nullptr) names.push_back("pixel_values");
    DS_RETURN_IF_ERROR(CheckFedNames(file, names));
    DS_RETURN_IF_ERROR(ReadImages(file));
    if (images_.empty() || file.Find("input_ids") != nullptr) {
      DS_ASSIGN_OR_RETURN(in_, ReadFedBatch(file, "input_ids", "attention_mask",
                                            "token_type_ids"));
    }
    for (int64_t b = 0; b < in_.batch; ++b) {
      if (in_.rows[b].empty()) continue;
      inputs_.push_back({in_.rows[b], in_.types[b]});
      row_of_.push_back(b);
    }
    return RunLimits{.max_batch = static_cast<int64_t>(inputs_.size())};
  }
  absl::Status Run(Session& session) override;

 private:
  absl::Status ReadImages(const TensorFile& file);
  absl::Status RunImages(Session& session);
  // The products of all images and texts, as they are published.
  void AddProducts(float scale);

  // An output over the whole batch, zeros where nothing was fed.
  struct Whole {
    NamedShape shape;
    std::vector<float> data;
  };
  Whole NewWhole(const NamedOutput& o) const;
  void Place(int64_t row, const NamedOutput& from, Whole* to) const;

  const bool has_types_;
  const fb::ImageInput* const image_;  // nullptr: the plan takes none
  const std::string feed_, fetch_;
  FedBatch in_;
  std::vector<EncodeInput> inputs_;  // rows that have tokens
  std::vector<int64_t> row_of_;      // in the batch
  std::vector<std::vector<float>> images_;
  std::vector<Whole> outputs_;
};

absl::Status EncoderFeed::ReadImages(const TensorFile& file) {
  const FileTensor* t = file.Find("pixel_values");
  if (t == nullptr) return absl::OkStatus();
  const int64_t size = image_->size();
  if (t->shape.size() != 4 || t->shape[0] < 1 || t->shape[1] != 3 ||
      t->shape[2] != size || t->shape[3] != size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor \"pixel_values\" is [", absl::StrJoin(t->shape, ", "),
        "]; [images, 3, ", size, ", ", size, "] is needed"));
  }
  DS_ASSIGN_OR_RETURN(const std::vector<float> all, ReadFloats(*t));
  const int64_t elements = 3 * size * size;
  for (int64_t i = 0; i < t->shape[0]; ++i) {
    images_.emplace_back(all.begin() + i * elements,
                         all.begin() + (i + 1) * elements);
  }
  return absl::OkStatus();
}

absl::Status EncoderFeed::RunImages(Session& session) {
  const size_t first = outputs_.size();
  return EncodeImages(
      images_, session.plan().fb(), session.executor(), &session.engine(),
      [&](int, const std::vector<NamedOutput>& mine) {
        for (size_t o = 0; o < mine.size(); ++o) {
          if (first + o == outputs_.size()) {
            Whole& w = outputs_.emplace_back();
            w.shape = {mine[o].name,
                       {static_cast<int64_t>(images_.size()), mine[o].cols}};
          }
          std::vector<float>& data = outputs_[first + o].data;
          data.insert(data.end(), mine[o].data, mine[o].data + mine[o].cols);
        }
        return absl::OkStatus();
      });
}

void EncoderFeed::AddProducts(float scale) {
  const Whole *texts = nullptr, *images = nullptr;
  for (const Whole& w : outputs_) {
    if (w.shape.name == "text_embeds") texts = &w;
    if (w.shape.name == "image_embeds") images = &w;
  }
  if (texts == nullptr || images == nullptr) return;
  const int64_t cols = texts->shape.shape[1];
  const int64_t t = texts->shape.shape[0], n = images->shape.shape[0];
  Whole by_image{{"logits_per_image", {n, t}}, std::vector<float>(n * t)};
  Whole by_text{{"logits_per_text", {t, n}}, std::vector<float>(n * t)};
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < t; ++j) {
      double sum = 0;
      for (int64_t c = 0; c < cols; ++c) {
        sum += static_cast<double>(images->data[i * cols + c]) *
               texts->data[j * cols + c];
      }
      by_image.data[i * t + j] = by_text.data[j * n + i] =
          static_cast<float>(scale * sum);
    }
  }
  outputs_.push_back(std::move(by_image));
  outputs_.push_back(std::move(by_text));
}

EncoderFeed::Whole EncoderFeed::NewWhole(const NamedOutput& o) const {
  Whole out;
  out.shape.name = o.name;
  out.shape.shape = {in_.batch};
  int64_t count = in_.batch * o.cols;
  if (o.of == NamedOutput::Of::kToken) {
    out.shape.shape.push_back(in_.seq);
    count *= in_.seq;
  }
  // One number a token, as it is published.
  if (o.name != "start_logits" && o.name != "end_logits") {
    out.shape.shape.push_back(o.cols);
  }
  out.data.assign(count, 0);
  return out;
}

void EncoderFeed::Place(int64_t row, const NamedOutput& from, Whole* to) const {
  if (from.of != NamedOutput::Of::kToken) {
    std::copy_n(from.data, from.cols, to->data.begin() + row * from.cols);
    return;
  }
  const float* next = from.data;
  for (int64_t i = row * in_.seq; i < (row + 1) * in_.seq; ++i) {
    if (in_.masked[i]) continue;
    std::copy_n(next, from.cols, to->data.begin() + i * from.cols);
    next += from.cols;
  }
}

absl::Status EncoderFeed::Run(Session& session) {
  DS_RETURN_IF_ERROR(Annotate(
      EncodeSequences(inputs_, session.plan().fb(), session.executor(),
                      &session.engine(),
                      [&](int i, const std::vector<NamedOutput>& mine) {
                        for (size_t o = 0; o < mine.size(); ++o) {
                          if (o == outputs_.size()) {
                            outputs_.push_back(NewWhole(mine[o]));
                          }
                          Place(row_of_[i], mine[o], &outputs_[o]);
                        }
                        return absl::OkStatus();
                      }),
      feed_));
  if (!images_.empty()) {
    DS_RETURN_IF_ERROR(Annotate(RunImages(session), feed_));
    AddProducts(session.plan().fb().encoder()->logit_scale());
  }
  if (outputs_.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(feed_, ": attention_mask leaves no token"));
  }
  std::vector<NamedShape> shapes;
  for (const Whole& o : outputs_) shapes.push_back(o.shape);
  DS_ASSIGN_OR_RETURN(const auto writer, TensorWriter::Create(fetch_, shapes));
  for (const Whole& o : outputs_) {
    DS_RETURN_IF_ERROR(
        writer->Append(o.data.data(), static_cast<int64_t>(o.data.size())));
  }
  return writer->Finish();
}

class FeedWork final : public Work {
 public:
  explicit FeedWork(const DsrunOptions& o) : path_(*o.feed), fetch_(*o.fetch) {}

  absl::StatusOr<RunLimits> Limits(const Plan& plan) override {
    DS_ASSIGN_OR_RETURN(const TensorFile file, TensorFile::Open(path_));
    if (EncodeProgram(plan) != nullptr) {
      feed_ = std::make_unique<EncoderFeed>(plan, path_, fetch_);
    } else {
      feed_ = std::make_unique<DecoderFeed>(plan, path_, fetch_);
    }
    absl::StatusOr<RunLimits> limits = feed_->Read(file);
    if (!limits.ok()) return Annotate(limits.status(), path_);
    return limits;
  }
  absl::Status Run(Session& session) override { return feed_->Run(session); }
  bool takes_encoders() const override { return true; }

 private:
  const std::string path_, fetch_;
  std::unique_ptr<Feed> feed_;
};

}  // namespace

std::unique_ptr<Work> NewFeedWork(const DsrunOptions& options) {
  return std::make_unique<FeedWork>(options);
}

}  // namespace deepslice
