#include <cmath>

#include "tests/fuzz/plan_seeds.h"
#include "tests/support/plan_builder.h"

namespace deepslice {
namespace {

constexpr int64_t kVocab = 13, kHidden = 6, kHeads = 3, kKvHeads = 1,
                  kHeadDim = 2, kBuckets = 4, kDistance = 8, kPatch = 5;

// Small and nowhere the same: what they are does not matter here.
std::vector<float> Values(int64_t count) {
  std::vector<float> out(count);
  for (int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>((i * 7 + count) % 11) / 8 - 0.5f;
  }
  return out;
}

// Adds what its steps share: weights, q, k and v of a stack's tokens.
class EncoderBuilder : public PlanBuilder {
 public:
  void AddMatrix(const std::string& name, int64_t rows, int64_t cols) {
    AddWeight(name, {rows, cols}, Values(rows * cols));
  }
  // `x`'s query, key and value, named `x`_q and so on.
  void AddProjections(const std::string& x, const std::string& rows_dim) {
    const std::pair<const char*, int64_t> kinds[] = {
        {"_q", kHeads}, {"_k", kKvHeads}, {"_v", kKvHeads}};
    for (const auto& [kind, heads] : kinds) {
      const std::string weight = x + kind + "_proj";
      AddMatrix(weight, heads * kHeadDim, kHidden);
      AddOp(OpKind::kLinear, x + kind, {x, weight, "", ""}, {}, rows_dim,
            heads * kHeadDim);
    }
  }
  // All of a sequence see each other.
  void AddFullAttention(const std::string& x, const std::string& slots,
                        const std::string& bias, const std::string& rows_dim) {
    AddProjections(x, rows_dim);
    std::vector<Attr> attrs = Heads();
    attrs.push_back({static_cast<int64_t>(Mask::kFull)});
    attrs.push_back({bias.empty() ? 0 : kDistance});
    AddOp(OpKind::kEncoderAttention, x + "_attended",
          {x + "_q", x + "_k", x + "_v", slots, bias}, attrs, rows_dim,
          kHeads * kHeadDim);
  }
  static std::vector<Attr> Heads() {
    return {{kHeads}, {kKvHeads}, {kHeads / kKvHeads},
            {0},      {kHeadDim}, {0, 1 / std::sqrt(2.0)}};
  }
};

int32_t Find(const fb::ProgramT& program, const std::string& name) {
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    if (program.buffers[i]->name == name) return static_cast<int32_t>(i);
  }
  return -1;
}

TestPlan AsEncoder(EncoderBuilder* builder,
                   const std::vector<std::string>& outputs) {
  TestPlan out = builder->Build(outputs[0], kVocab);
  out.program().kind = fb::ProgramKind::Encode;
  out.program().name = "encode";
  out.program().outputs.clear();
  for (const std::string& name : outputs) {
    out.program().outputs.push_back(Find(out.program(), name));
  }
  return out;
}

}  // namespace

TestPlan TinyTextEncoder() {
  EncoderBuilder b;
  b.AddInput("types", DType::kI32, "T");
  b.AddMatrix("words", kVocab, kHidden);
  b.AddMatrix("kinds", 2, kHidden);
  b.AddMatrix("bias", kHeads, kBuckets);
  b.AddOp(OpKind::kEmbed, "word", {"ids", "words"}, {{0}}, "T", kHidden);
  b.AddOp(OpKind::kEmbed, "kind", {"types", "kinds"}, {{0}}, "T", kHidden);
  b.AddOp(OpKind::kAdd, "x", {"word", "kind", ""}, {}, "T", kHidden);
  b.AddFullAttention("x", "slots", "bias", "T");
  b.AddOp(OpKind::kGatherRows, "pooled", {"x_attended", "rows"}, {}, "R",
          kHidden);
  TestPlan out = AsEncoder(&b, {"x_attended", "pooled"});
  out.plan.encoder = std::make_unique<fb::EncoderSettingsT>();
  out.plan.encoder->types = 2;
  out.plan.encoder->labels = {"no", "yes"};
  out.plan.encoder->max_tokens = 8;
  return out;
}

TestPlan TinyImageEncoder() {
  EncoderBuilder b;
  b.AddDim("P", 8);
  b.AddDim("I", 2);
  b.AddInput("image_positions", DType::kI32, "P");
  b.AddInput("image_slots", DType::kI32, "P");
  b.AddInput("image_rows", DType::kI32, "I");
  b.AddInput("pixels", DType::kF32, "P", kPatch);
  b.AddMatrix("places", 4, kHidden);
  b.AddMatrix("patches", kHidden, kPatch);
  b.AddOp(OpKind::kLinear, "seen", {"pixels", "patches", "", ""}, {}, "P",
          kHidden);
  b.AddOp(OpKind::kEmbed, "place", {"image_positions", "places"}, {{0}}, "P",
          kHidden);
  b.AddOp(OpKind::kAdd, "x", {"seen", "place", ""}, {}, "P", kHidden);
  b.AddFullAttention("x", "image_slots", "", "P");
  b.AddOp(OpKind::kGatherRows, "image", {"x_attended", "image_rows"}, {}, "I",
          kHidden);
  TestPlan out = AsEncoder(&b, {"image"});
  out.plan.encoder = std::make_unique<fb::EncoderSettingsT>();
  out.plan.encoder->pooling = fb::Pooling::Output;
  auto image = std::make_unique<fb::ImageInputT>();
  image->size = 4;
  image->patch = 2;
  image->resize_shortest = image->crop_width = image->crop_height = 4;
  image->mean = {0.5f, 0.5f, 0.5f};
  image->deviation = {1, 1, 1};
  out.plan.encoder->image = std::move(image);
  return out;
}

TestPlan TinyEncoderDecoder() {
  EncoderBuilder b;
  b.AddDim("E", 8);
  b.AddInput("source_ids", DType::kI32, "E");
  b.AddInput("source_positions", DType::kI32, "E");
  b.AddInput("source_slots", DType::kI32, "E");
  b.AddInput("sources", DType::kI32, "S", 2);
  b.AddState("own", kKvHeads, kHeadDim, 4);
  b.AddState("theirs", kKvHeads, kHeadDim, 8);
  b.plan().states.back()->kind = fb::StateKind::Cross;
  b.AddMatrix("words", kVocab, kHidden);
  b.AddMatrix("bias", kHeads, kBuckets);
  b.AddOp(OpKind::kEmbed, "source", {"source_ids", "words"}, {{0}}, "E",
          kHidden);
  b.AddFullAttention("source", "source_slots", "bias", "E");
  b.AddOp(OpKind::kEmbed, "x", {"ids", "words"}, {{0}}, "T", kHidden);
  b.AddProjections("x", "T");
  std::vector<Attr> causal = EncoderBuilder::Heads();
  for (const Attr& a : std::vector<Attr>{{0}, {0, 0.0}, {0}, {kDistance}}) {
    causal.push_back(a);
  }
  b.AddOp(OpKind::kAttention, "y",
          {"x_q", "x_k", "x_v", "positions", "slots", "blocks", "", "bias"},
          causal, "T", kHeads * kHeadDim, "own");
  b.AddProjections("source_attended", "E");
  b.AddOp(OpKind::kCrossAttention, "z",
          {"y", "source_attended_k", "source_attended_v", "slots",
           "source_positions", "source_slots", "sources"},
          EncoderBuilder::Heads(), "T", kHeads * kHeadDim, "theirs");
  b.AddOp(OpKind::kGatherRows, "wanted", {"z", "rows"}, {}, "R", kHidden);
  b.AddOp(OpKind::kLinear, "logits", {"wanted", "words", "", ""}, {}, "R",
          kVocab);
  TestPlan out = b.Build("logits", kVocab);
  out.plan.encoder = std::make_unique<fb::EncoderSettingsT>();
  out.plan.encoder->start_id = 1;
  return out;
}

}  // namespace deepslice
