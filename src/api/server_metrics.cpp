#include "api/server_metrics.h"

#include <chrono>

#include "api/process_stats.h"

namespace hs {
namespace {

// vLLM's buckets, so that its dashboards show the same curves.
constexpr double kFirstTokenBuckets[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                         0.25,  0.5,   0.75, 1,    2.5,  5,    7.5,  10,
                                         20,    40,    80,   160,  640,  2560};
constexpr double kTokenGapBuckets[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1,
                                       0.15,  0.2,    0.3,   0.4,  0.5,   0.75, 1,     2.5,
                                       5,     7.5,    10,    20,   40,    80};
constexpr double kRequestBuckets[] = {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                      30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};
constexpr double kTokenCountBuckets[] = {1,   2,    5,    10,   20,    50,    100,   200,
                                         500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};
constexpr double kChoiceBuckets[] = {1, 2, 5, 10, 20};
constexpr double kStageBuckets[] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                    0.25,   0.5,   1,      2.5,   5,    10,    30};
constexpr double kHttpBuckets[] = {0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300};

double seconds(int64_t us) {
  return static_cast<double>(us) * 1e-6;
}

void observe_us(Histogram& histogram, int64_t us) {
  if (us >= 0) histogram.observe(seconds(us));
}

void number(MetricsText& out, std::string_view name, std::string_view type, std::string_view help,
            auto value) {
  out.value(name, type, help, static_cast<double>(value));
}

void histogram(MetricsText& out, std::string_view name, std::string_view help,
               const Histogram& values) {
  out.family(name, "histogram", help);
  out.histogram(values);
}

}  // namespace

ServerMetrics::ServerMetrics()
    : first_token_s_(kFirstTokenBuckets),
      gap_s_(kTokenGapBuckets),
      per_token_s_(kTokenGapBuckets),
      total_s_(kRequestBuckets),
      queue_s_(kRequestBuckets),
      inference_s_(kRequestBuckets),
      prefill_s_(kRequestBuckets),
      decode_s_(kRequestBuckets),
      prompt_tokens_(kTokenCountBuckets),
      generation_tokens_(kTokenCountBuckets),
      max_tokens_(kTokenCountBuckets),
      n_choices_(kChoiceBuckets),
      encode_s_(kStageBuckets),
      transfer_s_(kStageBuckets),
      kv_transfer_s_(kStageBuckets),
      image_decode_s_(kStageBuckets),
      image_fetch_s_(kStageBuckets),
      start_unix_s_(
          std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
              .count()) {
  for (const char* reason : {"stop", "length", "abort", "error"}) finished_[reason] = 0;
  for (const char* outcome : {"ok", "refused", "failed", "too_large", "cancelled"})
    fetched_[outcome] = 0;
}

void ServerMetrics::on_http(std::string_view method, std::string_view handler, int status,
                            double duration_s) {
  ++http_requests_[{std::string(handler), std::string(method), status}];
  http_seconds_.try_emplace(std::string(handler), kHttpBuckets).first->second.observe(duration_s);
}

void ServerMetrics::on_request_done(const RequestOutcome& outcome) {
  ++finished_[std::string(outcome.finished_reason)];
  const RequestTimings& timings = outcome.timings;
  observe_us(total_s_, timings.total_us);
  observe_us(queue_s_, timings.queue_us);
  observe_us(prefill_s_, timings.prefill_us);
  observe_us(decode_s_, timings.decode_us);
  observe_us(first_token_s_, timings.first_token_us);
  observe_us(encode_s_, timings.encode_us);
  observe_us(transfer_s_, timings.transfer_us);
  observe_us(kv_transfer_s_, timings.kv_transfer_us);
  if (timings.prefill_us >= 0 && timings.decode_us >= 0)
    inference_s_.observe(seconds(timings.prefill_us + timings.decode_us));
  const int64_t later_tokens = outcome.usage.completion_tokens / outcome.n_choices - 1;
  if (timings.decode_us >= 0 && later_tokens > 0)
    per_token_s_.observe(seconds(timings.decode_us) / static_cast<double>(later_tokens));
  prompt_tokens_.observe(outcome.usage.prompt_tokens);
  generation_tokens_.observe(outcome.usage.completion_tokens);
  n_choices_.observe(outcome.n_choices);
  if (outcome.max_tokens > 0) max_tokens_.observe(outcome.max_tokens);
}

void ServerMetrics::on_tokens(double gap_s, int64_t n_tokens) {
  if (n_tokens > 0)
    gap_s_.observe(gap_s / static_cast<double>(n_tokens), static_cast<uint64_t>(n_tokens));
}

void ServerMetrics::on_images(int64_t n_images, int64_t pixels, double decode_s) {
  if (n_images == 0) return;
  images_ += n_images;
  pixels_ += pixels;
  image_decode_s_.observe(decode_s / static_cast<double>(n_images),
                          static_cast<uint64_t>(n_images));
}

void ServerMetrics::on_fetched_image(std::string_view outcome, int64_t bytes) {
  ++fetched_[std::string(outcome)];
  fetched_bytes_ += bytes;
}

std::string ServerMetrics::text(const Scrape& scrape) const {
  MetricsText out({{"model_name", scrape.model_name}, {"engine", "0"}});
  engine_text(out, scrape);
  request_text(out);
  own_text(out, scrape);
  tiers_text(out, scrape.engine);
  http_text(out);
  return out.take();
}

void ServerMetrics::engine_text(MetricsText& out, const Scrape& scrape) const {
  const EngineStats& engine = scrape.engine;
  number(out, "vllm:num_requests_running", "gauge", "Requests in the running batch.",
         engine.running);
  number(out, "vllm:num_requests_waiting", "gauge", "Requests waiting for their first step.",
         engine.waiting + scrape.preparing);
  number(out, "vllm:kv_cache_usage_perc", "gauge", "Used part of the KV cache, 0 to 1.",
         engine.kv_blocks_total == 0 ? 0.0
                                     : static_cast<double>(engine.kv_blocks_used) /
                                           static_cast<double>(engine.kv_blocks_total));
  number(out, "vllm:prompt_tokens_total", "counter", "Prompt tokens processed.",
         engine.prompt_tokens);
  number(out, "vllm:generation_tokens_total", "counter", "Tokens generated.",
         engine.generation_tokens);
  number(out, "vllm:num_preemptions_total", "counter", "Sequences that gave up their blocks.",
         engine.preemptions);
  number(out, "vllm:prefix_cache_queries_total", "counter",
         "Prompt tokens looked up in the prefix cache.", engine.prefix_queries);
  number(out, "vllm:prefix_cache_hits_total", "counter", "Prompt tokens found in the prefix cache.",
         engine.prefix_hits);
  number(out, "vllm:mm_cache_queries_total", "counter",
         "Pictures looked up in the embedding cache.", engine.image_cache_queries);
  number(out, "vllm:mm_cache_hits_total", "counter", "Pictures found in the embedding cache.",
         engine.image_cache_hits);
}

void ServerMetrics::request_text(MetricsText& out) const {
  out.family("vllm:request_success_total", "counter", "Requests by the way they ended.");
  for (const auto& [reason, count] : finished_)
    out.sample(static_cast<double>(count), {{"finished_reason", reason}});
  histogram(out, "vllm:time_to_first_token_seconds", "Submission to first token.", first_token_s_);
  histogram(out, "vllm:inter_token_latency_seconds", "Gap between tokens of one choice.", gap_s_);
  histogram(out, "vllm:request_time_per_output_token_seconds",
            "Mean gap between a request's tokens.", per_token_s_);
  histogram(out, "vllm:e2e_request_latency_seconds", "Submission to last token.", total_s_);
  histogram(out, "vllm:request_queue_time_seconds", "Submission to first work.", queue_s_);
  histogram(out, "vllm:request_inference_time_seconds", "First prefill chunk to last token.",
            inference_s_);
  histogram(out, "vllm:request_prefill_time_seconds", "First prefill chunk to first token.",
            prefill_s_);
  histogram(out, "vllm:request_decode_time_seconds", "First to last token.", decode_s_);
  histogram(out, "vllm:request_prompt_tokens", "Prompt tokens of a request.", prompt_tokens_);
  histogram(out, "vllm:request_generation_tokens", "Completion tokens of a request.",
            generation_tokens_);
  histogram(out, "vllm:request_params_max_tokens", "Maximum of tokens a request asked for.",
            max_tokens_);
  histogram(out, "vllm:request_params_n", "Choices a request asked for.", n_choices_);
}

void ServerMetrics::own_text(MetricsText& out, const Scrape& scrape) const {
  const EngineStats& engine = scrape.engine;
  number(out, "heteroserve_ready", "gauge", "1 when the model is loaded and requests are taken.",
         scrape.ready);
  number(out, "heteroserve_model_load_seconds", "gauge", "Time the model took to load.",
         scrape.model_load_s);
  number(out, "heteroserve_requests_preparing", "gauge",
         "Chat requests that wait for a worker or have one.", scrape.preparing);
  number(out, "heteroserve_held_body_bytes", "gauge",
         "Complete bodies that wait for a worker or have one.", scrape.held_body_bytes);
  number(out, "heteroserve_held_pixel_bytes", "gauge", "Prepared pictures of unfinished requests.",
         scrape.pixel_bytes);
  number(out, "heteroserve_connections", "gauge",
         "Connections of clients, the one that asks included.", scrape.n_connections);
  number(out, "heteroserve_waiting_keys", "gauge",
         "API keys with a request that waits for its turn in the batch.", engine.waiting_tenants);
  number(out, "heteroserve_requests_refused_total", "counter", "Requests answered with 503.",
         refused_);
  number(out, "heteroserve_unknown_fields_total", "counter", "Request fields that nothing reads.",
         unknown_fields_);
  number(out, "heteroserve_images_total", "counter", "Pictures decoded.", images_);
  number(out, "heteroserve_image_pixels_total", "counter", "Pixels of decoded pictures.", pixels_);
  number(out, "heteroserve_images_encoded_total", "counter", "Pictures through the vision tower.",
         engine.images_encoded);
  histogram(out, "heteroserve_image_decode_seconds", "Decoding and resizing one picture.",
            image_decode_s_);
  out.family("heteroserve_image_fetches_total", "counter",
             "Pictures that requests named by URL, by what became of them.");
  for (const auto& [outcome, count] : fetched_)
    out.sample(static_cast<double>(count), {{"outcome", outcome}});
  number(out, "heteroserve_image_fetch_bytes_total", "counter", "Bytes of fetched pictures.",
         fetched_bytes_);
  histogram(out, "heteroserve_image_fetch_seconds",
            "Fetching the pictures of a request, the wait for a place included.", image_fetch_s_);
  histogram(out, "heteroserve_vision_encode_seconds", "Vision tower time of a request.", encode_s_);
  number(out, "heteroserve_steps_total", "counter", "Steps of the language model.", engine.steps);
  number(out, "heteroserve_step_tokens_total", "counter", "Tokens over all steps.",
         engine.step_tokens);
  out.family("heteroserve_engine_failures_total", "counter",
             "Orders that a device failed, by kind.");
  out.sample(static_cast<double>(engine.encode_failures), {{"kind", "encode"}});
  out.sample(static_cast<double>(engine.step_failures), {{"kind", "step"}});
  out.family("heteroserve_non_finite_total", "counter",
             "Results with a NaN or infinity: embeddings of pictures, logits of requests.");
  out.sample(static_cast<double>(engine.non_finite_images), {{"kind", "image"}});
  out.sample(static_cast<double>(engine.non_finite_requests), {{"kind", "request"}});
  number(out, "heteroserve_kv_blocks_used", "gauge", "KV blocks in use.", engine.kv_blocks_used);
  number(out, "heteroserve_kv_blocks", "gauge", "KV blocks of the pool.", engine.kv_blocks_total);
  number(out, "heteroserve_log_rows_dropped_total", "counter",
         "Request log rows that could not be written.", scrape.log_rows_dropped);
  if (scrape.lag != nullptr) {
    out.family("heteroserve_loop_lag_seconds", "histogram", "How late the event loop ran a timer.",
               false);
    out.histogram(LagHistogram::kUpperSeconds, scrape.lag->counts, scrape.lag->total,
                  scrape.lag->sum_seconds);
  }
  out.family("heteroserve_build_info", "gauge", "The program's version.", false);
  out.sample(1, {{"version", scrape.version}});
}

// Bytes and counts are the engine's: each copy counts once, also where several requests share it.
void ServerMetrics::tiers_text(MetricsText& out, const EngineStats& engine) const {
  const auto sample = [&out](int64_t value, const Labels& labels) {
    out.sample(static_cast<double>(value), labels);
  };
  histogram(out, "heteroserve_transfer_seconds", "Embedding transfer time of a request.",
            transfer_s_);
  histogram(out, "heteroserve_kv_transfer_seconds",
            "Time a request's keys and values took from one device to another.", kv_transfer_s_);
  out.family("heteroserve_transfers_total", "counter", "Copies between devices, by kind.");
  sample(engine.transfers, {{"kind", "embedding"}});
  sample(engine.kv_transfers, {{"kind", "kv"}});
  out.family("heteroserve_transfer_bytes_total", "counter", "Bytes moved between devices.");
  sample(engine.transfer_bytes, {{"kind", "embedding"}});
  sample(engine.kv_transfer_bytes, {{"kind", "kv"}});
  sample(engine.all_reduce_bytes, {{"kind", "collective"}});
  number(out, "heteroserve_transfer_retries_total", "counter",
         "Copies repeated by another path because what arrived was not what was sent.",
         engine.transfer_retries);
  number(out, "heteroserve_steals_total", "counter",
         "Requests that consumer devices took from datacenter devices.", engine.steals);
  number(out, "heteroserve_steal_returns_total", "counter",
         "Taken requests that went back because pictures kept them waiting.", engine.steal_returns);
  number(out, "heteroserve_handoffs_total", "counter",
         "Requests that went on to answer on another device than the one that ran their prompt.",
         engine.handoffs);
  number(out, "heteroserve_rehomed_total", "counter",
         "Requests that went on elsewhere because their device was lost.", engine.rehomed);
  out.family("heteroserve_lane_busy_seconds_total", "counter",
             "Time a device worked, by kind; stolen is language work of a consumer device.");
  for (const LaneStats& lane : engine.lanes) {
    const std::pair<std::string_view, int64_t> kinds[] = {
        {"encode", lane.encode_us},
        {"transfer", lane.transfer_us},
        {"language", lane.step_us - lane.stolen_us},
        {"stolen", lane.stolen_us}};
    for (const auto& [kind, us] : kinds)
      out.sample(seconds(us), {{"device", lane.device}, {"kind", kind}});
  }
  out.family("heteroserve_device_lost", "gauge", "1 when the device does not answer any more.");
  for (const LaneStats& lane : engine.lanes)
    out.sample(lane.lost ? 1 : 0, {{"device", lane.device}});
  number(out, "heteroserve_degraded", "gauge", "1 when a device is lost.", engine.degraded);
}

void ServerMetrics::http_text(MetricsText& out) const {
  out.family("http_requests_total", "counter", "Answers by handler, method and status.", false);
  for (const auto& [key, count] : http_requests_) {
    const auto& [handler, method, status] = key;
    out.sample(static_cast<double>(count),
               {{"handler", handler}, {"method", method}, {"status", std::to_string(status)}});
  }
  out.family("http_request_duration_seconds", "histogram",
             "First byte of the request to last of the answer.", false);
  for (const auto& [handler, values] : http_seconds_) out.histogram(values, {{"handler", handler}});
  const ProcessStats process = process_stats();
  out.value("process_cpu_seconds_total", "counter", "Processor time used.", process.cpu_seconds,
            false);
  out.value("process_resident_memory_bytes", "gauge", "Resident memory.",
            static_cast<double>(process.resident_bytes), false);
  out.value("process_open_fds", "gauge", "Open file descriptors.",
            static_cast<double>(process.open_files), false);
  out.value("process_start_time_seconds", "gauge", "Unix time of the start.", start_unix_s_, false);
}

}  // namespace hs
