// The engine: requests in, tokens and text out. Knows no libuv, JSON, SQLite or HTTP.
//
// Owned and called by one thread (the loop's). Lane threads run the devices and post completions;
// they call `wake` (any thread), after which the owner calls poll() on its own thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/timeline.h"
#include "engine/topology.h"
#include "grammar/grammar.h"
#include "model/model.h"

namespace hs {

// A request that is cancelled or fails ends with an error instead.
enum class FinishReason { kStop, kLength };

struct GenerateRequest {
  Prompt prompt;
  int32_t max_tokens =
      0;  // per choice; clamped to what the context leaves; 0 = finish at once with kLength
  int32_t n_choices = 1;
  float temperature = 1.0F;
  float top_p = 1.0F;
  float min_p = 0.0F;
  int32_t top_k = 0;
  float repetition_penalty = 1.0F;  // these three as in kernels/sampling.h, over prompt and output
  float frequency_penalty = 0.0F;
  float presence_penalty = 0.0F;
  uint64_t seed = 0;        // the caller draws one when the client gave none
  int32_t n_logprobs = -1;  // -1 none, 0 chosen only, up to kMaxTopLogprobs
  bool ignore_eos = false;
  bool skip_special_tokens = true;
  bool continues_text =
      false;  // the output goes on with the prompt's text: its leading space stays (completions)
  std::vector<std::string> stops;  // none empty
  std::vector<int32_t> stop_token_ids;
  bool include_stop = false;          // the stop string, or the text of a stop token, ends the text
  int32_t min_tokens = 0;             // before so many no stop counts, and no end token is sampled
  std::vector<TokenBias> logit_bias;  // each id once
  std::vector<int32_t> allowed_token_ids;       // only these are sampled; empty: all
  std::shared_ptr<Grammar> grammar;             // the text stays inside it; null: any text
  std::vector<std::vector<int32_t>> bad_words;  // token sequences, none empty: never completed
  int32_t priority = 0;                         // lower goes first; within kPriorityMax of 0
  uint64_t tenant = 0;      // on whose behalf: tenants take turns within a priority
  uint64_t cache_salt = 0;  // only requests with the same one share cached prompts and pictures
  int32_t n_prompt_logprobs = -1;  // as n_logprobs, of the prompt's tokens
  bool only_prompt = false;  // ends, with kLength, once the prompt is scored: no token is told
};

struct TokenLogprob {
  int32_t id = 0;
  float logprob = 0;
  std::vector<std::pair<int32_t, float>> top;
};

// Microseconds spent in each stage, for the log, metrics and `timings`. -1 = did not happen.
struct RequestTimings {
  int64_t queue_us = -1;        // submitted -> first work on it
  int64_t encode_us = -1;       // vision tower
  int64_t transfer_us = -1;     // embeddings to the language device
  int64_t prefill_us = -1;      // first prefill chunk -> first token
  int64_t first_token_us = -1;  // submitted -> first token
  int64_t decode_us = -1;       // first token -> last token
  int64_t total_us = -1;        // submitted -> finished
  int64_t transfer_bytes = 0;   // of embeddings, between devices
  int64_t kv_transfer_us = -1;  // its keys and values from a prefill to a decode unit
  int64_t kv_transfer_bytes = 0;
  std::string_view transfer_path = {};  // "peer", "staged"; "" when nothing was transferred
  bool stolen = false;                  // finished on a thief
};

struct RequestUsage {
  int32_t prompt_tokens = 0;
  int32_t image_tokens = 0;       // of the prompt
  int32_t cached_tokens = 0;      // of the prompt, found in the prefix cache
  int32_t completion_tokens = 0;  // over all choices
};

// Where a request's results go; called on the owner's thread from poll(). May call Engine::cancel.
class RequestSink {
 public:
  virtual ~RequestSink() = default;
  // How many tokens of the prompt were found in the prefix cache; before the first token's text,
  // and only if there were any.
  virtual void on_prompt_cached(int32_t /*n_tokens*/) {}
  // Of the prompt's tokens but the first, which follows nothing; before the first token's text, and
  // only if asked for.
  virtual void on_prompt_logprobs(std::vector<TokenLogprob> /*logprobs*/) {}
  // New text of one choice (may be empty when only logprobs or a finish came; there is always a
  // last call before the finish, so that n_tokens is final). A token that ends the choice by its id
  // is counted, but has neither text nor logprob. Token logprobs belong to the tokens that became
  // certain with this text, in order. n_tokens: completion tokens of this choice so far.
  virtual void on_text(int32_t choice, std::string_view text, std::vector<TokenLogprob> logprobs,
                       int32_t n_tokens) = 0;
  // One choice is complete. `stop`: the stop string or "" ; after it no more on_text for the
  // choice.
  virtual void on_choice_finished(int32_t choice, FinishReason reason, std::string_view stop) = 0;
  // Everything is complete or failed (then `error` is set and choices may be unfinished). Last
  // call; the engine drops the sink.
  virtual void on_done(const RequestUsage& usage, const RequestTimings& timings,
                       const Error* error) = 0;
};

struct EngineConfig {
  int32_t max_model_len = 0;             // <= the model's; 0 = the model's
  int32_t max_num_seqs = 64;             // sequences in one step
  int32_t max_num_batched_tokens = 512;  // token budget of a step
  int32_t kv_blocks = 0;                 // blocks of the pool, > 0
  int32_t max_queue = 256;  // requests waiting; beyond it submit() is kResourceExhausted
  int32_t max_encode_images = 4;
  int32_t embedding_cache_rows = 8192;  // image embedding rows kept for re-use and in flight
  bool prefix_cache = true;
  bool overlap = true;  // as SchedulerConfig's
  StealMode steal = StealMode::kAuto;
  int64_t steal_delay_us = 50'000;     // a picture waits for stolen work at most so long
  int64_t steal_pause_us = 2'000'000;  // a stolen request waits for pictures at most so long
};

// What a device's lane has done. Counters only grow.
struct LaneStats {
  std::string device;  // "cpu:0"
  bool lost = false;
  int64_t encode_us = 0;  // busy with each kind of work
  int64_t transfer_us = 0;
  int64_t step_us = 0;
  int64_t stolen_us = 0;       // of step_us
  int64_t busy_since_us = -1;  // when its order in execution began, by the engine's clock; -1: none
};

// A snapshot for metrics and the dashboard. Counters only grow.
struct EngineStats {
  int32_t running = 0;          // requests with a sequence in the batch
  int32_t waiting = 0;          // requests with none
  int32_t waiting_tenants = 0;  // tenants with a request that was never let into the batch
  int32_t kv_blocks_used = 0;
  int32_t kv_blocks_total = 0;
  int64_t prompt_tokens = 0;
  int64_t generation_tokens = 0;
  int64_t preemptions = 0;
  int64_t prefix_queries = 0;  // tokens
  int64_t prefix_hits = 0;
  int64_t image_cache_queries = 0;  // pictures
  int64_t image_cache_hits = 0;
  int64_t images_encoded = 0;
  int64_t steps = 0;
  int64_t step_tokens = 0;
  int64_t encode_failures = 0;      // encode or transfer orders that a device failed
  int64_t step_failures = 0;        // steps that a device failed
  int64_t non_finite_images = 0;    // pictures with a NaN or infinity among their embeddings
  int64_t non_finite_requests = 0;  // requests with a NaN or infinity among their logits
  int64_t steals = 0;               // requests that thieves took
  int64_t steal_returns = 0;        // stolen requests that went back
  int64_t handoffs = 0;             // requests that a decode unit went on with
  int64_t rehomed = 0;              // requests that went on elsewhere when a device was lost
  int64_t transfers = 0;            // of embeddings, between devices
  int64_t transfer_bytes = 0;
  int64_t kv_transfers = 0;  // requests handed over with their keys and values
  int64_t kv_transfer_bytes = 0;
  int64_t all_reduce_bytes = 0;  // read by ranks of shared models from the others, broadcasts too
  int64_t transfer_retries = 0;  // copies repeated by another path
  bool degraded = false;         // a device is lost
  bool serving = true;           // some unit takes requests
  std::vector<LaneStats> lanes;
};

class Engine {
 public:
  // `model`, what `topology` points to, and `clock` must outlive the engine. `wake` (any thread,
  // must not call the engine) says that poll() has something to do: it comes from lanes, and from
  // submit() and cancel() themselves. Allocates the KV caches and the embedding memory, and tries
  // the links between devices; no device memory is allocated after this returns. Each device has
  // one lane, which does one thing at a time. Errors: kInvalidArgument naming the field of
  // `config`, and what the devices say.
  static Result<std::unique_ptr<Engine>> create(const Model& model, const EngineTopology& topology,
                                                const EngineConfig& config, const Clock& clock,
                                                std::function<void()> wake);
  // Waits for the lanes' orders in execution; sinks of unfinished requests are dropped without a
  // call.
  virtual ~Engine() = default;

  // Refuses at once what can never fit (context_length_exceeded with both counts) and what the
  // queue has no room for.
  virtual Result<RequestId> submit(GenerateRequest request, std::shared_ptr<RequestSink> sink) = 0;
  // Takes effect before the next step; the sink gets on_done with kCancelled from a later poll().
  // Unknown ids (already done) are ignored.
  virtual void cancel(RequestId id) = 0;
  // Takes completions and hands out new work. Never blocks.
  virtual void poll() = 0;
  virtual EngineStats stats() const = 0;
  // The last orders of each lane, for a picture of what ran when.
  virtual std::vector<LaneTimeline> timeline() const = 0;
  // One line a link between devices: which path it takes and why.
  virtual std::vector<std::string> links() const = 0;
  // No request is queued, running or in a lane.
  virtual bool idle() const = 0;
  virtual const EngineConfig& config() const = 0;
};

}  // namespace hs
