#include "engine/fakes.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <set>

#include "base/check.h"
#include "model/sharded_language.h"

namespace hs::test {
namespace {

uint64_t mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  x ^= x >> 33;
  return x;
}

// What the cache holds for a token: its content, and its positions on all axes.
struct Cell {
  uint64_t content = 0;
  uint64_t position = 0;
};

uint64_t text_content(int32_t id) {
  return mix(static_cast<uint64_t>(id) + 1);
}

void picture_row(uint64_t picture, int32_t row, float* out) {
  for (int32_t i = 0; i < kDim; ++i) {
    const uint64_t h = mix(mix(picture) + static_cast<uint64_t>(row * kDim + i));
    out[i] = static_cast<float>(h % 100003);
  }
}

uint64_t row_content(const float* row) {
  uint64_t h = 0x1234567;
  for (int32_t i = 0; i < kDim; ++i) h = mix(h ^ static_cast<uint64_t>(row[i]));
  return h;
}

uint64_t position_content(uint64_t h, int32_t position) {
  return mix(h ^ (static_cast<uint64_t>(position) + 77));
}

uint64_t add_to_context(uint64_t h, Cell cell) {
  return mix(mix(h ^ cell.content) ^ cell.position);
}

SampledToken sample(uint64_t context, const SamplingRow& row) {
  uint64_t h = context;
  if (row.temperature > 0) {
    h = mix(mix(mix(h ^ row.seed) ^ row.choice) ^ row.position);
  }
  SampledToken token;
  // Ids 1 and up: the end token comes now and then, the begin token never does.
  token.id = static_cast<int32_t>(1 + h % (kVocab - 1));
  if (token.id == kImageToken) token.id = 10;
  if (row.n_logprobs < 0) return token;
  token.logprob = -static_cast<float>(context % 1000) / 100.0F;
  token.n_top = row.n_logprobs;
  for (int32_t i = 0; i < token.n_top; ++i) {
    token.top_ids[i] = static_cast<int32_t>((context + static_cast<uint64_t>(i)) % kVocab);
    token.top_logprobs[i] = -static_cast<float>(i);
  }
  return token;
}

}  // namespace

// ---- gate

void Gate::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

void Gate::open() {
  const std::lock_guard lock(mutex_);
  closed_ = false;
  changed_.notify_all();
}

void Gate::pass() {
  std::unique_lock lock(mutex_);
  ++visitors_;
  changed_.notify_all();
  changed_.wait(lock, [this] { return !closed_; });
  --visitors_;
}

bool Gate::wait_for_visitor() {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(10), [this] { return visitors_ > 0; });
}

// ---- device

FakeDevice::Busy::Busy(FakeDevice& device) : device_(device) {
  if (device_.busy_.fetch_add(1) > 0) ++device_.n_overlaps;
}
FakeDevice::Busy::~Busy() {
  --device_.busy_;
}

Ops& FakeDevice::ops() {
  check_failed(__FILE__, __LINE__, "the fake device has no ops");
}

Result<Buffer> FakeDevice::allocate(size_t bytes) {
  if (n_allocations++ == fail_allocation) {
    return fail(ErrorKind::kResourceExhausted, "the fake device is out of memory");
  }
  const size_t rounded = (bytes + 63) / 64 * 64;
  void* data = std::aligned_alloc(64, std::max<size_t>(rounded, 64));
  std::memset(data, 0, rounded);
  return Buffer(id_, data, bytes, [](void* memory, size_t) { std::free(memory); });
}

Result<OwnedWeight> FakeDevice::pack_weight(std::span<const WeightPart>, int64_t, DType) {
  return fail(ErrorKind::kUnsupported, "the fake device has no weights");
}

void FakeDevice::upload(const void* host, void* device, size_t bytes) {
  const Busy busy(*this);
  std::memcpy(device, host, bytes);
  uploaded_bytes += static_cast<int64_t>(bytes);
}

void FakeDevice::download(const void* device, void* host, size_t bytes) {
  std::memcpy(host, device, bytes);
}

Status FakeDevice::sync() {
  if (fail_sync) return fail(ErrorKind::kUnavailable, "the fake device is lost");
  return {};
}

Status FakeDevice::check_alive() const {
  if (!lost) return {};
  return fail(ErrorKind::kUnavailable, "the fake device is lost", "device_lost");
}

Status FakeDevice::faulty(std::span<const CopyRun> runs, Status copied) {
  if (Status alive = check_alive(); !alive) return alive;
  if (fail_copies) return fail(ErrorKind::kIo, "the fake copy failed");
  if (corrupt_copies > 0) {
    --corrupt_copies;
    *static_cast<uint8_t*>(runs.front().to) ^= 1;
  }
  return copied;
}

Status FakeDevice::read(std::span<const CopyRun> runs) {
  if (Status alive = check_alive(); !alive) return alive;
  return HostDevice::read(runs);
}

Result<MemoryCheck> FakeDevice::check(std::span<const MemoryRange> ranges, DType dtype) {
  if (Status alive = check_alive(); !alive) return std::unexpected(alive.error());
  return HostDevice::check(ranges, dtype);
}

Status FakeDevice::write(std::span<const CopyRun> runs) {
  return faulty(runs, HostDevice::write(runs));
}

Status FakeDevice::copy_from(const Device& other, std::span<const CopyRun> runs) {
  return faulty(runs, HostDevice::copy_from(other, runs));
}

// ---- tokenizer and prompts

std::vector<int32_t> FakeTokenizer::encode(std::string_view text, const EncodeOptions&) const {
  std::vector<int32_t> ids;
  for (const char c : text) ids.push_back(3 + (c - 'a') % 26);
  return ids;
}

std::string FakeTokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  std::string text;
  for (const int32_t id : ids) {
    if (!skip_special_tokens || !is_special(id)) text += token_bytes(id);
  }
  return text;
}

std::string FakeTokenizer::token_bytes(int32_t id) const {
  if (id <= kImageToken) return fmt::format("<{}>", id);
  if (id == kEuro[0]) return "\xE2";
  if (id == kEuro[1]) return "\x82";
  if (id == kEuro[2]) return "\xAC";
  std::string text(1, static_cast<char>('a' + (id - 3) % 26));
  if (id >= 29) text += static_cast<char>('a' + (id - 3) / 26);
  return text;
}

Result<int64_t> FakePrompts::tokens_of(int32_t, int32_t, const ImageOptions&) const {
  return fail(ErrorKind::kUnsupported, "the fake model reads no pictures");
}
Result<ImagePatches> FakePrompts::preprocess(const Image&, const ImageOptions&) const {
  return fail(ErrorKind::kUnsupported, "the fake model reads no pictures");
}
Result<Prompt> FakePrompts::chat(const ChatInput&,
                                 std::vector<std::shared_ptr<const ImagePatches>>) const {
  return fail(ErrorKind::kUnsupported, "the fake model has no chat template");
}
Prompt FakePrompts::from_tokens(std::vector<int32_t> token_ids) const {
  return make_prompt({text_part(std::move(token_ids))});
}

Result<Prompt> FakePrompts::completion(std::string_view text, bool) const {
  return make_prompt({text_part(tokenizer_.encode(text, {}))});
}

// ---- vision

Status FakeVision::encode(std::span<const ImagePatches* const> images, Matrix out) {
  const FakeDevice::Busy busy(device_);
  gate.pass();
  if (Status alive = device_.check_alive(); !alive) return alive;
  n_images += static_cast<int>(images.size());
  if (on_encode) on_encode(n_calls);
  if (n_calls++ == fail_call) return fail(ErrorKind::kUnavailable, "the fake tower is lost");
  int64_t row = 0;
  for (const ImagePatches* image : images) {
    for (int32_t i = 0; i < tokens_of(*image); ++i) {
      float* values = static_cast<float*>(out.row_range(row++, 1).data);
      if (out.cols == kFeatureDim) {
        values[0] = static_cast<float>(image->content_hash[0]);
        values[1] = static_cast<float>(i);
      } else {
        picture_row(image->content_hash[0], i, values);
      }
      if (image->content_hash[0] == nan_picture && i == tokens_of(*image) - 1) {
        values[1] = std::numeric_limits<float>::quiet_NaN();
      }
    }
  }
  if (row != out.rows) return fail(ErrorKind::kInternal, "rows of pictures and output differ");
  return {};
}

Status FakeProjector::project(Matrix features, Matrix out) {
  const FakeDevice::Busy busy(device_);
  if (Status alive = device_.check_alive(); !alive) return alive;
  for (int64_t row = 0; row < features.rows; ++row) {
    const auto* from = static_cast<const float*>(features.row_range(row, 1).data);
    auto* to = static_cast<float*>(out.row_range(row, 1).data);
    const auto picture = static_cast<uint64_t>(from[0]);
    picture_row(picture, static_cast<int32_t>(from[1]), to);
    if (picture == nan_picture) to[kDim - 1] = std::numeric_limits<float>::quiet_NaN();
  }
  n_rows += static_cast<int>(features.rows);
  return {};
}

// ---- language

uint64_t* FakeLanguage::cell(int64_t slot) const {
  const int64_t index = layout_.key_index(slot / layout_.block_size, 0,
                                          static_cast<int32_t>(slot % layout_.block_size));
  return reinterpret_cast<uint64_t*>(static_cast<float*>(kv_data_) + index);
}

// The promises of LanguageStep.
Status FakeLanguage::check(const LanguageStep& step, size_t n_out) const {
  const size_t n_tokens_here = step.token_ids.size();
  const size_t n_seqs = step.context_lens.size();
  const auto wrong = [](std::string_view what) {
    return fail(ErrorKind::kInternal, fmt::format("malformed step: {}", what));
  };
  if (step.positions.size() != n_tokens_here * static_cast<size_t>(n_axes_))
    return wrong("positions");
  if (step.slots.size() != n_tokens_here) return wrong("slots");
  if (step.cu_query.size() != n_seqs + 1 || step.cu_query.front() != 0 ||
      static_cast<size_t>(step.cu_query.back()) != n_tokens_here) {
    return wrong("cu_query");
  }
  if (step.block_tables.size() != n_seqs * static_cast<size_t>(step.block_table_stride)) {
    return wrong("block_tables");
  }
  if (step.sample_rows.size() != step.sampling.size() || step.sample_rows.size() != n_out) {
    return wrong("sample_rows");
  }
  std::set<int64_t> written;
  for (size_t s = 0; s < n_seqs; ++s) {
    const int32_t* table =
        step.block_tables.data() + s * static_cast<size_t>(step.block_table_stride);
    const int32_t n_query = step.cu_query[s + 1] - step.cu_query[s];
    if (n_query <= 0 || step.context_lens[s] < n_query) return wrong("context_lens");
    for (int32_t i = 0; i < n_query; ++i) {
      const int32_t index = step.context_lens[s] - n_query + i;
      if (index / layout_.block_size >= step.block_table_stride) return wrong("short block table");
      const int64_t block = table[index / layout_.block_size];
      const int64_t slot = step.slots[static_cast<size_t>(step.cu_query[s] + i)];
      if (block < 0 || block >= n_blocks_) return wrong("block id");
      if (slot != block * layout_.block_size + index % layout_.block_size) return wrong("slot");
      if (!written.insert(slot).second) return wrong("a slot is written twice");
    }
  }
  size_t n_image_rows = 0;
  for (const LanguageStep::ImageRows& rows : step.image_rows) {
    for (int64_t i = 0; i < rows.n_rows; ++i) {
      if (step.token_ids.at(static_cast<size_t>(rows.first_row + i)) != -1)
        return wrong("image rows");
    }
    n_image_rows += static_cast<size_t>(rows.n_rows);
  }
  if (n_image_rows != static_cast<size_t>(std::ranges::count(step.token_ids, -1))) {
    return wrong("image rows and placeholders");
  }
  return {};
}

void FakeLanguage::write(const LanguageStep& step) const {
  const size_t n = step.token_ids.size();
  for (size_t i = 0; i < n; ++i) {
    uint64_t* out = cell(step.slots[i]);
    out[0] = text_content(step.token_ids[i]);
    out[1] = 0;
    for (int32_t axis = 0; axis < n_axes_; ++axis) {
      out[1] = position_content(out[1], step.positions[static_cast<size_t>(axis) * n + i]);
    }
  }
  for (const LanguageStep::ImageRows& rows : step.image_rows) {
    for (int64_t i = 0; i < rows.n_rows; ++i) {
      const float* row = static_cast<const float*>(rows.rows) + i * kDim;
      cell(step.slots[static_cast<size_t>(rows.first_row + i)])[0] = row_content(row);
    }
  }
}

uint64_t FakeLanguage::context_hash(const LanguageStep& step, size_t sequence,
                                    int32_t length) const {
  const int32_t* table =
      step.block_tables.data() + sequence * static_cast<size_t>(step.block_table_stride);
  uint64_t h = 0;
  for (int32_t i = 0; i < length; ++i) {
    const int64_t slot =
        int64_t{table[i / layout_.block_size]} * layout_.block_size + i % layout_.block_size;
    const uint64_t* values = cell(slot);
    h = add_to_context(h, {values[0], values[1]});
  }
  return h;
}

Status FakeLanguage::allocate_kv(int64_t n_blocks) {
  Result<Buffer> kv = device_.allocate(static_cast<size_t>(n_blocks) * layout_.block_bytes());
  if (!kv) return std::unexpected(kv.error());
  kv_ = std::move(*kv);
  kv_data_ = kv_.data();
  n_blocks_ = n_blocks;
  return {};
}

void FakeLanguage::join(Communicator& group, int32_t rank, std::shared_ptr<RankHashes> hashes) {
  group_ = &group;
  rank_ = rank;
  hashes_ = std::move(hashes);
}

Status FakeLanguage::compare(std::vector<uint64_t> hashes) {
  if (group_ == nullptr) return {};
  hashes_->at(static_cast<size_t>(rank_)) = std::move(hashes);
  if (Status met = group_->meet(); !met) return met;
  if (std::ranges::adjacent_find(*hashes_, std::ranges::not_equal_to()) != hashes_->end()) {
    return fail(ErrorKind::kInternal, "the ranks have read different things");
  }
  return group_->meet();
}

Status FakeLanguage::step(const LanguageStep& step, std::span<SampledToken> out) {
  Status status = run(step, out);
  ++n_ended;
  return status;
}

Status FakeLanguage::run(const LanguageStep& step, std::span<SampledToken> out) {
  const FakeDevice::Busy busy(device_);
  if (on_step) on_step(step);
  gate.pass();
  if (Status alive = device_.check_alive(); !alive) return alive;
  const auto n = static_cast<int>(step.token_ids.size());
  n_tokens += n;
  max_tokens_seen = std::max(max_tokens_seen.load(), n);
  if (n_steps++ == fail_step) {
    return fail(ErrorKind::kUnavailable, "the fake device is lost",
                fails_lost ? "device_lost" : "");
  }
  const size_t n_out = rank_ == 0 ? out.size() : step.sample_rows.size();
  if (Status status = check(step, n_out); !status) return status;
  write(step);
  std::vector<uint64_t> hashes;
  for (size_t i = 0; i < step.sample_rows.size(); ++i) {
    const int32_t row = step.sample_rows[i];
    const auto after = std::ranges::upper_bound(step.cu_query, row);
    const auto sequence = static_cast<size_t>(after - step.cu_query.begin()) - 1;
    const int32_t length = step.context_lens[sequence] - (step.cu_query[sequence + 1] - 1 - row);
    hashes.push_back(context_hash(step, sequence, length));
  }
  if (Status same = compare(hashes); !same || rank_ != 0) return same;
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = sample(hashes[i], step.sampling[i]);
    if (nan_seed != 0 && step.sampling[i].seed == nan_seed) {
      out[i].non_finite = true;
      out[i].id = 0;
    }
  }
  return {};
}

Status FakeLanguage::logits(const LanguageStep&, std::vector<float>&) {
  return fail(ErrorKind::kUnsupported, "the fake model has no logits");
}

// ---- model

FakeModel::FakeModel(FakeDevice& vision_device, FakeDevice& language_device, int32_t block_size,
                     bool with_vision, int32_t n_axes)
    : FakeModel(Placement{.tower_devices = {&vision_device},
                          .language_devices = {&language_device},
                          .roles = {UnitRole::kServe}},
                block_size, with_vision, n_axes) {}

FakeModel::FakeModel(const Placement& placement, int32_t block_size, bool with_vision,
                     int32_t n_axes, bool cut_before_projector) {
  ModelSpec& spec = model.spec;
  spec.name = "fake";
  spec.max_model_len = 4096;
  spec.vocab_size = kVocab;
  spec.dim = kDim;
  spec.feature_dim = with_vision ? kFeatureDim : 0;
  spec.cut_before_projector = cut_before_projector;
  spec.n_layers = 1;
  spec.eos_ids = {kEos};
  spec.has_vision = with_vision;
  spec.n_position_axes = n_axes;
  spec.kv_layout = {.dtype = DType::kF32, .block_size = block_size, .n_kv_heads = 1, .d_head = 4};
  model.prompts = std::make_unique<FakePrompts>();
  for (Device* device : placement.tower_devices) {
    if (!with_vision) break;
    auto tower = std::make_unique<FakeVision>(static_cast<FakeDevice&>(*device));
    visions.push_back(tower.get());
    model.towers.push_back(std::move(tower));
  }
  for (const DeviceGroup& devices : placement.language_devices) {
    std::vector<std::unique_ptr<LanguageModel>> ranks;
    const bool shared = devices.ranks.size() > 1;
    std::unique_ptr<Communicator> group;
    if (shared) group = *Communicator::create(devices.ranks, 1);
    const auto hashes = std::make_shared<RankHashes>(devices.ranks.size());
    for (Device* device : devices.ranks) {
      auto lm =
          std::make_unique<FakeLanguage>(static_cast<FakeDevice&>(*device), spec.kv_layout, n_axes);
      const auto rank = static_cast<int32_t>(ranks.size());
      if (shared) lm->join(*group, rank, hashes);
      languages.push_back(lm.get());
      ranks.push_back(std::move(lm));
    }
    if (shared) {
      model.languages.push_back(
          std::make_unique<ShardedLanguage>(std::move(group), std::move(ranks)));
    } else {
      model.languages.push_back(std::move(ranks.front()));
    }
    if (!cut_before_projector) continue;
    auto projector =
        std::make_unique<FakeProjector>(static_cast<FakeDevice&>(*devices.ranks.front()));
    projectors.push_back(projector.get());
    model.projectors.push_back(std::move(projector));
  }
  if (with_vision) vision = visions.front();
  language = languages.front();
}

PromptPart text_part(std::vector<int32_t> tokens) {
  return {.tokens = std::move(tokens)};
}
PromptPart picture_part(uint64_t picture, int32_t n_rows) {
  return {.tokens = {}, .picture = picture, .n_rows = n_rows};
}

// Positions are not simply 0, 1, 2, ...: a picture's tokens share one, as with M-RoPE.
Prompt make_prompt(const std::vector<PromptPart>& parts, int32_t n_axes) {
  Prompt prompt;
  std::vector<int32_t> positions;
  int32_t next = 0;
  for (const PromptPart& part : parts) {
    const auto first = static_cast<int32_t>(prompt.token_ids.size());
    for (const int32_t id : part.tokens) {
      prompt.token_ids.push_back(id);
      positions.push_back(next++);
    }
    if (part.n_rows == 0) continue;
    prompt.token_ids.insert(prompt.token_ids.end(), static_cast<size_t>(part.n_rows), kImageToken);
    positions.insert(positions.end(), static_cast<size_t>(part.n_rows), next++);
    prompt.spans.push_back({.first = first, .count = part.n_rows});
    auto image = std::make_shared<ImagePatches>();
    image->grid_height = 1;
    image->grid_width = part.n_rows;
    image->content_hash[0] = part.picture;
    image->content_hash[1] = ~part.picture;
    prompt.images.push_back(image);
  }
  prompt.position_delta = next - static_cast<int32_t>(prompt.token_ids.size());
  for (int32_t axis = 0; axis < n_axes; ++axis) {
    for (const int32_t position : positions) prompt.positions.push_back(position + axis * 1000);
  }
  return prompt;
}

std::vector<SampledToken> expected_tokens(const GenerateRequest& request, int32_t choice, int32_t n,
                                          int32_t n_axes) {
  const Prompt& prompt = request.prompt;
  const size_t n_prompt = prompt.token_ids.size();
  std::vector<uint64_t> contents;
  for (const int32_t id : prompt.token_ids) contents.push_back(text_content(id));
  for (size_t i = 0; i < prompt.spans.size(); ++i) {
    for (int32_t row = 0; row < prompt.spans[i].count; ++row) {
      float values[kDim];
      picture_row(prompt.images[i]->content_hash[0], row, values);
      contents[static_cast<size_t>(prompt.spans[i].first + row)] = row_content(values);
    }
  }
  uint64_t context = 0;
  const auto add = [&](uint64_t content, size_t index) {
    uint64_t position = 0;
    for (int32_t axis = 0; axis < n_axes; ++axis) {
      position = position_content(
          position, index < n_prompt
                        ? prompt.positions[static_cast<size_t>(axis) * n_prompt + index]
                        : static_cast<int32_t>(index) + prompt.position_delta);
    }
    context = add_to_context(context, {content, position});
  };
  for (size_t i = 0; i < n_prompt; ++i) add(contents[i], i);
  std::vector<SampledToken> tokens;
  for (int32_t i = 0; i < n; ++i) {
    const SamplingRow row{.temperature = request.temperature,
                          .seed = request.seed,
                          .choice = static_cast<uint32_t>(choice),
                          .position = static_cast<uint32_t>(i),
                          .n_logprobs = request.n_logprobs};
    tokens.push_back(sample(context, row));
    add(text_content(tokens.back().id), n_prompt + static_cast<size_t>(i));
  }
  return tokens;
}

}  // namespace hs::test
