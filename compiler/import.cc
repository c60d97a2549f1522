// The graph of a model: its inputs, its stack of layers, and the head on it.
#include "compiler/import.h"

#include "absl/strings/str_cat.h"
#include "compiler/stack_builder.h"
#include "ir/verifier.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

class Importer {
 public:
  explicit Importer(const ModelDescription& model)
      : m_(model), stack_(model, model.weights, "", &g_) {}

  absl::StatusOr<Graph> Run() {
    DS_RETURN_IF_ERROR(stack_.CheckComplete());
    for (const ModelDescription& tower : m_.towers) {
      DS_RETURN_IF_ERROR(StackBuilder(tower, m_.weights, tower.tower + ".", &g_)
                             .CheckComplete());
    }
    g_.name = m_.family;
    in_.ids = Param("ids", {"T"});
    in_.positions = Param("positions", {"T"});
    in_.slots = Param("slots", {"T"});
    if (m_.head == TaskHead::kCausalLm) {
      ImportDecoder();
    } else {
      DS_RETURN_IF_ERROR(ImportEncoder());
    }
    DS_RETURN_IF_ERROR(VerifyGraph(g_));
    return std::move(g_);
  }

 private:
  Value* Param(absl::string_view name, std::vector<Dim> dims) {
    return g_.AddParam(name, {DType::kI32, std::move(dims)});
  }
  Value* Rows(Value* x, Value* rows, const std::string& result) {
    return g_.AddNode(OpKind::kGatherRows, {x, rows}, {}, result)->result;
  }

  void ImportDecoder() {
    in_.blocks = Param("blocks", {"S", "B"});
    Value* rows = Param("rows", {"R"});
    if (!m_.rope.long_arguments.empty()) {
      in_.horizons = Param("horizons", {"S"});
    } else if (m_.rope.ntk_factor > 0) {
      in_.horizons = Param("prompts", {"S"});
    }
    if (!m_.towers.empty()) ImportSource();
    stack_.SetInputs(in_);
    Value* x = stack_.Layers(stack_.Embedding());
    x = stack_.FinalNorm(Rows(x, rows, "final_rows"), "final_normed");
    g_.returns().push_back(Head(x));
  }

  // The encoder beside the decoder, whose tokens E come in the same step.
  void ImportSource() {
    StackInputs in;
    in.ids = Param("source_ids", {"E"});
    in.positions = in_.source_positions = Param("source_positions", {"E"});
    in.slots = in_.source_slots = Param("source_slots", {"E"});
    in_.sources = Param("sources", {"S", Dim(2)});
    StackBuilder encoder(m_.towers[0], m_.weights, "encoder.", &g_);
    encoder.SetInputs(in);
    in_.source =
        encoder.FinalNorm(encoder.Layers(encoder.Embedding()), "final_normed");
  }

  Value* Head(Value* x) {
    if (m_.embed_dim != m_.hidden_size) {
      x = stack_.Product(x, "embed_out", "final_narrow");
    }
    x = stack_.Linear(x, "head", "logits");
    if (m_.logit_scale != 1) {
      x->name = "unscaled_logits";
      x = stack_.Scaled(x, m_.logit_scale, "logits");
    }
    if (m_.logit_softcap > 0) {
      x->name = "uncapped_logits";
      x = g_.AddNode(OpKind::kSoftcap, {x}, {Attr{.f = m_.logit_softcap}},
                     "logits")
              ->result;
    }
    return x;
  }

  // Returns outputs under their published names.
  absl::Status ImportEncoder() {
    if (m_.head == TaskHead::kFeatures) return ImportFeatures();
    if (m_.types > 0) in_.types = Param("types", {"T"});
    const bool pools = m_.head == TaskHead::kSequenceClasses ||
                       (m_.head == TaskHead::kNone && stack_.Has("pooler"));
    Value* rows = pools ? Param("rows", {"R"}) : nullptr;
    stack_.SetInputs(in_);
    Value* x = stack_.Layers(stack_.Embedding());
    x = stack_.FinalNorm(x, "final_normed");
    x->name = "last_hidden_state";
    g_.returns().push_back(x);
    Value* pooled = nullptr;
    if (pools) {
      pooled = Rows(x, rows, "first_rows");
      if (stack_.Has("pooler")) pooled = Pooled(pooled);
    }
    switch (m_.head) {
      case TaskHead::kNone:
        if (pooled != nullptr) g_.returns().push_back(pooled);
        return absl::OkStatus();
      case TaskHead::kMaskedLm:
        if (stack_.Has("mlm_dense")) {
          x = stack_.Linear(x, "mlm_dense", "mlm_dense");
          x = stack_.Activate(x, m_.mlm_activation, "mlm_act");
          x = stack_.Norm(x, "mlm_norm", "mlm_normed");
        }
        g_.returns().push_back(Head(x));
        return absl::OkStatus();
      case TaskHead::kSequenceClasses:
        return Returns(pooled, {{"classifier", "logits"}});
      case TaskHead::kTokenClasses:
        return Returns(x, {{"classifier", "logits"}});
      case TaskHead::kQuestionAnswering:
        return Returns(
            x, {{"qa_start", "start_logits"}, {"qa_end", "end_logits"}});
      case TaskHead::kCausalLm:
      case TaskHead::kFeatures:
        break;
    }
    return absl::InternalError(
        absl::StrCat("policies/", m_.family, ".json: a head of no encoder"));
  }

  // Both of CLIP's towers side by side: a step may hold texts, images or both.
  absl::Status ImportFeatures() {
    Value* rows = Param("rows", {"R"});
    stack_.SetInputs(in_);
    Value* text = stack_.Layers(stack_.Embedding());
    text = stack_.FinalNorm(Rows(text, rows, "text_rows"), "text_normed");
    text = stack_.Product(text, "projection", "text_features");
    g_.returns().push_back(
        stack_.UnitRows(text, m_.projection_size, "text_embeds"));

    const ModelDescription& tower = m_.towers[0];
    StackInputs in;
    Value* pixels = g_.AddParam(
        "pixels",
        {DType::kF32,
         {"P", tower.channels * tower.patch_size * tower.patch_size}});
    in.positions = Param("image_positions", {"P"});
    in.slots = Param("image_slots", {"P"});
    Value* image_rows = Param("image_rows", {"I"});
    StackBuilder vision(tower, m_.weights, "vision.", &g_);
    vision.SetInputs(in);
    Value* image = vision.Layers(vision.PatchEmbedding(pixels));
    image = Rows(image, image_rows, "image_first_rows");
    image = vision.FinalNorm(image, "image_normed");
    image = vision.Product(image, "projection", "image_features");
    image = vision.UnitRows(image, tower.projection_size, "image_embeds");
    image->name = "image_embeds";
    g_.returns().push_back(image);
    return absl::OkStatus();
  }

  Value* Pooled(Value* first) {
    first = stack_.Linear(first, "pooler", "pooler_dense");
    return stack_.Activate(first, m_.pooler_activation, "pooler_output");
  }

  // Linears on x: weight and output of each.
  absl::Status Returns(
      Value* x,
      const std::vector<std::pair<std::string, std::string>>& outputs) {
    for (const auto& [weight, output] : outputs) {
      if (!stack_.Has(weight)) {
        return absl::InternalError(
            absl::StrCat("policies/", m_.family, ".json: nothing makes @",
                         weight, ", which its head asks for"));
      }
      g_.returns().push_back(stack_.Linear(x, weight, output));
    }
    return absl::OkStatus();
  }

  const ModelDescription& m_;
  Graph g_;
  StackBuilder stack_;
  StackInputs in_;
};

}  // namespace

absl::StatusOr<Graph> ImportGraph(const ModelDescription& model) {
  return Importer(model).Run();
}

}  // namespace deepslice
