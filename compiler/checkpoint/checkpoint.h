// One view of every source container: named lazy tensors and a configuration.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_CHECKPOINT_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_CHECKPOINT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "schema/base/dtype.h"
#include "schema/base/json.h"

namespace deepslice {

// How the elements of a stored tensor are coded. Plain types hold one element
// each; block types hold a row as blocks (GGUF).
enum class Storage : uint8_t {
  kPlain,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kQ8_K,
  kTQ1_0,
  kTQ2_0,
  kIQ4_NL,
  kIQ4_XS,
  kMXFP4,
  kNVFP4,
};

// Made-up numbers in place of stored ones (schema/synthetic.h): the element at
// row r and column c of the tensor seen as [out, in] is mean + scale *
// SyntheticUnit(key, r, c), which float holds exactly.
struct SyntheticTensor {
  uint64_t seed = 0;
  uint64_t key = 0;  // SyntheticTensorKey of the seed and the name
  float mean = 0;
  float scale = 1;          // a power of two
  bool transposed = false;  // the tensor's shape is [in, out]
};

// A rectangle of a tensor, seen as [rows(), row_elements()], and where its
// elements lie; all of the tensor's type.
struct TensorPart {
  int64_t row = 0, column = 0;  // of the tensor: where it begins
  int64_t rows = 0, columns = 0;
  int file = 0;                               // index into Checkpoint::files()
  uint64_t offset = 0;                        // of its first element, bytes
  int64_t row_stride = 0, column_stride = 1;  // elements
};

// A tensor of the checkpoint, unread. Row-major; `shape` is the logical shape
// (GGUF's reversed dims already put in order: [out, in] for a matrix).
struct TensorInfo {
  std::string name;         // published (Hugging Face) name
  std::string stored_name;  // name in the container, when it differs
  DType dtype;              // kPlain: element type; blocks: kF32
  Storage storage = Storage::kPlain;
  std::vector<int64_t> shape;
  int file = 0;         // index into Checkpoint::files()
  uint64_t offset = 0;  // bytes from the file's start
  uint64_t bytes = 0;   // stored size
  // GGUF's llama converter stores the rows of q and k so that rotary pairs lie
  // side by side; > 0 is the number of heads whose rows ReadRows puts back.
  int rotary_heads = 0;
  // GGUF stores GPT-2's linear weights as [out, in] although the published
  // layout is [in, out]. `shape` and ReadRows stay as stored.
  bool transposed_from_published = false;
  // Elements from one index of a dim to the next (PyTorch's views); 0 repeats.
  // Empty: row-major without gaps. Otherwise kPlain, `offset` is the place of
  // the first element and `bytes` reaches to the last one's end.
  std::vector<int64_t> strides;
  // Not empty: the tensor is put together of these, which cover it once (the
  // shards of parallel training). kPlain; `bytes` is their sum, `file` that of
  // the first; offset and strides mean nothing.
  std::vector<TensorPart> parts;
  // Not empty: no elements can be read, and why ("is quantised; ..."). Only the
  // name and the shape are then known.
  std::string unreadable;
  // Set: nothing is stored, and file, offset and bytes mean nothing.
  absl::optional<SyntheticTensor> synthetic;

  // Whether RawRows gives its bytes.
  bool has_raw_rows() const;
  int64_t num_elements() const;
  int64_t rows() const { return shape.empty() ? 1 : shape[0]; }
  int64_t row_elements() const;  // product of all dims but the first
};

struct SourceFile {
  std::string path;
  uint64_t size = 0;
};

// Jinja texts, each at most limits::kTemplateBytes.
struct ChatTemplates {
  std::string text;  // the default; empty when absent
  // The others ("tool_use", "rag") by name, sorted.
  std::vector<std::pair<std::string, std::string>> named;
};

// What sentence-transformers and image processors keep beside the weights.
inline constexpr absl::string_view kSideFileNames[] = {
    "modules.json", "1_Pooling/config.json", "sentence_bert_config.json",
    "preprocessor_config.json"};

// Reads are const and thread-safe; the files stay mapped while it lives.
class Checkpoint {
 public:
  virtual ~Checkpoint() = default;

  // All tensors, sorted by published name.
  virtual absl::Span<const TensorInfo> tensors() const = 0;
  // The tensor of that published name, or nullptr.
  virtual const TensorInfo* Find(absl::string_view name) const = 0;
  virtual const std::vector<SourceFile>& files() const = 0;
  // The mapped bytes of files()[i].
  virtual absl::string_view file_bytes(int i) const = 0;

  // Hugging Face's config.json as it stands, or the same keys made from the
  // container's metadata.
  virtual const json::Value& config() const = 0;
  // What stands before errors about it, where it is known: the path of
  // config.json, or "FILE: args".
  virtual const std::string& config_place() const = 0;
  // generation_config.json, tokenizer_config.json: null when absent.
  virtual const json::Value& generation_config() const = 0;
  virtual const json::Value& tokenizer_config() const = 0;
  // Where a tokenizer can be read from; see text/tokenizer_reader.h. Exactly
  // one is set, or neither (a checkpoint without a tokenizer).
  // The path is of one of kTokenizerFileNames.
  virtual const std::string& tokenizer_json_path() const = 0;
  virtual const json::Value& gguf_metadata() const = 0;  // null, or key: value
  virtual const ChatTemplates& chat_templates() const = 0;
  // special_tokens_map.json: null when absent.
  virtual const json::Value& special_tokens_map() const = 0;
  // Another JSON file beside the weights, one of kSideFileNames; null when it
  // is absent.
  virtual const json::Value& side_file(absl::string_view name) const = 0;
  // Rows of the vocabulary that are there, padding among them, when padding was
  // neither cut off nor is known; 0 otherwise.
  virtual int64_t padded_vocab() const = 0;
  // Tensor-parallel ranks that saved it; 0 of whole tensors, which don't tell.
  virtual int training_mp_size() const { return 0; }
  // Things a user should know ("model.safetensors is ignored: ..."), in order.
  virtual const std::vector<std::string>& notes() const = 0;

  // Rows [begin, end) of the tensor's first dim, widened exactly to float (F64
  // is rounded to it): out holds (end - begin) * row_elements(). A scalar has
  // one row. Integer and unreadable tensors are refused. NaN and Inf pass where
  // they are stored as such; blocks whose scales make them are DataLoss.
  absl::Status ReadRows(const TensorInfo& t, int64_t begin, int64_t end,
                        absl::Span<float> out) const;
  // The same rows as stored bytes, when storage is kPlain, rotary_heads is 0,
  // there are no strides or parts and nothing is made up: a view into the
  // mapping. Empty otherwise.
  absl::string_view RawRows(const TensorInfo& t, int64_t begin,
                            int64_t end) const;
};

struct OpenOptions {
  bool ignore_index = false;  // read all shards present, not the index
  // Of Megatron's checkpoints alone, refused for others. Rows of the vocabulary
  // to keep of a padded one; 0: all.
  int64_t vocab_size = 0;
  // "thirds", "per_row" or "per_group": how query_key_value lies in each rank's
  // file, whatever its version says; "": as the version says.
  std::string qkv_layout;
  // Of a checkpoint.json alone, refused for others: the folder of its files when
  // it names none; empty: its own.
  std::string base_dir;
  // `path` is DeepSpeed's inference configuration, whose key `checkpoint` holds
  // what else is a file of its own.
  bool list_in_config = false;
};

// Recognises `path`: a Hugging Face folder, a .safetensors, .bin, .pt or .pth
// file (config.json beside it), a .gguf file, a Megatron folder, one of
// DeepSpeed's training or a file in it, DeepSpeed's checkpoint.json or Meta's
// LLaMA folder. Errors name file, place, found, allowed, remedy.
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenCheckpoint(
    const std::string& path, const OpenOptions& options = {});

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_CHECKPOINT_H_
