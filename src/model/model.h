// A loaded checkpoint behind one face for every family. Nothing outside src/model, src/media and
// src/text learns a family's name.
//
// Parts with different owners: ModelSpec and PromptBuilder are immutable and usable from any
// thread; VisionModel, Projector and LanguageModel hold weights on a device and are called by that
// device's lane thread only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "device/device.h"
#include "media/image.h"
#include "model/cut.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "text/tool_format.h"

namespace hs {

// What the rest of the program may know about a model.
struct ModelSpec {
  std::string name;          // folder name; the served name is the server's business
  std::string architecture;  // e.g. "LlavaForConditionalGeneration", for display
  std::string revision;  // hash of config and weight headers, for cache keys and system_fingerprint
  int32_t max_model_len = 0;  // positions the model has
  int32_t vocab_size = 0;     // ids that may be sampled (tokenizer size, at most the matrix rows)
  int32_t dim = 0;            // width of the language model = of image embeddings
  int32_t feature_dim = 0;    // width of a picture's rows before the projector; 0: no pictures
  bool cut_before_projector = false;  // towers give features, projectors make rows of them
  int32_t n_layers = 0;
  std::vector<int32_t> eos_ids;  // every end token
  bool has_vision = false;
  int64_t max_encode_rows = 0;  // embedding rows of all pictures in one encode() call; 0: any
  int32_t n_position_axes = 1;  // 3 with M-RoPE
  KvLayout kv_layout;           // of one layer; block_size as given at load
  // Weights on the device of a tower, and on all devices of a language model. The projector is part
  // of that one where it runs.
  size_t tower_bytes = 0;
  size_t language_bytes = 0;
  size_t step_weight_bytes =
      0;  // language weights a decode step reads: everything but the embedding table
  size_t prefill_weight_bytes =
      0;  // weights each prompt token is multiplied with: the layers, without the head
  // generation_config.json's sampling defaults; absent = OpenAI's
  std::optional<float> default_temperature;
  std::optional<float> default_top_p;
  std::optional<int32_t> default_top_k;
  std::optional<float> default_min_p;
  std::optional<float> default_repetition_penalty;

  // Width of the rows that a tower gives.
  int32_t tower_dim() const { return cut_before_projector ? feature_dim : dim; }
  // KV bytes of one block over all layers, on all devices of a language model that n_devices share:
  // where they are more than the heads, some hold the same.
  size_t kv_block_bytes(int32_t n_devices = 1) const {
    const int32_t n_heads = std::max(kv_layout.n_kv_heads, n_devices);
    return kv_layout.block_bytes() / static_cast<size_t>(kv_layout.n_kv_heads) *
           static_cast<size_t>(n_heads) * static_cast<size_t>(n_layers);
  }
};

// Where a picture's embeddings go in a prompt.
struct ImageSpan {
  int32_t first = 0;  // index of the first placeholder token
  int32_t count = 0;  // placeholder tokens = embedding rows
};

// A tokenised prompt, ready for the engine.
struct Prompt {
  std::vector<int32_t> token_ids;  // placeholders hold the image token's id
  std::vector<int32_t> positions;  // (n_position_axes, n tokens)
  int32_t position_delta = 0;      // position of output token i = n tokens + i + delta (each axis)
  std::vector<ImageSpan> spans;    // one a picture, in order
  std::vector<std::shared_ptr<const ImagePatches>> images;  // same length as spans
};

// What a request asks of the preprocessing of a picture. Families with one fixed picture size have
// nothing to choose and pass over it. Each value > 0; a minimum above the maximum, or values beyond
// the family's own limits, are capped.
struct ImageOptions {
  std::optional<int64_t> min_pixels = {};  // width * height after resizing
  std::optional<int64_t> max_pixels = {};
  bool low_detail = false;  // a low maximum, chosen by the family
};

// Text and pictures to prompts. Any thread.
class PromptBuilder {
 public:
  virtual ~PromptBuilder() = default;
  virtual const Tokenizer& tokenizer() const = 0;
  // How the model writes calls of functions.
  virtual const ToolFormat& tool_format() const { return hermes_tools(); }
  // Placeholder tokens of a picture with these sides, both above zero; its pixels are not needed.
  // Errors: those of preprocess().
  virtual Result<int64_t> tokens_of(int32_t width, int32_t height,
                                    const ImageOptions& options) const = 0;
  // Decoded picture to patches of this family's preprocessing. Errors: kInvalidArgument
  // "invalid_image" for a picture whose shape the family cannot take.
  virtual Result<ImagePatches> preprocess(const Image& image,
                                          const ImageOptions& options) const = 0;
  // Images in the order of the image parts. Errors: template complaints, kUnsupported for pictures
  // on a text model.
  virtual Result<Prompt> chat(const ChatInput& input,
                              std::vector<std::shared_ptr<const ImagePatches>> images) const = 0;
  // Plain text, special tokens inert inside it; BOS as the tokenizer says.
  virtual Result<Prompt> completion(std::string_view text, bool add_special_tokens) const = 0;
  // Tokens as they are, without pictures. REQUIRES: ids of the vocabulary; the image token's stands
  // for text like any other.
  virtual Prompt from_tokens(std::vector<int32_t> token_ids) const = 0;
};

// Encodes pictures: patches -> image embeddings, or features where a projector follows.
class VisionModel {
 public:
  virtual ~VisionModel() = default;
  virtual int32_t tokens_of(const ImagePatches& image) const = 0;
  // Rows of all pictures, packed in order, go to `out` (sum of tokens_of, spec.tower_dim()) on this
  // device.
  // REQUIRES: at most max_encode_images pictures and the spec's max_encode_rows rows.
  virtual Status encode(std::span<const ImagePatches* const> images, Matrix out) = 0;
};

// Features of a tower -> image embeddings, each row by itself.
class Projector {
 public:
  virtual ~Projector() = default;
  // features (n, feature_dim) -> out (n, dim), both on this device; complete when it returns.
  virtual Status project(Matrix features, Matrix out) = 0;
};

// One step of the language model over packed sequences. Host memory; all indices checked by the
// builder of the step.
struct LanguageStep {
  std::vector<int32_t> token_ids;     // (n_tokens); -1 where an image row goes
  std::vector<int32_t> positions;     // (n_axes, n_tokens)
  std::vector<int64_t> slots;         // (n_tokens): block * block_size + slot
  std::vector<int32_t> cu_query;      // (n_seqs + 1)
  std::vector<int32_t> context_lens;  // (n_seqs), new tokens included
  std::vector<int32_t> block_tables;  // (n_seqs, block_table_stride)
  int32_t block_table_stride = 0;
  struct ImageRows {
    int64_t first_row = 0;  // first of the consecutive token rows they fill
    int64_t n_rows = 0;
    const void* rows = nullptr;  // (n_rows, dim) on the language device, in its activation dtype
  };
  std::vector<ImageRows> image_rows;
  std::vector<int32_t> sample_rows;   // token rows whose next token is wanted
  std::vector<SamplingRow> sampling;  // one for each of sample_rows
  // What the `counts`, `biases`, `banned_ids` and `allowed` of `sampling` point into.
  std::vector<TokenCount> token_counts;
  std::vector<TokenBias> token_biases;
  std::vector<int32_t> banned_ids;
  std::vector<uint32_t> allowed_words;
  int32_t allowed_stride = 0;  // words of each mask in it
};

// The memory of a KV cache: (n_layers, n_blocks) blocks of `layout`.
struct KvView {
  void* data = nullptr;
  KvLayout layout;
  int32_t n_layers = 0;
  int64_t n_blocks = 0;

  // The pieces that make up the leading n_rows of block `block` here and of block `to_block` in
  // `to`, which has the same layout. A row is all layers' key and value vectors of one token.
  void append_runs(const KvView& to, int32_t block, int32_t to_block, int32_t n_rows,
                   std::vector<CopyRun>& runs) const;
};

class LanguageModel {
 public:
  virtual ~LanguageModel() = default;
  // The devices it stands on: with tensor parallelism several, its ranks.
  virtual int32_t n_ranks() const { return 1; }
  // The KV cache: n_layers caches of n_blocks blocks each, empty; of each rank, with its share of
  // the heads. Before the first step; a second call replaces the cache. No rank is in a step.
  virtual Status allocate_kv(int64_t n_blocks) = 0;
  virtual KvView kv() const = 0;  // of the only rank
  // Runs the step and samples. `out` has the size of step.sample_rows. REQUIRES: n_tokens <=
  // max_step_tokens of the load options.
  virtual Status step(const LanguageStep& step, std::span<SampledToken> out) = 0;
  // One rank's share of a step, on its device's thread. All ranks are given the same step, done
  // when all calls have ended; rank 0 samples, the others leave `out` alone. When one fails, others
  // that wait for it, or are going to, fail with is_group_abort(); one that had met it already
  // succeeds.
  virtual Status step_rank(int32_t rank, const LanguageStep& its_step,
                           std::span<SampledToken> out) {
    HS_CHECK_EQ(rank, 0);
    return step(its_step, out);
  }
  // No rank waits for another any more: calls that do, now or later, fail. Any thread. Ends with
  // allocate_kv().
  virtual void stop_ranks() {}
  // What the rank has read from the others so far. Between its steps.
  virtual int64_t bytes_received(int32_t /*rank*/) const { return 0; }
  // For tests and references: the last hidden states (n_tokens, dim) and logits (sample_rows, vocab
  // rows) of the step.
  virtual Status logits(const LanguageStep& step, std::vector<float>& logits) = 0;
};

// The devices of one language model: one, or several that share its layers (tensor parallelism).
struct DeviceGroup {
  DeviceGroup(Device* device) : ranks{device} {}  // NOLINT(google-explicit-constructor): the rule
  explicit DeviceGroup(std::vector<Device*> devices) : ranks(std::move(devices)) {}
  std::vector<Device*>
      ranks;  // the first holds the embedding table, the output matrix, and samples
};

// Bytes of weights read so far, and in all. The last call need not reach all of them: a checkpoint
// may hold tensors that its model does not use.
using LoadProgress = std::function<void(size_t bytes_done, size_t bytes_total)>;

struct LoadOptions {
  std::filesystem::path path;
  DType dtype = DType::kBF16;  // kF32, kBF16, on a GPU kF16: weights and KV cache
  int32_t block_size = 16;
  int32_t max_step_tokens = 512;  // sizes the work area of the language model
  int32_t max_encode_images = 4;  // pictures in one encode() call
  // Patches of all pictures in one encode() call, for towers that take pictures of any size: it
  // bounds their work area, and larger pictures are scaled down to it.
  int32_t max_encode_patches = 16384;
  int32_t max_model_len = 0;  // positions to prepare for; 0 = all that the model has
  CutChoice cut = CutChoice::kPost;
  // One tower, and one language model, is loaded on each of these; the devices must outlive the
  // model, and may stand in both lists. A group must be able to split the attention heads evenly.
  // Without devices no weights are loaded: the files are checked, and the spec is there.
  std::vector<Device*> vision_devices = {};
  std::vector<DeviceGroup> language_devices = {};
  LoadProgress progress = {};  // may be empty; called by the thread that loads
};

struct Model {
  ModelSpec spec;
  std::unique_ptr<PromptBuilder> prompts;
  std::vector<std::unique_ptr<VisionModel>> towers;       // as vision_devices; empty: text only
  std::vector<std::unique_ptr<LanguageModel>> languages;  // as language_devices
  std::vector<std::unique_ptr<Projector>> projectors;     // the same with spec.cut_before_projector
};

// The name of a checkpoint that nobody named: its folder's own, whatever links lead there.
std::string checkpoint_name(const std::filesystem::path& path);

// Reads a Hugging Face checkpoint directory. Errors name the file and what is wrong with it.
Result<Model> load_model(const LoadOptions& options);

}  // namespace hs
