// dsrun embed, classify and fill-mask: what an encoder makes of texts, as JSON.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "schema/base/status_macros.h"
#include "tools/dsrun_work.h"
#include "tools/encode_texts.h"

namespace deepslice {
namespace {

// {"embedding": [...]} of each text.
class EmbedWork final : public EncodeWork {
 public:
  using EncodeWork::EncodeWork;

 protected:
  absl::Status Check(const Session& session,
                     const std::vector<std::string>& outputs) override {
    pooling_ = options().pooling;
    const fb::EncoderSettings* settings = session.plan().fb().encoder();
    if (pooling_ == "auto") {
      const fb::Pooling own =
          settings == nullptr ? fb::Pooling::Mean : settings->pooling();
      pooling_ = own == fb::Pooling::First    ? "cls"
                 : own == fb::Pooling::Output ? "projection"
                                              : "mean";
    }
    output_ = pooling_ == "pooler"       ? "pooler_output"
              : pooling_ == "projection" ? "text_embeds"
                                         : "last_hidden_state";
    if (pooling_ == "projection") {
      DS_RETURN_IF_ERROR(CheckUnitRows(options()));
    }
    if (absl::c_linear_search(outputs, output_)) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        "--pooling ", pooling_, ": the plan has no output ", output_,
        "; use another pooling, or compile a checkpoint that has it"));
  }
  void Head(json::Value* document) const override {
    document->Set("pooling", pooling_);
    document->Set("normalized", options().normalize);
  }
  absl::Status Add(const EncodeInput& input,
                   const std::vector<NamedOutput>& outputs,
                   json::Value* entry) override {
    return AddEmbedding(Pool(outputs), options().normalize, entry);
  }

 private:
  std::vector<float> Pool(const std::vector<NamedOutput>& outputs) const {
    const NamedOutput& o = *FindOutput(outputs, output_);
    if (pooling_ != "mean") return {o.data, o.data + o.cols};
    std::vector<double> sums(o.cols, 0);
    for (int64_t r = 0; r < o.rows; ++r) {
      for (int64_t c = 0; c < o.cols; ++c) sums[c] += o.data[r * o.cols + c];
    }
    std::vector<float> mean(o.cols);
    for (int64_t c = 0; c < o.cols; ++c) {
      mean[c] = static_cast<float>(sums[c] / static_cast<double>(o.rows));
    }
    return mean;
  }

  std::string pooling_, output_;
};

// The scores of classes: {"label", "score", "scores": [...]} of each text, or
// of each of its tokens.
class ClassifyWork final : public EncodeWork {
 public:
  using EncodeWork::EncodeWork;

 protected:
  absl::Status Check(const Session& session,
                     const std::vector<std::string>& outputs) override {
    const fb::EncoderSettings* settings = session.plan().fb().encoder();
    if (settings == nullptr || settings->labels() == nullptr ||
        settings->labels()->size() == 0 ||
        !absl::c_linear_search(outputs, "logits")) {
      return absl::FailedPreconditionError(
          "the plan has no classes; compile a checkpoint for sequence or token "
          "classification, or use dsrun embed or fill-mask");
    }
    for (const flatbuffers::String* label : *settings->labels()) {
      labels_.push_back(label->str());
    }
    scores_ = settings->scores();
    return absl::OkStatus();
  }
  absl::Status Add(const EncodeInput& input,
                   const std::vector<NamedOutput>& outputs,
                   json::Value* entry) override {
    const NamedOutput& o = *FindOutput(outputs, "logits");
    if (o.cols != static_cast<int64_t>(labels_.size())) {
      return absl::DataLossError(absl::StrCat("the plan names ", labels_.size(),
                                              " classes, its "
                                              "program makes ",
                                              o.cols, "; rebuild it"));
    }
    if (o.of != NamedOutput::Of::kToken) {
      AddScores(o.data, entry);
      return absl::OkStatus();
    }
    json::Value& list = entry->Set("labels", json::Value::Array());
    for (int64_t t = 0; t < o.rows; ++t) {
      const int32_t id = input.ids[t];
      // What stands around the text has no class; unknown words have one.
      if (tokenizer().IsSpecial(id) && id != tokenizer().unk_id()) continue;
      json::Value& token = list.Add(json::Value::Object());
      token.Set("position", t);
      token.Set("id", int64_t{id});
      token.Set("token", tokenizer().IdToToken(id));
      AddScores(o.data + t * o.cols, &token);
    }
    return absl::OkStatus();
  }

 private:
  void AddScores(const float* logits, json::Value* entry) const {
    std::vector<float> scores(logits, logits + labels_.size());
    if (scores_ == fb::Scores::Softmax) Softmax(&scores);
    if (scores_ == fb::Scores::Sigmoid) Sigmoid(&scores);
    const std::vector<int64_t> order = Largest(
        scores, options().top > 0 ? options().top
                                  : static_cast<int64_t>(scores.size()));
    entry->Set("label", labels_[order[0]]);
    entry->Set("score", ShortNumber(scores[order[0]]));
    json::Value& list = entry->Set("scores", json::Value::Array());
    for (const int64_t i : order) {
      json::Value& row = list.Add(json::Value::Object());
      row.Set("label", labels_[i]);
      row.Set("score", ShortNumber(scores[i]));
    }
  }

  std::vector<std::string> labels_;
  fb::Scores scores_ = fb::Scores::Softmax;
};

// The likeliest tokens in place of each mask.
class FillMaskWork final : public EncodeWork {
 public:
  using EncodeWork::EncodeWork;

 protected:
  absl::Status Check(const Session& session,
                     const std::vector<std::string>& outputs) override {
    const fb::EncoderSettings* settings = session.plan().fb().encoder();
    const bool classes = settings != nullptr && settings->labels() != nullptr &&
                         settings->labels()->size() > 0;
    if (classes || !absl::c_linear_search(outputs, "logits")) {
      return absl::FailedPreconditionError(
          "the plan has no masked-LM head; compile a checkpoint such as "
          "BertForMaskedLM, or use dsrun embed or classify");
    }
    if (session.plan().fb().template_tokens() == nullptr) {
      return absl::OkStatus();
    }
    for (const fb::NamedText* t : *session.plan().fb().template_tokens()) {
      if (t->name()->string_view() == "mask_token") mask_ = t->text()->str();
    }
    return absl::OkStatus();
  }
  absl::Status Add(const EncodeInput& input,
                   const std::vector<NamedOutput>& outputs,
                   json::Value* entry) override {
    DS_ASSIGN_OR_RETURN(const int32_t mask, MaskId());
    const NamedOutput& o = *FindOutput(outputs, "logits");
    // Where other masks stay, a sequence shows them, and so all that is
    // special.
    const bool only_one = absl::c_count(input.ids, mask) == 1;
    json::Value& list = entry->Set("masks", json::Value::Array());
    for (int64_t t = 0; t < o.rows; ++t) {
      if (input.ids[t] != mask) continue;
      json::Value& place = list.Add(json::Value::Object());
      place.Set("position", t);
      std::vector<float> scores(o.data + t * o.cols, o.data + (t + 1) * o.cols);
      Softmax(&scores);
      json::Value& tokens = place.Set("tokens", json::Value::Array());
      for (const int64_t id :
           Largest(scores, options().top > 0 ? options().top : kTop)) {
        json::Value& row = tokens.Add(json::Value::Object());
        row.Set("id", id);
        if (id < tokenizer().vocab_size()) {
          row.Set("token", tokenizer().IdToToken(static_cast<int32_t>(id)));
          std::vector<int32_t> filled = input.ids;
          filled[t] = static_cast<int32_t>(id);
          DS_ASSIGN_OR_RETURN(const std::string text,
                              tokenizer().Decode(filled, only_one));
          row.Set("sequence", text);
        }
        row.Set("score", ShortNumber(scores[id]));
      }
    }
    if (!list.items().empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "text ", entry->Find("index")->as_int(), " holds no ",
        tokenizer().IdToToken(mask), "; write it where a token is wanted"));
  }

 private:
  static constexpr int64_t kTop = 5;

  absl::StatusOr<int32_t> MaskId() const {
    for (const std::string& name :
         {mask_, std::string("[MASK]"), std::string("<mask>")}) {
      const int32_t id = name.empty() ? -1 : tokenizer().TokenToId(name);
      if (id >= 0) return id;
    }
    return absl::FailedPreconditionError(
        "the plan's tokenizer has no mask token");
  }

  std::string mask_;
};

}  // namespace

std::unique_ptr<Work> NewEmbedWork(const DsrunOptions& options) {
  if (!options.images.empty()) return NewEmbedImagesWork(options);
  return std::make_unique<EmbedWork>(options);
}
std::unique_ptr<Work> NewClassifyWork(const DsrunOptions& options) {
  return std::make_unique<ClassifyWork>(options);
}
std::unique_ptr<Work> NewFillMaskWork(const DsrunOptions& options) {
  return std::make_unique<FillMaskWork>(options);
}

}  // namespace deepslice
