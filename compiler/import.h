// A model description to the graph that computes it.
#ifndef DEEPSLICE_COMPILER_IMPORT_H_
#define DEEPSLICE_COMPILER_IMPORT_H_

#include "absl/status/statusor.h"
#include "compiler/model.h"
#include "ir/graph.h"

namespace deepslice {

// Builds the whole, unsharded and unfused program of a model, the one that
// `dsplan verify` interprets. Of a decoder:
//
//   param %ids, %positions, %slots : i32[T], %blocks : i32[S, B],
//         %rows : i32[R], and with two rotary tables %horizons : i32[S]
//         (with dynamic NTK %prompts : i32[S])
//   %embed      rows of @embed, scaled, projected, with positions, normed, as
//               the family does
//   %layers.N.attn_normed, .q, .k, .v, .q_normed, .k_normed, .q_rot, .k_rot,
//     .attn, .attn_out, .attn_residual, .mlp_normed, .gate, .up, .gate_act,
//     .act, .mlp_out, .out
//   %final_rows, %final_normed, %logits : f32[R, V]      returned
//
// A decoder beside an encoder has .cross_q, .cross_k, .cross_v, .cross_out and
// .cross_residual in each layer, whose keys are those of
// %encoder.final_normed, and reads %source_ids, %source_positions,
// %source_slots : i32[E] and %sources : i32[S, 2]. An encoder has no %blocks,
// %types : i32[T] where it embeds them, %rows : i32[R] (the token of each text
// that is pooled) where a head reads them, and returns what its head
// publishes: %last_hidden_state, %pooler_output, %logits, %start_logits,
// %end_logits. With two towers, %pixels : f32[P, N], %image_positions,
// %image_slots : i32[P] and %image_rows : i32[I] are the images', and
// %text_embeds and %image_embeds are returned.
//
// A biased linear %x is linear %x.nobias, then add_bias %x. Fused ops and
// collectives don't occur. Weights are f32, each with its recipe; the keys and
// values of layer N are state @layers.N.kv.
absl::StatusOr<Graph> ImportGraph(const ModelDescription& model);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_IMPORT_H_
