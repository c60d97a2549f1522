#include "tools/flag_aliases.h"

namespace deepslice {
namespace {

// DeepSpeed, vLLM, llama.cpp, TensorRT-LLM, TGI, MLC-LLM, CTranslate2 and ONNX
// Runtime GenAI, as their documents spell them.
constexpr FlagAlias kAliases[] = {
    {"batch", "--batch-size"},
    {"chat", "--conversation"},
    {"chat", "-cnv"},
    {"dtype", "--outtype"},
    {"dtype", "--precision"},
    {"dtype", "--quantization"},
    {"dtype", "--quantize"},
    {"frequency-penalty", "--sampling-frequency-penalty"},
    {"injection", "--injection-dict"},
    {"injection", "--injection-policy"},
    {"kv-block", "--block-size"},
    {"kv-block", "--tokens-per-block"},
    {"max-batch", "--max-batch-size"},
    {"max-batch", "--max-num-seqs"},
    {"max-batch", "--max-num-sequence"},
    {"max-batch", "--parallel"},
    {"max-batch", "-np"},
    {"max-new-tokens", "--max-gen-length"},
    {"max-new-tokens", "--max-output-len"},
    {"max-new-tokens", "--max-tokens"},
    {"max-new-tokens", "--n-gen"},
    {"max-new-tokens", "--n-predict"},
    {"max-new-tokens", "--output-len"},
    {"max-new-tokens", "--predict"},
    {"max-seq-len", "--context-window-size"},
    {"max-seq-len", "--ctx-size"},
    {"max-seq-len", "--max-context-length"},
    {"max-seq-len", "--max-model-len"},
    {"max-seq-len", "--max-out-tokens"},
    {"max-seq-len", "--max-total-tokens"},
    {"max-step-tokens", "--max-batch-prefill-tokens"},
    {"max-step-tokens", "--max-num-batched-tokens"},
    {"max-step-tokens", "--max-num-tokens"},
    {"max-step-tokens", "--ubatch-size"},
    {"max-step-tokens", "-ub"},
    {"model", "--checkpoint"},
    {"model", "--checkpoint-dir"},
    {"model", "--model-dir"},
    {"model", "--model-id"},
    {"model", "--model-path"},
    {"output", "--outfile"},
    {"output", "--output-dir"},
    {"prompt-tokens", "--input-len"},
    {"prompt-tokens", "--n-prompt"},
    {"repetition-penalty", "--repeat-penalty"},
    {"repetitions", "--num-iters"},
    {"temperature", "--sampling-temperature"},
    {"temperature", "--temp"},
    {"threads", "--intra-threads"},
    {"threads", "--jobs"},
    {"top-k", "--sampling-topk"},
    {"top-p", "--sampling-topp"},
    {"tp", "--mp-size"},
    {"tp", "--num-shard"},
    {"tp", "--tensor-parallel-shards"},
    {"tp", "--tensor-parallel-size"},
    {"tp", "--tp-size"},
    {"tp", "-tp"},
    {"typical", "--typical-p"},
};

}  // namespace

absl::Span<const FlagAlias> FlagAliases() { return kAliases; }

}  // namespace deepslice
