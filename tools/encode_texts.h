// Texts through an encoder plan, for the verbs that print what it makes of
// them: reading, tokenizing and cutting them, and running them together.
#ifndef DEEPSLICE_TOOLS_ENCODE_TEXTS_H_
#define DEEPSLICE_TOOLS_ENCODE_TEXTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/encode.h"
#include "schema/base/json.h"
#include "tools/dsrun_options.h"
#include "tools/dsrun_work.h"

namespace deepslice {

// A piece of work that prints one JSON document: {"schema_version",
// "plan_set_id", "model", ..., "data": [{"index", "tokens", ...}]}.
class EncodeWork : public Work {
 public:
  explicit EncodeWork(const DsrunOptions& options) : options_(options) {}
  // Refuses a plan that is no encoder, in one line that says what to use.
  absl::StatusOr<RunLimits> Limits(const Plan& plan) override;
  absl::Status Run(Session& session) override;
  bool takes_encoders() const override { return true; }

 protected:
  // Whether the plan has what the verb needs, by its settings and the names of
  // its outputs.
  virtual absl::Status Check(const Session& session,
                             const std::vector<std::string>& outputs) = 0;
  // What stands before "data".
  virtual void Head(json::Value* document) const {}
  // Fields of the text's entry.
  virtual absl::Status Add(const EncodeInput& input,
                           const std::vector<NamedOutput>& outputs,
                           json::Value* entry) = 0;

  const DsrunOptions& options() const { return options_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  absl::StatusOr<EncodeInput> Encode(const std::string& text, size_t index,
                                     int64_t most, bool cut) const;

  const DsrunOptions options_;
  std::vector<std::string> texts_;
  const Tokenizer* tokenizer_ = nullptr;
};

// "schema_version", "plan_set_id" and "model".
json::Value EncodeDocument(const Plan& plan);

// Sets "embedding", at length 1 where `normalize`; Internal when that can't be.
absl::Status AddEmbedding(std::vector<float> embedding, bool normalize,
                          json::Value* entry);

// InvalidArgument for --no-normalize: of a projection the plan makes rows of
// length 1, as they are published.
absl::Status CheckUnitRows(const DsrunOptions& options);

// dsrun embed --image.
std::unique_ptr<Work> NewEmbedImagesWork(const DsrunOptions& options);

// The output of that name, or nullptr.
const NamedOutput* FindOutput(const std::vector<NamedOutput>& outputs,
                              absl::string_view name);

// A float as a number of at most 9 digits, which give it back exactly.
json::Value ShortNumber(float x);

// In place: e^x over their sum, or 1 / (1 + e^-x) each.
void Softmax(std::vector<float>* scores);
void Sigmoid(std::vector<float>* scores);

// The indices of the largest, largest first, ties by index.
std::vector<int64_t> Largest(const std::vector<float>& scores, int64_t count);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_ENCODE_TEXTS_H_
