// dsrun embed --image: what a model makes of pictures, as JSON.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/encode.h"
#include "schema/base/status_macros.h"
#include "tools/command_line.h"
#include "tools/encode_texts.h"
#include "tools/image_file.h"
#include "tools/image_input.h"

namespace deepslice {
namespace {

constexpr char kOutput[] = "image_embeds";

class EmbedImagesWork final : public Work {
 public:
  explicit EmbedImagesWork(const DsrunOptions& options) : options_(options) {}

  bool takes_encoders() const override { return true; }

  absl::StatusOr<RunLimits> Limits(const Plan& plan) override {
    const fb::EncoderSettings* settings = plan.fb().encoder();
    if (EncodeProgram(plan) == nullptr || settings->image() == nullptr) {
      return absl::FailedPreconditionError(
          absl::StrCat(options_.plan,
                       ": takes no images; compile a checkpoint that does, "
                       "such as CLIPModel"));
    }
    DS_RETURN_IF_ERROR(CheckUnitRows(options_));
    for (const std::string& path : options_.images) {
      DS_ASSIGN_OR_RETURN(const Picture picture, ReadPicture(path));
      auto pixels = PixelsOf(picture, *settings->image());
      if (!pixels.ok()) return Annotate(pixels.status(), path);
      images_.push_back(*std::move(pixels));
    }
    return RunLimits{.max_batch = static_cast<int64_t>(images_.size())};
  }

  absl::Status Run(Session& session) override {
    json::Value document = EncodeDocument(session.plan());
    document.Set("pooling", "projection");
    document.Set("normalized", options_.normalize);
    json::Value data = json::Value::Array();
    DS_RETURN_IF_ERROR(EncodeImages(
        images_, session.plan().fb(), session.executor(), &session.engine(),
        [&](int i, const std::vector<NamedOutput>& mine) {
          json::Value& entry = data.Add(json::Value::Object());
          entry.Set("index", int64_t{i});
          entry.Set("image", options_.images[i]);
          const NamedOutput* o = FindOutput(mine, kOutput);
          if (o == nullptr) {
            return absl::FailedPreconditionError(absl::StrCat(
                options_.plan, ": the plan has no output ", kOutput));
          }
          return AddEmbedding({o->data, o->data + o->cols}, options_.normalize,
                              &entry);
        }));
    document.Set("data", std::move(data));
    return Print(absl::StrCat(json::Write(document, 1), "\n"));
  }

 private:
  const DsrunOptions options_;
  std::vector<std::vector<float>> images_;
};

}  // namespace

std::unique_ptr<Work> NewEmbedImagesWork(const DsrunOptions& options) {
  return std::make_unique<EmbedImagesWork>(options);
}

}  // namespace deepslice
