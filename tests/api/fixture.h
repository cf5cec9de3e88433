// An API over a fake engine and a recording writer: requests in, answers out, without a socket.
#pragma once

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/api_handler.h"
#include "base/clock.h"
#include "engine/engine.h"
#include "http/handler.h"
#include "loop/loop.h"
#include "loop/worker_pool.h"
#include "support/loop_wait.h"
#include "support/source_dir.h"
#include "text/tokenizer.h"

namespace hs::test {

// Keeps what was sent.
class RecordingWriter final : public ResponseWriter {
 public:
  void send(HttpResponse response) override {
    status = response.status;
    headers = std::move(response.headers);
    body = std::move(response.body);
    done = true;
  }
  void start_stream(int with_status, std::vector<HttpHeader> with_headers) override {
    status = with_status;
    headers = std::move(with_headers);
    streaming = true;
  }
  void write(std::string_view bytes) override { body += bytes; }
  void end() override { done = true; }
  size_t pending_bytes() const override { return 0; }
  void on_client_gone(std::function<void()> callback) override { leave = std::move(callback); }

  std::string header(std::string_view name) const {
    for (const HttpHeader& h : headers)
      if (h.name == name) return h.value;
    return {};
  }
  nlohmann::json json() const { return nlohmann::json::parse(body); }
  // The data of each event, in order.
  std::vector<std::string> events() const {
    std::vector<std::string> out;
    size_t begin = 0;
    for (size_t end; (end = body.find("\n\n", begin)) != std::string::npos; begin = end + 2) {
      const std::string event = body.substr(begin, end - begin);
      if (event.starts_with("data: ")) out.push_back(event.substr(6));
    }
    return out;
  }

  int status = 0;
  std::vector<HttpHeader> headers;
  std::string body;
  bool streaming = false;
  bool done = false;
  std::function<void()> leave;
};

inline nlohmann::json error_of(const RecordingWriter& writer) {
  return writer.json()["error"];
}

// Takes requests and does nothing: the test plays the engine's part on the sinks.
class FakeEngine final : public Engine {
 public:
  Result<RequestId> submit(GenerateRequest request, std::shared_ptr<RequestSink> sink) override {
    if (refusal) return std::unexpected(*refusal);
    requests.push_back(std::move(request));
    sinks.push_back(std::move(sink));
    return RequestId{requests.size()};
  }
  void cancel(RequestId id) override { cancelled.push_back(id); }
  void poll() override {}
  EngineStats stats() const override { return engine_stats; }
  std::vector<LaneTimeline> timeline() const override { return lanes; }
  std::vector<std::string> links() const override { return {}; }
  bool idle() const override { return true; }
  const EngineConfig& config() const override { return engine_config; }

  std::optional<Error> refusal;
  std::vector<GenerateRequest> requests;
  std::vector<std::shared_ptr<RequestSink>> sinks;
  std::vector<RequestId> cancelled;
  EngineStats engine_stats;
  std::vector<LaneTimeline> lanes;
  EngineConfig engine_config;
};

// The demo model's tokenizer; a picture takes 4 placeholders of id 999.
class FakePrompts final : public PromptBuilder {
 public:
  FakePrompts() : tokenizer_(*Tokenizer::load(source_dir() + "/models/demo/llava")) {}
  const Tokenizer& tokenizer() const override { return *tokenizer_; }
  Result<int64_t> tokens_of(int32_t width, int32_t height, const ImageOptions&) const override {
    if (on_picture) on_picture();
    if (refusal) return std::unexpected(*refusal);
    return int64_t{width} * height / pixels_per_token;
  }
  Result<ImagePatches> preprocess(const Image& image, const ImageOptions& options) const override {
    ++n_preprocessed;
    ImagePatches patches;
    patches.patch_dim = options.low_detail ? 1 : 0;  // what the tests look at
    patches.content_hash[0] = static_cast<uint64_t>(options.min_pixels.value_or(0));
    patches.content_hash[1] = static_cast<uint64_t>(options.max_pixels.value_or(0));
    patches.data.resize(n_floats);
    patches.grid_height = image.height;
    patches.grid_width = image.width;
    return patches;
  }
  Result<Prompt> chat(const ChatInput& input,
                      std::vector<std::shared_ptr<const ImagePatches>> images) const override {
    Prompt prompt;
    prompt.token_ids = {1};
    for (const ChatMessage& message : input.messages)
      for (const ChatPart& part : message.parts) append(part, prompt);
    prompt.images = std::move(images);
    return prompt;
  }
  Result<Prompt> completion(std::string_view text, bool add_special_tokens) const override {
    Prompt prompt;
    prompt.token_ids =
        tokenizer_->encode(text, {.add_special_tokens = add_special_tokens, .literal = {}});
    return prompt;
  }
  Prompt from_tokens(std::vector<int32_t> token_ids) const override {
    Prompt prompt;
    prompt.token_ids = std::move(token_ids);
    return prompt;
  }

  std::optional<Error> refusal;      // of every picture
  std::function<void()> on_picture;  // worker thread; set before the request
  int64_t pixels_per_token = 1 << 20;
  size_t n_floats = 1;  // of every prepared picture
  mutable std::atomic<int> n_preprocessed = 0;

 private:
  void append(const ChatPart& part, Prompt& prompt) const {
    if (part.kind == ChatPart::Kind::kImage) {
      prompt.spans.push_back({static_cast<int32_t>(prompt.token_ids.size()), 4});
      prompt.token_ids.insert(prompt.token_ids.end(), 4, 999);
      return;
    }
    for (const int32_t id :
         tokenizer_->encode(part.text, {.add_special_tokens = false, .literal = {}}))
      prompt.token_ids.push_back(id);
  }

  std::unique_ptr<Tokenizer> tokenizer_;
};

struct ApiFixture {
  static constexpr size_t kHeldBodiesBytesMax = 100'000;
  static constexpr size_t kPixelBytesMax = 1'000'000;
  static constexpr StaticFile kPages[] = {{"/index.html", "text/html", "", "\"tag\""}};

  explicit ApiFixture(bool with_model = true) : api(loop, workers, clock, options()) {
    spec.name = "tiny";
    spec.vocab_size = prompts.tokenizer().size();
    spec.has_vision = true;
    if (with_model) load();
  }

  ApiOptions options() {
    ApiOptions out;
    out.served_names = {"tiny", "alias"};
    out.limits.request.images_max = 2;
    out.limits.image_bytes_max = 4096;
    out.held_bodies_bytes_max = kHeldBodiesBytesMax;
    out.pixel_bytes_max = kPixelBytesMax;
    out.pages = kPages;
    out.log_row = [this](RequestRow row) { rows.push_back(std::move(row)); };
    return out;
  }

  void load() {
    auto model = std::make_shared<ServedModel>();
    model->names = {"tiny", "alias"};
    model->spec = &spec;
    model->prompts = &prompts;
    model->grammars = make_grammars(spec, prompts.tokenizer());
    model->max_model_len = 256;
    model->fingerprint = "fp_test";
    api.set_model(model, engine, 0.5);
  }

  static HttpRequest request(std::string method, std::string path, std::string body = "") {
    HttpRequest out;
    out.method = std::move(method);
    out.path = std::move(path);
    out.body = std::move(body);
    out.peer = "127.0.0.1:50000";
    out.headers = {{"host", "127.0.0.1:8080"}};
    if (out.method == "POST") out.headers.push_back({"content-type", "application/json"});
    return out;
  }

  std::shared_ptr<RecordingWriter> send(HttpRequest http) {
    auto writer = std::make_shared<RecordingWriter>();
    if (auto refusal = api.check_head(http))
      writer->send(*std::move(refusal));
    else
      api.handle(std::move(http), writer);
    return writer;
  }
  std::shared_ptr<RecordingWriter> get(std::string path) {
    return send(request("GET", std::move(path)));
  }
  // Waits until the answer is there, or the engine has the request.
  std::shared_ptr<RecordingWriter> post(std::string path, std::string body) {
    const size_t before = engine.sinks.size();
    auto writer = send(request("POST", std::move(path), std::move(body)));
    run_until(loop, [&] { return writer->done || engine.sinks.size() > before; }, "an answer");
    return writer;
  }
  std::shared_ptr<RecordingWriter> chat(const nlohmann::json& fields) {
    nlohmann::json body = {{"model", "tiny"},
                           {"messages", {{{"role", "user"}, {"content", "hi"}}}}};
    if (!fields.is_null()) body.update(fields);  // {} is null
    return post("/v1/chat/completions", body.dump());
  }

  RequestSink& sink() { return *engine.sinks.back(); }
  void finish(FinishReason reason = FinishReason::kStop, int32_t n_tokens = 2) {
    sink().on_choice_finished(0, reason, "");
    sink().on_done(
        {.prompt_tokens = 7, .image_tokens = 4, .cached_tokens = 3, .completion_tokens = n_tokens},
        {}, nullptr);
  }

  Loop loop;
  WorkerPool workers{loop, 4};
  ManualClock clock;
  FakePrompts prompts;
  ModelSpec spec;
  FakeEngine engine;
  std::vector<RequestRow> rows;
  ApiHandler api;
};

}  // namespace hs::test
