// A device, a tokenizer, a vision tower and a language model whose answers are known beforehand.
//
// The language model writes what it is given (token or picture row, and position) into the KV cache
// at the slots of the step, reads every sequence's context back through its block table, and
// answers with a hash of what it read. A wrong block table, slot, position or picture row, or a
// block that was overwritten, changes the answer.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/communicator.h"
#include "device/host_device.h"
#include "engine/engine.h"
#include "model/model.h"

namespace hs::test {

constexpr int32_t kVocab = 64;
constexpr int32_t kBos = 0;
constexpr int32_t kEos = 1;
constexpr int32_t kImageToken = 2;
constexpr int32_t kEuro[3] = {61, 62, 63};  // the three bytes of one character
constexpr int32_t kDim = 4;
constexpr int32_t kFeatureDim = 2;

// Holds a lane inside an order until the test lets it go on. Open at first.
class Gate {
 public:
  void close();
  void open();
  void pass();  // lane thread
  // Blocks until a lane waits at the closed gate; false after ten seconds.
  bool wait_for_visitor();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  int visitors_ = 0;
};

// Memory of the host under another name. Fails on demand.
class FakeDevice final : public HostDevice {
 public:
  explicit FakeDevice(int index = 0) : id_{DeviceId::Kind::kCpu, index} {}
  DeviceId id() const override { return id_; }
  std::string description() const override { return "fake"; }
  DType activation_dtype() const override { return DType::kF32; }
  Ops& ops() override;
  Result<Buffer> allocate(size_t bytes) override;
  Result<OwnedWeight> pack_weight(std::span<const WeightPart>, int64_t, DType) override;
  void upload(const void* host, void* device, size_t bytes) override;
  void download(const void* device, void* host, size_t bytes) override;
  Status sync() override;
  Status read(std::span<const CopyRun> runs) override;
  Status write(std::span<const CopyRun> runs) override;
  Result<MemoryCheck> check(std::span<const MemoryRange> ranges, DType dtype) override;
  Status copy_from(const Device& other, std::span<const CopyRun> runs) override;

  // Marks the device as working for as long as it lives; two at a time are recorded as a fault.
  class Busy {
   public:
    explicit Busy(FakeDevice& device);
    ~Busy();

   private:
    FakeDevice& device_;
  };

  std::atomic<int> n_allocations = 0;
  std::atomic<int> fail_allocation = -1;  // the allocation with this number fails
  std::atomic<int> n_overlaps = 0;        // orders that ran at the same time as another
  std::atomic<bool> fail_sync = false;
  std::atomic<bool> fail_copies = false;  // to this device
  std::atomic<int> corrupt_copies = 0;    // so many copies to it arrive damaged
  std::atomic<bool> lost = false;         // nothing works any more
  std::atomic<int64_t> uploaded_bytes = 0;
  Status check_alive() const;

 private:
  Status faulty(std::span<const CopyRun> runs, Status copied);

  DeviceId id_;
  std::atomic<int> busy_ = 0;
};

class FakeTokenizer final : public Tokenizer {
 public:
  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options) const override;
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const override;
  int32_t size() const override { return kVocab; }
  std::optional<int32_t> id_of(std::string_view) const override { return std::nullopt; }
  std::string_view token(int32_t) const override { return "in use"; }
  bool is_special(int32_t id) const override { return id <= kImageToken; }
  std::string token_bytes(int32_t id) const override;
  bool strips_leading_space() const override { return false; }
  size_t leading_spaces_dropped() const override { return 0; }
  bool drops_spaces_of_first_token() const override { return false; }
};

class FakePrompts final : public PromptBuilder {
 public:
  const Tokenizer& tokenizer() const override { return tokenizer_; }
  Result<int64_t> tokens_of(int32_t, int32_t, const ImageOptions&) const override;
  Result<ImagePatches> preprocess(const Image&, const ImageOptions&) const override;
  Result<Prompt> chat(const ChatInput&,
                      std::vector<std::shared_ptr<const ImagePatches>>) const override;
  Result<Prompt> completion(std::string_view, bool) const override;
  Prompt from_tokens(std::vector<int32_t> token_ids) const override;

 private:
  FakeTokenizer tokenizer_;
};

// Gives features, from which FakeProjector computes embeddings, where these are asked of it.
class FakeVision final : public VisionModel {
 public:
  explicit FakeVision(FakeDevice& device) : device_(device) {}
  int32_t tokens_of(const ImagePatches& image) const override {
    return image.grid_height * image.grid_width;
  }
  Status encode(std::span<const ImagePatches* const> images, Matrix out) override;

  Gate gate;
  std::atomic<int> n_calls = 0;
  std::atomic<int> n_images = 0;
  std::atomic<int> fail_call = -1;        // the call with this number fails
  std::function<void(int)> on_encode;     // lane thread, with the call's number; set before
  std::atomic<uint64_t> nan_picture = 0;  // content_hash[0] of a picture that gives a NaN

 private:
  FakeDevice& device_;
};

class FakeProjector final : public Projector {
 public:
  explicit FakeProjector(FakeDevice& device) : device_(device) {}
  Status project(Matrix features, Matrix out) override;

  std::atomic<int> n_rows = 0;
  std::atomic<uint64_t> nan_picture = 0;  // its embeddings hold a NaN

 private:
  FakeDevice& device_;
};

// What ranks of one fake model tell each other: a hash of what each has read, one a sampled row.
using RankHashes = std::vector<std::vector<uint64_t>>;

class FakeLanguage final : public LanguageModel {
 public:
  FakeLanguage(FakeDevice& device, KvLayout layout, int32_t n_axes)
      : device_(device), layout_(layout), n_axes_(n_axes) {}
  Status allocate_kv(int64_t n_blocks) override;
  KvView kv() const override {
    return {.data = kv_data_, .layout = layout_, .n_layers = 1, .n_blocks = n_blocks_};
  }
  Status step(const LanguageStep& step, std::span<SampledToken> out) override;
  Status logits(const LanguageStep&, std::vector<float>&) override;
  // Makes it one of several ranks, each with a cache of its own, which meet in every step and must
  // have read the same.
  void join(Communicator& group, int32_t rank, std::shared_ptr<RankHashes> hashes);

  Gate gate;
  std::atomic<int> n_steps = 0;
  std::atomic<int> n_ended = 0;  // steps
  std::atomic<int> n_tokens = 0;
  std::atomic<int> max_tokens_seen = 0;  // of one step
  std::atomic<int> fail_step = -1;       // the step with this number fails
  std::atomic<bool> fails_lost = false;  // and says that the device is lost
  std::atomic<uint64_t> nan_seed = 0;    // a request with this seed gets logits that are not finite
  std::function<void(const LanguageStep&)> on_step;  // lane thread; set before the first step

 private:
  Status check(const LanguageStep& step, size_t n_out) const;
  uint64_t* cell(int64_t slot) const;
  void write(const LanguageStep& step) const;
  uint64_t context_hash(const LanguageStep& step, size_t sequence, int32_t length) const;
  Status compare(std::vector<uint64_t> hashes);
  Status run(const LanguageStep& step, std::span<SampledToken> out);

  FakeDevice& device_;
  KvLayout layout_;
  int32_t n_axes_;
  Buffer kv_;
  void* kv_data_ = nullptr;
  int64_t n_blocks_ = 0;
  Communicator* group_ = nullptr;
  int32_t rank_ = 0;
  std::shared_ptr<RankHashes> hashes_;
};

struct FakeModel {
  FakeModel(FakeDevice& vision_device, FakeDevice& language_device, int32_t block_size = 4,
            bool with_vision = true, int32_t n_axes = 1);
  // A tower, or a language model, on each of the placement's devices, which are FakeDevices.
  explicit FakeModel(const Placement& placement, int32_t block_size = 4, bool with_vision = true,
                     int32_t n_axes = 1, bool cut_before_projector = false);
  Model model;
  FakeVision* vision = nullptr;  // the first ones
  FakeLanguage* language = nullptr;
  std::vector<FakeVision*> visions;
  std::vector<FakeLanguage*> languages;  // those of one group in the order of their ranks
  std::vector<FakeProjector*> projectors;
};

// Part of a prompt: text tokens, or a picture (n_rows > 0).
struct PromptPart {
  std::vector<int32_t> tokens;
  uint64_t picture = 0;
  int32_t n_rows = 0;
};
PromptPart text_part(std::vector<int32_t> tokens);
PromptPart picture_part(uint64_t picture, int32_t n_rows);
Prompt make_prompt(const std::vector<PromptPart>& parts, int32_t n_axes = 1);

// The tokens that the language model gives one choice of the request, computed without an engine:
// no end token or stop string is looked at.
std::vector<SampledToken> expected_tokens(const GenerateRequest& request, int32_t choice, int32_t n,
                                          int32_t n_axes = 1);

}  // namespace hs::test
