// What /metrics shows: vLLM's names, so that existing dashboards work, and our own for what vLLM
// lacks. Loop thread only.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include "api/prometheus.h"
#include "engine/engine.h"
#include "loop/loop.h"

namespace hs {

// How one request ended, as far as metrics care.
struct RequestOutcome {
  RequestUsage usage;
  RequestTimings timings;
  int32_t n_choices = 1;
  int32_t max_tokens = 0;            // as asked; 0 = not
  std::string_view finished_reason;  // stop, length, abort, error
};

class ServerMetrics {
 public:
  ServerMetrics();

  void on_http(std::string_view method, std::string_view handler, int status, double seconds);
  void on_request_done(const RequestOutcome& outcome);
  // n_tokens tokens of one choice came gap_s after the ones before.
  void on_tokens(double gap_s, int64_t n_tokens);
  void on_images(int64_t n_images, int64_t pixels, double decode_s);
  // A picture by URL; outcome: ok, refused, failed, too_large or cancelled.
  void on_fetched_image(std::string_view outcome, int64_t bytes);
  // All pictures by URL of one request, together.
  void on_fetch(double seconds) { image_fetch_s_.observe(seconds); }
  void on_unknown_fields(int64_t n) { unknown_fields_ += n; }
  void on_refused() { ++refused_; }

  struct Scrape {
    std::string_view model_name;
    std::string_view version;
    EngineStats engine;
    int32_t preparing = 0;  // chat requests that wait for a worker or have one
    size_t held_body_bytes = 0;
    size_t pixel_bytes = 0;
    size_t n_connections = 0;
    bool ready = false;
    double model_load_s = 0;
    uint64_t log_rows_dropped = 0;
    const LagHistogram* lag = nullptr;  // may be null
  };
  std::string text(const Scrape& scrape) const;

 private:
  void engine_text(MetricsText& out, const Scrape& scrape) const;
  void request_text(MetricsText& out) const;
  void own_text(MetricsText& out, const Scrape& scrape) const;
  void tiers_text(MetricsText& out, const EngineStats& engine) const;
  void http_text(MetricsText& out) const;

  using HttpKey = std::tuple<std::string, std::string, int>;  // handler, method, status
  std::map<HttpKey, uint64_t> http_requests_;
  std::map<std::string, Histogram, std::less<>> http_seconds_;  // by handler
  std::map<std::string, uint64_t, std::less<>> finished_;       // by reason
  Histogram first_token_s_, gap_s_, per_token_s_;
  Histogram total_s_, queue_s_, inference_s_, prefill_s_, decode_s_;
  Histogram prompt_tokens_, generation_tokens_, max_tokens_, n_choices_;
  Histogram encode_s_, transfer_s_, kv_transfer_s_, image_decode_s_, image_fetch_s_;
  std::map<std::string, uint64_t, std::less<>> fetched_;  // pictures by outcome
  int64_t fetched_bytes_ = 0;
  int64_t images_ = 0;
  int64_t pixels_ = 0;
  int64_t unknown_fields_ = 0;
  int64_t refused_ = 0;
  double start_unix_s_ = 0;
};

}  // namespace hs
