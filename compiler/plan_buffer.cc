#include "compiler/plan_buffer.h"

#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "compiler/emit_weight.h"
#include "compiler/gpu/gpu_buffer.h"
#include "compiler/weights_file.h"
#include "ir/printer.h"
#include "schema/base/checked_math.h"
#include "schema/plan_format.h"
#include "schema/plan_generated.h"

namespace deepslice {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
using flatbuffers::Vector;

fb::Extent ExtentOf(const Dim& d, const Schedule& schedule) {
  for (size_t i = 0; i < schedule.dims.size(); ++i) {
    if (d.is_symbol() && schedule.dims[i].name == d.symbol) {
      return fb::Extent(0, static_cast<int32_t>(i));
    }
  }
  return fb::Extent(d.size, -1);
}

Offset<fb::Step> BuildStep(FlatBufferBuilder& b, const ScheduledStep& step,
                           const Graph& graph) {
  const Node& n = *step.node;
  const auto name = b.CreateString(n.result->name);
  if (n.def().effect == Effect::kCollective) {
    const bool gather = n.op == OpKind::kAllGather;
    const TensorType& type = n.result->type;
    const auto collective = fb::CreateCollectiveStep(
        b, step.collective,
        gather ? fb::CollectiveKind::AllGather : fb::CollectiveKind::AllReduce,
        /*group=*/0, static_cast<uint8_t>(type.dtype), step.buffers[0],
        step.output, type.dims[1].size);
    return fb::CreateStep(b, fb::StepKind::Collective, 0, 0, name, step.layer,
                          0, collective);
  }
  std::vector<fb::OperandRef> operands;
  for (size_t i = 0; i < n.operands.size(); ++i) {
    if (step.buffers[i] >= 0) {
      operands.emplace_back(fb::OperandKind::Buffer, step.buffers[i]);
    } else if (step.weights[i] >= 0) {
      operands.emplace_back(fb::OperandKind::Weight, step.weights[i]);
    } else {
      operands.emplace_back(fb::OperandKind::None, -1);
    }
  }
  std::vector<fb::AttrValue> attrs;
  for (const Attr& a : n.attrs) attrs.emplace_back(a.i, a.f);
  int state = -1;
  for (size_t i = 0; i < graph.states().size(); ++i) {
    if (graph.states()[i].get() == n.state) state = static_cast<int>(i);
  }
  const auto operand_vector = b.CreateVectorOfStructs(operands);
  const auto attr_vector = b.CreateVectorOfStructs(attrs);
  const auto op =
      fb::CreateCpuOpStep(b, static_cast<uint16_t>(n.op), operand_vector,
                          attr_vector, step.output, state);
  return fb::CreateStep(b, fb::StepKind::CpuOp, 0, 0, name, step.layer, op);
}

Offset<fb::Program> BuildProgram(FlatBufferBuilder& b, const Schedule& s,
                                 const Graph& graph, bool encodes) {
  std::vector<Offset<fb::NamedDim>> dims;
  for (const ScheduledDim& d : s.dims) {
    dims.push_back(fb::CreateNamedDim(b, b.CreateString(d.name), d.maximum));
  }
  std::vector<Offset<fb::Slot>> slots;
  for (const ScheduledSlot& slot : s.slots) {
    slots.push_back(slot.dim < 0
                        ? fb::CreateSlot(b, slot.bytes_per_unit, -1, 0)
                        : fb::CreateSlot(b, 0, slot.dim, slot.bytes_per_unit));
  }
  std::vector<Offset<fb::Buffer>> buffers;
  for (const ScheduledBuffer& buffer : s.buffers) {
    std::vector<fb::Extent> extents;
    for (const Dim& d : buffer.value->type.dims) {
      extents.push_back(ExtentOf(d, s));
    }
    const auto name = b.CreateString(buffer.value->name);
    const auto extent_vector = b.CreateVectorOfStructs(extents);
    buffers.push_back(fb::CreateBuffer(
        b, name, static_cast<uint8_t>(buffer.value->type.dtype), extent_vector,
        buffer.slot));
  }
  std::vector<Offset<fb::Step>> steps;
  for (const ScheduledStep& step : s.steps) {
    steps.push_back(BuildStep(b, step, graph));
  }
  const auto name = b.CreateString(encodes ? "encode" : "step");
  const auto dim_vector = b.CreateVector(dims);
  const auto slot_vector = b.CreateVector(slots);
  const auto buffer_vector = b.CreateVector(buffers);
  const auto step_vector = b.CreateVector(steps);
  const auto inputs = b.CreateVector(s.inputs);
  const auto outputs = b.CreateVector(s.outputs);
  return fb::CreateProgram(
      b, name, encodes ? fb::ProgramKind::Encode : fb::ProgramKind::Step,
      dim_vector, slot_vector, buffer_vector, step_vector, inputs, outputs);
}

Offset<fb::Weight> BuildWeight(FlatBufferBuilder& b, const Weight& w,
                               const WeightPlace& place,
                               fb::Residency residency) {
  std::vector<int64_t> shape;
  for (const Dim& d : w.type.dims) shape.push_back(d.size);
  const auto name = b.CreateString(w.name);
  const auto shape_vector = b.CreateVector(shape);
  const auto source = b.CreateString(SourceText(w.source));
  std::vector<fb::SyntheticPiece> pieces;
  if (place.synthetic.has_value()) {
    for (const SyntheticRows& r : place.synthetic->pieces) {
      pieces.emplace_back(r.key, r.first_row, r.row_step, r.rows, r.rows_begin,
                          r.cols_begin);
    }
  }
  const auto piece_vector =
      pieces.empty() ? 0 : b.CreateVectorOfStructs(pieces);
  fb::WeightBuilder out(b);
  out.add_name(name);
  out.add_encoding(static_cast<uint8_t>(w.encoding));
  out.add_shape(shape_vector);
  out.add_offset(place.offset);
  out.add_bytes(place.bytes);
  out.add_scales_offset(place.scales_offset);
  out.add_scales_bytes(place.scales_bytes);
  out.add_residency(residency);
  out.add_role(static_cast<uint8_t>(w.role));
  out.add_source(source);
  if (place.synthetic.has_value()) {
    out.add_origin(fb::WeightOrigin::Synthetic);
    out.add_seed(place.synthetic->seed);
    out.add_pieces(piece_vector);
    out.add_synthetic_mean(place.synthetic->mean);
    out.add_synthetic_scale(place.synthetic->scale);
  }
  return out.Finish();
}

Offset<fb::State> BuildState(FlatBufferBuilder& b, const State& s,
                             const StepCeilings& ceilings) {
  const int64_t block_tokens = s.kind == StateKind::kCross
                                   ? ceilings.max_source_tokens
                                   : ceilings.kv_block;
  const int64_t bytes = RowsPerToken(s.kind) * s.kv_heads * s.head_dim *
                        block_tokens * EncodingBits(s.encoding) / 8;
  return fb::CreateState(b, b.CreateString(s.name),
                         static_cast<fb::StateKind>(s.kind),
                         static_cast<uint8_t>(s.encoding), s.kv_heads,
                         s.head_dim, block_tokens, bytes);
}

}  // namespace

RankLayout LayOutWeights(const Graph& graph, const WeightSupply& supply) {
  RankLayout layout;
  layout.places.resize(graph.weights().size());
  // Same recipe, encoding and shape: the same bytes.
  absl::flat_hash_map<std::string, int> seen;
  uint64_t end = 0;
  const auto place = [&](uint64_t bytes) {
    const uint64_t offset = RoundUp(end, kBlobAlignment);
    end = offset + bytes;
    return offset;
  };
  for (const bool made_up : {false, true}) {
    for (size_t i = 0; i < graph.weights().size(); ++i) {
      const Weight& w = *graph.weights()[i];
      auto recipe = supply.Synthetic(w);
      if (recipe.has_value() != made_up) continue;
      const std::string key =
          absl::StrCat(SourceText(w.source), " ", EncodingName(w.encoding),
                       TypeText(w.type));
      const auto [found, added] = seen.emplace(key, i);
      WeightPlace& at = layout.places[i];
      if (!added) {
        at = layout.places[found->second];
        at.same_as = found->second;
        continue;
      }
      at.synthetic = std::move(recipe);
      at.bytes = StoredBytes(w);
      at.offset = place(at.bytes);
      if (w.encoding != Encoding::kI8Row) continue;
      at.scales_bytes = w.type.dims[0].size * sizeof(float);
      at.scales_offset = place(at.scales_bytes);
    }
    end = RoundUp(end, kSegment);
    (made_up ? layout.memory_bytes : layout.bytes) = end;
  }
  return layout;
}

std::string BuildPlanBuffer(const RankPlan& rank,
                            const PlanContents& contents) {
  FlatBufferBuilder b(1 << 20);
  const int world = rank.world_size;
  std::vector<Offset<fb::Axis>> axes;
  for (const auto& [name, size, coordinate] :
       {std::make_tuple("pp", 1, 0), std::make_tuple("dp", 1, 0),
        std::make_tuple("tp", world, rank.rank), std::make_tuple("ep", 1, 0)}) {
    axes.push_back(fb::CreateAxis(b, b.CreateString(name), size, coordinate));
  }
  std::vector<uint32_t> tp_ranks;
  for (int r = 0; r < world; ++r) tp_ranks.push_back(r);
  const std::vector<Offset<fb::RankGroup>> groups = {fb::CreateRankGroup(
      b, static_cast<uint8_t>(Group::kTp), b.CreateVector(tp_ranks))};

  std::vector<Offset<fb::Weight>> weights;
  // Where the CPU computes, too, that is where the file is mapped.
  const fb::Residency residency =
      contents.cpu ? fb::Residency::Host : fb::Residency::Device;
  for (size_t i = 0; i < rank.graph->weights().size(); ++i) {
    weights.push_back(BuildWeight(b, *rank.graph->weights()[i],
                                  rank.layout->places[i], residency));
  }
  std::vector<Offset<fb::State>> states;
  for (const auto& s : rank.graph->states()) {
    states.push_back(BuildState(b, *s, contents.ceilings));
  }
  std::vector<Offset<fb::Target>> targets;
  const auto program =
      BuildProgram(b, *rank.schedule, *rank.graph, contents.encodes);
  if (contents.cpu) {
    const auto target_name = b.CreateString("cpu");
    const auto programs = b.CreateVector(&program, 1);
    targets.push_back(fb::CreateTarget(b, target_name, programs));
  }
  if (contents.gpu != nullptr) {
    for (const GpuTargetPlan& t : contents.gpu->targets) {
      targets.push_back(BuildGpuTarget(b, t, rank.rank));
    }
  }

  const GenerationSettings& g = contents.generation;
  const auto eos = b.CreateVector(g.eos_ids);
  const auto suppressed = b.CreateVector(g.suppress_tokens);
  const auto generation = fb::CreateGenerationDefaults(
      b, eos, g.bos_id, g.pad_id, g.do_sample, g.temperature, g.top_k, g.top_p,
      g.min_p, g.typical_p, g.repetition_penalty, g.max_new_tokens,
      g.min_new_tokens, g.num_beams, g.length_penalty, g.early_stopping,
      g.num_return_sequences, suppressed);
  std::vector<Offset<fb::PublishedName>> published;
  for (const auto& [name, buffer] : contents.published) {
    const auto from = b.CreateString(name);
    const auto to = b.CreateString(buffer);
    published.push_back(fb::CreatePublishedName(b, from, to));
  }

  std::vector<Offset<fb::SelfTest>> self_tests;
  for (const GoldenSequence& s : contents.golden) {
    const auto prompt = b.CreateVector(s.prompt);
    const auto continuation = b.CreateVector(s.continuation);
    self_tests.push_back(fb::CreateSelfTest(b, prompt, continuation));
  }
  const auto self_test_vector = b.CreateVector(self_tests);
  std::vector<Offset<fb::RenderTest>> render_tests;
  for (const RenderedConversation& r : contents.rendered) {
    const auto messages = b.CreateString(r.messages);
    const auto text = b.CreateString(r.text);
    const auto ids = r.ids.has_value() ? b.CreateVector(*r.ids) : 0;
    render_tests.push_back(fb::CreateRenderTest(b, messages, text, ids));
  }
  const auto render_test_vector = b.CreateVector(render_tests);
  Offset<fb::EncoderSettings> encoder;
  if (contents.encoder.has_value()) {
    encoder = fb::CreateEncoderSettings(b, &*contents.encoder);
  }

  const auto id = b.CreateString(rank.plan_set_id);
  const auto mesh = b.CreateVector(axes);
  const auto group_vector = b.CreateVector(groups);
  const auto family = b.CreateString(contents.family);
  const auto weight_vector = b.CreateVector(weights);
  const auto hash_vector = b.CreateVector(*rank.block_hashes);
  const auto state_vector = b.CreateVector(states);
  const auto target_vector = b.CreateVector(targets);
  const auto bytes_of = [&](const std::string& s) {
    return b.CreateVector(reinterpret_cast<const uint8_t*>(s.data()), s.size());
  };
  const auto tokenizer = bytes_of(contents.tokenizer);
  const auto chat_template = b.CreateString(contents.chat.templates.text);
  const auto named_texts = [&](const auto& list) {
    std::vector<Offset<fb::NamedText>> out;
    for (const auto& [name, text] : list) {
      const auto name_text = b.CreateString(name);
      out.push_back(fb::CreateNamedText(b, name_text, b.CreateString(text)));
    }
    return b.CreateVector(out);
  };
  const auto named_templates = named_texts(contents.chat.templates.named);
  const auto template_tokens = named_texts(contents.chat.tokens);
  const auto published_vector = b.CreateVector(published);
  const auto source = bytes_of(contents.source);

  fb::PlanBuilder plan(b);
  plan.add_format_version(kPlanFormatVersion);
  plan.add_plan_set_id(id);
  plan.add_rank(rank.rank);
  plan.add_world_size(world);
  plan.add_mesh(mesh);
  plan.add_groups(group_vector);
  plan.add_family(family);
  plan.add_vocab_size(contents.vocab_size);
  plan.add_max_positions(contents.max_positions);
  plan.add_weights(weight_vector);
  plan.add_weights_bytes(rank.layout->bytes);
  plan.add_weights_xxh3(hash_vector);
  plan.add_states(state_vector);
  plan.add_targets(target_vector);
  plan.add_tokenizer(tokenizer);
  plan.add_chat_template(chat_template);
  plan.add_generation(generation);
  plan.add_self_tests(self_test_vector);
  plan.add_render_tests(render_test_vector);
  if (!contents.cpu) plan.add_reference(program);
  plan.add_published(published_vector);
  plan.add_source(source);
  plan.add_named_templates(named_templates);
  plan.add_template_tokens(template_tokens);
  if (contents.encoder.has_value()) plan.add_encoder(encoder);
  fb::FinishPlanBuffer(b, plan.Finish());
  return std::string(reinterpret_cast<const char*>(b.GetBufferPointer()),
                     b.GetSize());
}

}  // namespace deepslice
