#include "engine/scheduler.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace hs {

Scheduler::Scheduler(const SchedulerConfig& config)
    : config_(config),
      pool_(config.n_blocks, config.block_size, config.prefix_cache),
      slots_(config.embedding_rows) {
  HS_CHECK_GT(config_.max_model_len, 0);
  HS_CHECK_GT(config_.max_num_seqs, 0);
  HS_CHECK_GT(config_.max_num_batched_tokens, 0);
  HS_CHECK_GT(config_.max_encode_images, 0);
  limit_steps(config_.max_num_batched_tokens, config_.max_num_seqs);
  block_tokens_.resize(static_cast<size_t>(config_.block_size));
}

// ---- arrival

// The last token is never written to the cache, but the limit of the pool is kept simple: all
// tokens fit in it.
int32_t Scheduler::context_limit() const {
  const int64_t pool_tokens = int64_t{config_.n_blocks} * config_.block_size;
  return static_cast<int32_t>(std::min<int64_t>(config_.max_model_len, pool_tokens));
}

int32_t Scheduler::blocks_for(int32_t n_tokens) const {
  return (n_tokens + config_.block_size - 1) / config_.block_size;
}

Status Scheduler::check_fits(int64_t n_prompt, std::span<const PromptImage> images) const {
  const int32_t limit = context_limit();
  // At least one token has to fit behind the prompt.
  if (n_prompt + 1 > limit) {
    const std::string_view what = limit < config_.max_model_len
                                      ? "the KV cache of this server holds"
                                      : "this model's maximum context length is";
    return fail(ErrorKind::kTooLarge,
                fmt::format("The prompt has {} tokens, but {} {} tokens and at least one is needed "
                            "for the answer.",
                            n_prompt, what, limit),
                "context_length_exceeded");
  }
  const int64_t rows_max = std::min(config_.embedding_rows, config_.max_encode_rows);
  for (const PromptImage& image : images) {
    if (image.key.n_rows > rows_max) {
      return fail(ErrorKind::kTooLarge,
                  fmt::format("A picture takes {} tokens, but this server has room for {}.",
                              image.key.n_rows, rows_max),
                  "image_too_large");
    }
  }
  return {};
}

Result<int32_t> Scheduler::arrived(NewRequest request) {
  HS_CHECK(!request.prompt.empty());
  HS_CHECK_GT(request.n_choices, 0);
  HS_CHECK_GT(request.max_tokens, 0);
  HS_CHECK(!requests_.contains(request.id));
  if (Status status = check_fits(std::ssize(request.prompt), request.images); !status) {
    return std::unexpected(status.error());
  }

  auto state = std::make_unique<RequestState>();
  state->id = request.id;
  state->arrival = request.arrival;
  constexpr PrefixNode kSaltedRoot = PrefixNode{1} << 63;  // no published block has such a number
  if (request.cache_salt != 0) state->prefix_root = request.cache_salt | kSaltedRoot;
  state->reads_cache = request.reads_cache;
  state->prompt = std::move(request.prompt);
  state->images = std::move(request.images);
  state->max_tokens = std::min(request.max_tokens, context_limit() - state->n_prompt());
  state->n_unfinished = request.n_choices;
  state->choices.resize(static_cast<size_t>(request.n_choices));
  int32_t choice = 0;
  for (Sequence& sequence : state->choices) {
    sequence.request = state.get();
    sequence.choice = choice++;
    sequence.node = state->prefix_root;
  }
  Sequence& first = state->choices.front();
  first.state = SequenceState::kWaiting;
  state->cached_hint = cached_prefix(first, false);
  insert_sorted(waiting_, first);
  insert_by_arrival(*state);
  // It may find slots; nobody else has anything new to find.
  if (!links_stale_ && !state->images.empty()) link_slots(*state);
  ++n_unstarted_;
  const int32_t max_tokens = state->max_tokens;
  requests_.emplace(request.id, std::move(state));
  return max_tokens;
}

void Scheduler::insert_by_arrival(RequestState& request) {
  const auto after = std::ranges::upper_bound(by_arrival_, request.arrival, {},
                                              [](const RequestState* r) { return r->arrival; });
  by_arrival_.insert(after, &request);
}

const RequestState* Scheduler::request(RequestId id) const {
  const auto it = requests_.find(id);
  return it == requests_.end() ? nullptr : it->second.get();
}

void Scheduler::insert_sorted(std::vector<Sequence*>& list, Sequence& sequence) {
  const auto after = std::ranges::upper_bound(
      list, &sequence, [](const Sequence* a, const Sequence* b) { return before(*a, *b); });
  list.insert(after, &sequence);
}

// All three are in order: a queue of thousands is not walked for each client that leaves.
void Scheduler::remove_from_lists(const RequestState& request) {
  const auto of_request = [](const RequestState* r) { return r->arrival; };
  const auto of_sequence = [](const Sequence* s) { return s->request->arrival; };
  const auto all = std::ranges::equal_range(by_arrival_, request.arrival, {}, of_request);
  by_arrival_.erase(all.begin(), all.end());
  for (std::vector<Sequence*>* list : {&waiting_, &running_}) {
    const auto its = std::ranges::equal_range(*list, request.arrival, {}, of_sequence);
    list->erase(its.begin(), its.end());
  }
}

// ---- blocks and the prefix cache

// Leaves the content of a block in block_tokens_ and block_images_. REQUIRES: all its tokens are
// known.
void Scheduler::gather_block(const Sequence& sequence, int32_t block) {
  const int32_t begin = block * config_.block_size;
  const int32_t end = begin + config_.block_size;
  for (int32_t i = begin; i < end; ++i) {
    block_tokens_[static_cast<size_t>(i - begin)] = sequence.token(i);
  }
  block_images_.clear();
  for (const PromptImage& image : sequence.request->images) {
    if (image.end() <= begin) continue;
    if (image.first >= end) break;
    const int32_t first = std::max(begin, image.first);
    block_images_.push_back({.content_hash = {image.key.content_hash[0], image.key.content_hash[1]},
                             .offset = first - begin,
                             .count = std::min(end, image.end()) - first,
                             .first_row = first - image.first});
  }
}

// Takes the next block of the sequence from the prefix cache. At least one token always remains to
// be run, since the next token is sampled from it.
bool Scheduler::adopt_cached_block(Sequence& sequence) {
  const int32_t block = sequence.n_computed / config_.block_size;
  if (!config_.prefix_cache || !sequence.request->reads_cache ||
      sequence.remaining() <= config_.block_size || sequence.n_published != block ||
      sequence.n_computed != block * config_.block_size ||
      sequence.blocks.size() != static_cast<size_t>(block)) {
    return false;
  }
  gather_block(sequence, block);
  const BlockPool::Found found = pool_.find(sequence.node, block_tokens_, block_images_);
  if (found.block == kNoBlock) return false;
  pool_.add_ref(found.block);
  sequence.blocks.push_back(found.block);
  sequence.n_computed += config_.block_size;
  ++sequence.n_published;
  sequence.node = found.node;
  RequestState& request = *sequence.request;
  if (sequence.choice == 0 && !sequence.preempted) {
    request.cached_tokens += config_.block_size;
    counters_.prefix_hits += config_.block_size;
  }
  return true;
}

// Leading tokens of a sequence without blocks that the prefix cache has now; held_only: in blocks
// that somebody holds, so that taking them costs no block.
int32_t Scheduler::cached_prefix(const Sequence& sequence, bool held_only) {
  if (!config_.prefix_cache || !sequence.request->reads_cache) return 0;
  const int32_t n_blocks = (sequence.n_tokens() - 1) / config_.block_size;
  PrefixNode node = sequence.request->prefix_root;
  int32_t block = 0;
  for (; block < n_blocks; ++block) {
    gather_block(sequence, block);
    const BlockPool::Found found = pool_.find(node, block_tokens_, block_images_);
    if (found.block == kNoBlock || (held_only && pool_.ref_count(found.block) == 0)) break;
    node = found.node;
  }
  return block * config_.block_size;
}

void Scheduler::publish_blocks(Sequence& sequence) {
  if (!config_.prefix_cache) return;
  const int32_t n_full = sequence.n_computed / config_.block_size;
  for (; sequence.n_published < n_full; ++sequence.n_published) {
    gather_block(sequence, sequence.n_published);
    const BlockId block = sequence.blocks[static_cast<size_t>(sequence.n_published)];
    sequence.node = pool_.publish(block, sequence.node, block_tokens_, block_images_);
  }
}

// The last block goes first, so that the tail of a cached prefix is evicted before its start.
void Scheduler::release_blocks(Sequence& sequence) {
  for (auto it = sequence.blocks.rbegin(); it != sequence.blocks.rend(); ++it) pool_.release(*it);
  sequence.blocks.clear();
  sequence.n_computed = 0;
  sequence.n_published = 0;
  sequence.node = sequence.request->prefix_root;
}

// The prompt has been run: the further choices start from its full blocks.
void Scheduler::fork_choices(RequestState& request) {
  const Sequence& first = request.choices.front();
  links_stale_ = true;
  const int32_t n_shared = request.fork_point(config_.block_size) / config_.block_size;
  for (Sequence& sequence : request.choices) {
    if (sequence.state != SequenceState::kUnstarted) continue;
    for (int32_t i = 0; i < n_shared; ++i) {
      const BlockId block = first.blocks[static_cast<size_t>(i)];
      pool_.add_ref(block);
      sequence.blocks.push_back(block);
    }
    sequence.n_computed = n_shared * config_.block_size;
    sequence.state = SequenceState::kRunning;
    insert_sorted(running_, sequence);
    // Nothing is published yet for this sequence; it walks the tree along the shared blocks, which
    // are in it.
    publish_blocks(sequence);
  }
}

// ---- a step's end

void Scheduler::complete_item(const StepOrder::Item& item, int32_t token) {
  RequestState& request = *item.sequence->request;
  Sequence& sequence = request.choices[static_cast<size_t>(item.sequence->choice)];
  sequence.in_flight = false;
  if (request.cancelled) return;
  sequence.n_computed += item.count;
  if (item.sample && token < 0) {
    for (const BlockId block : sequence.blocks) pool_.unpublish(block);
    return;
  }
  publish_blocks(sequence);
  if (item.sample) sequence.outputs.push_back(token);
  if (sequence.choice == 0 && request.choices.size() > 1 &&
      sequence.n_computed >= request.n_prompt()) {
    fork_choices(request);
  }
  if (!request.images.empty()) drop_passed_slots(request);
}

void Scheduler::step_done(std::span<const int32_t> tokens) {
  HS_CHECK(step_in_flight_);
  step_in_flight_ = false;
  size_t n_sampled = 0;
  for (const StepOrder::Item& item : step_) {
    int32_t token = 0;
    if (item.sample) {
      HS_CHECK_LT(n_sampled, tokens.size());
      token = tokens[n_sampled++];
    }
    complete_item(item, token);
  }
  HS_CHECK_EQ(n_sampled, tokens.size());
  reap_cancelled();
}

void Scheduler::step_failed() {
  HS_CHECK(step_in_flight_);
  step_in_flight_ = false;
  for (const StepOrder::Item& item : step_) {
    RequestState& request = *item.sequence->request;
    request.choices[static_cast<size_t>(item.sequence->choice)].in_flight = false;
  }
  reap_cancelled();
}

// ---- ends

bool Scheduler::in_flight(const RequestState& request) {
  return std::ranges::any_of(request.choices, &Sequence::in_flight);
}

void Scheduler::finish(RequestId id, int32_t choice) {
  RequestState& request = *requests_.at(id);
  Sequence& sequence = request.choices.at(static_cast<size_t>(choice));
  HS_CHECK(sequence.state == SequenceState::kRunning);
  HS_CHECK(!sequence.in_flight);
  std::erase(running_, &sequence);
  release_blocks(sequence);
  sequence.state = SequenceState::kFinished;
  if (--request.n_unfinished == 0) {
    end_request(request);
    std::erase(by_arrival_, &request);
    requests_.erase(id);
  } else {
    drop_passed_slots(request);
  }
}

void Scheduler::cancel(RequestId id) {
  const auto it = requests_.find(id);
  if (it == requests_.end() || it->second->cancelled) return;
  RequestState& request = *it->second;
  request.cancelled = true;
  remove_from_lists(request);
  if (in_flight(request)) {
    ++n_cancelled_;
    return;
  }
  end_request(request);
  requests_.erase(it);
}

// Gives back everything the request holds. REQUIRES: no lane works on it.
void Scheduler::end_request(RequestState& request) {
  for (Sequence& sequence : request.choices) release_blocks(sequence);
  drop_slots(request);
  if (!request.started) --n_unstarted_;
}

void Scheduler::reap_cancelled() {
  if (n_cancelled_ == 0) return;
  std::erase_if(requests_, [&](const auto& entry) {
    RequestState& request = *entry.second;
    if (!request.cancelled || in_flight(request)) return false;
    end_request(request);
    --n_cancelled_;
    return true;
  });
}

}  // namespace hs
