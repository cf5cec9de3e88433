#include "cuda/serving.h"

#include <utility>

namespace hs::test {
namespace {

Placement place_cards(Use use, Device* card, Device* center) {
  switch (use) {
    case Use::kOneCard:
      return place({}, {center}, Partition::kColocated, false);
    case Use::kTwoTiers:
      return place({card}, {center}, Partition::kModality, false);
    case Use::kStealing:
      return place({card}, {center}, Partition::kModality, true);
    case Use::kShared:
      break;
  }
  return place({center}, {center, card}, Partition::kModality, false, 2);
}

}  // namespace

Result<std::unique_ptr<Serving>> Serving::start(const ServeOptions& options) {
  std::unique_ptr<Serving> serving(new Serving);
  if (Status loaded = serving->load(options); !loaded) {
    return std::unexpected(std::move(loaded.error()));
  }
  return serving;
}

Status Serving::load(const ServeOptions& options) {
  for (const int index : {0, 1}) {
    auto device =
        cuda::make_cuda_device({.index = index, .dtype = options.dtype, .graphs = options.graphs});
    if (!device) return std::unexpected(std::move(device.error()));
    gpus_.push_back(std::move(*device));
  }
  placement_ = place_cards(options.use, gpus_[0].get(), gpus_[1].get());
  constexpr int32_t kContext = 240;
  auto model = load_model({.path = options.model,
                           .dtype = options.dtype,
                           .max_step_tokens = options.max_step_tokens,
                           .max_encode_images = 1,
                           .max_model_len = kContext,
                           .vision_devices = placement_.tower_devices,
                           .language_devices = placement_.language_devices});
  if (!model) return std::unexpected(std::move(model.error()));
  model_ = std::move(*model);
  const EngineConfig config{
      .max_model_len = kContext,
      .max_num_seqs = options.max_num_seqs,
      .max_num_batched_tokens = options.max_step_tokens,
      .kv_blocks = 64,
      .max_encode_images = 1,
      .embedding_cache_rows = 128,
      .prefix_cache = false,
      .steal = options.use == Use::kStealing ? StealMode::kOn : StealMode::kOff};
  auto engine = Engine::create(model_, make_topology(model_, placement_), config, clock_,
                               [this] { wake_.notify(); });
  if (!engine) return std::unexpected(std::move(engine.error()));
  engine_ = std::move(*engine);
  return {};
}

std::shared_ptr<RecordingSink> Serving::ask(Prompt prompt, int32_t n_tokens) {
  auto sink = std::make_shared<RecordingSink>();
  GenerateRequest request = make_request(std::move(prompt), n_tokens);
  request.ignore_eos = true;
  const auto submitted = engine_->submit(std::move(request), sink);
  BOOST_REQUIRE_MESSAGE(submitted.has_value(), message_of(submitted));
  return sink;
}

bool Serving::run() {
  for (;;) {
    engine_->poll();
    if (engine_->idle()) return true;
    bool woken = false;  // emulated steps may take many seconds on a slow machine
    for (int i = 0; i < 6 && !woken; ++i) woken = wake_.wait();
    if (!woken) return false;
  }
}

}  // namespace hs::test
