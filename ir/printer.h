// Graph to text.
#ifndef DEEPSLICE_IR_PRINTER_H_
#define DEEPSLICE_IR_PRINTER_H_

#include <string>

#include "ir/graph.h"

namespace deepslice {

// The canonical text:
//
//   graph @mlp {
//     param  %x    : f32[T, 64]
//     weight @up   : f32[172, 64] role(mlp_up) encoding(i8_row)
//         = "layers.0.mlp.up_proj.weight"[0:172, 0:64]
//     weight @gu   : f32[344, 64] role(mlp_gate_up)
//         = interleave("gate.weight"[0:172, 0:64], "up.weight"[0:172, 0:64])
//     weight @qkv  : f32[100, 64] role(attn_qkv)
//         = concat(transpose "c_attn.weight"[0:60, 0:64], ...)
//     weight @freqs : f32[5] role(rope_freqs)
//         = rope_freqs(base=10000, rotary_dim=10)
//     state  @kv.0 : full(kv_heads=2, head_dim=10, encoding=f32)
//     %h = linear(%x, @up, residual=%x) : f32[T, 172]
//     %a = attention(%q, %k, %v, %positions, %slots, %blocks)
//         {heads=6, kv_heads=2, group=3, head_offset=0, head_dim=10,
//          scale=0.31622776601683794, window=0} state(@kv.0) : f32[T, 60]
//     return %h
//   }
//
// Colons of neighbouring declarations are aligned. encoding(f32) is left out.
// A piece of a vector prints one range. Numbers print as the shortest text that
// reads back equal.
std::string PrintGraph(const Graph& graph);

// A weight's recipe on one line: "down_proj.weight"[0:64, 80:172].
std::string SourceText(const WeightSource& source);

// Digest of the canonical text: equal graphs have equal digests.
std::string GraphDigest(const Graph& graph);

}  // namespace deepslice

#endif  // DEEPSLICE_IR_PRINTER_H_
