// The scheduler's policy, shown by scripts of events and the orders that come back. No model, no
// thread, no time.
#include <fmt/format.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <map>
#include <random>
#include <set>

#include "engine/engine_fixture.h"
#include "engine/scheduler.h"

using namespace hs;

namespace {

SchedulerConfig config_of(int32_t n_blocks, int32_t budget) {
  return {.block_size = 4,
          .n_blocks = n_blocks,
          .max_model_len = 1000,
          .max_num_seqs = 8,
          .max_num_batched_tokens = budget,
          .max_encode_images = 2,
          .embedding_rows = 32,
          .max_encode_rows = 32};
}

PromptImage image_at(int32_t first, uint64_t picture, int32_t n_rows) {
  return {.first = first, .key = {.content_hash = {picture, 0}, .n_rows = n_rows}};
}

// Drives a scheduler and writes down what it orders.
struct Script {
  explicit Script(const SchedulerConfig& config) : scheduler(config) {}

  // Prompts of different ids share nothing.
  void arrive(RequestId id, int32_t n_prompt, std::vector<PromptImage> images = {},
              int32_t n_choices = 1, int32_t max_tokens = 100) {
    NewRequest request{.id = id,
                       .arrival = ++n_arrivals,
                       .prompt = {},
                       .images = std::move(images),
                       .n_choices = n_choices,
                       .max_tokens = max_tokens};
    for (int32_t i = 0; i < n_prompt; ++i) {
      request.prompt.push_back(static_cast<int32_t>(id) * 1000 + i);
    }
    BOOST_REQUIRE(scheduler.arrived(std::move(request)));
  }
  // "request.choice:first+count" of each item, "!" if it samples.
  std::string step() {
    if (!scheduler.next_step(order)) return "-";
    std::string text;
    for (const StepOrder::Item& item : order.items) {
      text += fmt::format("{}{}.{}:{}+{}{}", text.empty() ? "" : " ", item.sequence->request->id,
                          item.sequence->choice, item.first, item.count, item.sample ? "!" : "");
    }
    return text;
  }
  void step_done() {
    std::vector<int32_t> tokens;
    for (const StepOrder::Item& item : order.items) {
      if (item.sample) tokens.push_back(next_token++);
    }
    scheduler.step_done(tokens);
  }
  std::string run() {
    std::string text = step();
    if (text != "-") step_done();
    return text;
  }
  // "request/image@row" of each picture.
  std::string encode(int32_t buffer = -1) {
    encoding.buffer = buffer;
    if (!scheduler.next_encode(encoding)) return "-";
    std::string text;
    for (const EncodeOrder::Item& item : encoding.items) {
      text += fmt::format("{}{}/{}@{}", text.empty() ? "" : " ", item.request, item.image,
                          scheduler.slots().first_row(item.slot));
    }
    return text;
  }
  std::vector<RequestId> encode_done(std::vector<ImageOutcome> outcomes = {}) {
    outcomes.resize(encoding.items.size(), ImageOutcome::kOk);
    std::vector<RequestId> failed;
    scheduler.encode_done(encoding.id, outcomes, failed);
    return failed;
  }

  Scheduler scheduler;
  StepOrder order;
  EncodeOrder encoding;
  int32_t next_token = 100'000;
  uint64_t n_arrivals = 0;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(scheduler_tests)

BOOST_AUTO_TEST_CASE(decode_tokens_come_before_prefill_chunks) {
  Script script(config_of(100, 10));
  script.arrive(1, 4);
  BOOST_TEST(script.run() == "1.0:0+4!");
  script.arrive(2, 25);
  BOOST_TEST(script.run() == "1.0:4+1! 2.0:0+9");
  BOOST_TEST(script.run() == "1.0:5+1! 2.0:9+9");
  BOOST_TEST(script.run() == "1.0:6+1! 2.0:18+7!");
  BOOST_TEST(script.run() == "1.0:7+1! 2.0:25+1!");
}

// Class 0 goes before class 1, and takes the place of what runs where there is no other.
BOOST_AUTO_TEST_CASE(a_better_priority_goes_first_and_makes_others_give_way) {
  const uint64_t worse = uint64_t{1} << kArrivalBits;
  SchedulerConfig config = config_of(100, 100);
  config.max_num_seqs = 2;
  Script script(config);
  script.n_arrivals = worse;
  script.arrive(1, 4);
  script.arrive(2, 4);
  script.arrive(3, 4);
  BOOST_TEST(script.run() == "1.0:0+4! 2.0:0+4!");
  script.n_arrivals = 0;
  script.arrive(4, 5);
  BOOST_TEST(script.run() == "1.0:4+1! 2.0:4+1!");  // a step that is full has no room for anybody
  script.scheduler.finish(1, 0);
  BOOST_TEST(script.run() == "2.0:5+1! 4.0:0+5!");
  script.arrive(5, 3);
  BOOST_TEST(script.run() == "4.0:5+1! 2.0:6+1!");
  BOOST_TEST(script.scheduler.by_arrival().front()->id == 4U);
  BOOST_TEST(script.scheduler.by_arrival()[1]->id == 5U);
}

// A request of a better class waits for blocks that others hold, who wait for slots that it holds.
BOOST_AUTO_TEST_CASE(priorities_cannot_lock_each_other_out_of_blocks_and_slots) {
  const uint64_t worse = uint64_t{1} << kArrivalBits;
  SchedulerConfig config = config_of(8, 100);
  config.embedding_rows = 12;
  Script script(config);
  script.n_arrivals = worse;
  script.arrive(1, 20, {image_at(16, 7, 4)});
  BOOST_TEST(script.run() == "1.0:0+16");
  script.n_arrivals = 0;
  script.arrive(2, 24, {image_at(0, 1, 12)});
  int n_steps = 0;
  for (; n_steps < 100 && script.scheduler.n_requests() > 0; ++n_steps) {
    if (script.encode() != "-") script.encode_done();
    if (script.step() == "-") continue;
    script.step_done();
    for (const RequestId id : {2U, 1U}) {
      const RequestState* request = script.scheduler.request(id);
      if (request != nullptr && !request->choices[0].outputs.empty())
        script.scheduler.finish(id, 0);
    }
  }
  BOOST_TEST(script.scheduler.n_requests() == 0);
}

BOOST_AUTO_TEST_CASE(one_step_at_a_time) {
  Script script(config_of(100, 10));
  script.arrive(1, 4);
  BOOST_TEST(script.step() == "1.0:0+4!");
  BOOST_TEST(!script.scheduler.next_step(script.order));
}

BOOST_AUTO_TEST_CASE(a_step_holds_no_more_sequences_than_configured) {
  SchedulerConfig config = config_of(100, 100);
  config.max_num_seqs = 2;
  Script script(config);
  for (RequestId id = 1; id <= 3; ++id) script.arrive(id, 2);
  BOOST_TEST(script.run() == "1.0:0+2! 2.0:0+2!");
  script.scheduler.finish(1, 0);
  BOOST_TEST(script.run() == "2.0:2+1! 3.0:0+2!");
}

BOOST_AUTO_TEST_CASE(prefill_stops_at_a_picture_that_has_not_arrived) {
  Script script(config_of(100, 8));
  script.arrive(1, 30, {image_at(6, 1, 10), image_at(20, 2, 5)});
  BOOST_TEST(script.encode() == "1/0@0 1/1@10");
  BOOST_TEST(script.run() == "1.0:0+6");
  BOOST_TEST(script.run() == "-");
  script.encode_done();
  BOOST_TEST(script.run() == "1.0:6+8");   // ends inside the picture
  BOOST_TEST(script.run() == "1.0:14+8");  // and begins inside it
  BOOST_TEST(script.scheduler.slots().n_held() == 1);
  BOOST_TEST(script.run() == "1.0:22+8!");
  BOOST_TEST(script.scheduler.slots().n_held() == 0);
}

BOOST_AUTO_TEST_CASE(without_overlap_a_prompt_waits_for_all_its_pictures) {
  SchedulerConfig config = config_of(100, 100);
  config.overlap = false;
  Script script(config);
  script.arrive(1, 30, {image_at(6, 1, 10), image_at(20, 2, 5)});
  script.arrive(2, 4);
  BOOST_TEST(script.encode() == "1/0@0 1/1@10");
  BOOST_TEST(script.run() == "2.0:0+4!");  // who has no picture does not wait
  script.encode_done();
  BOOST_TEST(script.run() == "2.0:4+1! 1.0:0+30!");
}

BOOST_AUTO_TEST_CASE(pictures_are_encoded_in_order_of_arrival_and_each_once) {
  Script script(config_of(100, 8));
  script.arrive(1, 20, {image_at(1, 7, 8)});
  script.arrive(2, 20, {image_at(1, 7, 8)});
  script.arrive(3, 20, {image_at(1, 8, 8)});
  script.arrive(4, 20, {image_at(1, 9, 8)});
  BOOST_TEST(script.encode() == "1/0@0 3/0@8");
  BOOST_TEST(script.scheduler.next_picture() == 4);
  EncodeOrder of_another_tower;
  BOOST_REQUIRE(script.scheduler.next_encode(of_another_tower));
  BOOST_TEST(of_another_tower.items.front().request == 4);
  BOOST_TEST(script.scheduler.next_picture() == UINT64_MAX);
  BOOST_TEST(script.scheduler.request(2)->images[0].slot ==
             script.scheduler.request(1)->images[0].slot);
}

BOOST_AUTO_TEST_CASE(a_burst_of_pictures_queues_for_room) {
  Script script(config_of(100, 100));
  for (RequestId id = 1; id <= 4; ++id) script.arrive(id, 20, {image_at(1, id, 16)});
  BOOST_TEST(script.encode() == "1/0@0 2/0@16");
  script.encode_done();
  BOOST_TEST(script.encode() == "-");  // both are held
  BOOST_TEST(script.run() == "1.0:0+20! 2.0:0+20! 3.0:0+1 4.0:0+1");
  BOOST_TEST(script.encode() == "3/0@0 4/0@16");
}

BOOST_AUTO_TEST_CASE(an_older_request_takes_receive_slots_from_a_younger_one) {
  SchedulerConfig config = config_of(100, 12);
  config.max_encode_images = 1;
  Script script(config);
  script.arrive(1, 60, {image_at(0, 1, 16), image_at(20, 2, 20)});
  script.arrive(2, 20, {image_at(1, 3, 16)});
  BOOST_TEST(script.encode() == "1/0@0");
  script.encode_done();
  // No room for its second one yet, and none is taken while its own first one is needed.
  BOOST_TEST(script.encode() == "-");
  BOOST_TEST(script.run() == "1.0:0+12");
  BOOST_TEST(script.run() == "1.0:12+8 2.0:0+1");
  BOOST_TEST(script.encode() == "1/1@0");
}

BOOST_AUTO_TEST_CASE(a_failed_picture_names_those_who_wait_for_it) {
  Script script(config_of(100, 8));
  script.arrive(1, 20, {image_at(1, 7, 8)});
  script.arrive(2, 20, {image_at(1, 8, 8)});
  script.arrive(3, 20, {image_at(1, 7, 8)});
  script.encode();
  std::vector<RequestId> failed = script.encode_done({ImageOutcome::kFailed, ImageOutcome::kOk});
  std::ranges::sort(failed);
  BOOST_TEST((failed == std::vector<RequestId>{1, 3}));
  for (const RequestId id : failed) script.scheduler.cancel(id);
  BOOST_TEST(script.encode() == "-");
  BOOST_TEST(script.run() == "2.0:0+8");
  BOOST_TEST(script.scheduler.slots().n_slots() == 1);
}

BOOST_AUTO_TEST_CASE(between_two_devices_embeddings_are_transferred_before_they_arrive) {
  SchedulerConfig config = config_of(100, 50);
  config.max_encode_images = 1;
  Script script(config);
  for (RequestId id = 1; id <= 2; ++id) script.arrive(id, 10, {image_at(0, id, 8)});
  TransferOrder first;
  TransferOrder second;
  BOOST_TEST(script.encode(4) == "1/0@0");
  BOOST_TEST(!script.scheduler.next_transfer(first));
  script.encode_done();
  BOOST_REQUIRE(script.scheduler.next_transfer(first));
  BOOST_TEST(first.items[0].n_rows == 8);
  BOOST_TEST(script.encode(5) == "2/0@8");
  script.encode_done();
  BOOST_REQUIRE(script.scheduler.next_transfer(second));
  BOOST_TEST(first.buffer == 4);
  BOOST_TEST(second.buffer == 5);
  BOOST_TEST(script.run() == "-");
  std::vector<RequestId> failed;
  script.scheduler.transfer_done(std::vector{ImageOutcome::kOk}, failed);
  BOOST_TEST(script.run() == "1.0:0+10!");
  script.scheduler.transfer_done(std::vector{ImageOutcome::kFailed}, failed);
  BOOST_TEST((failed == std::vector<RequestId>{2}));
}

BOOST_AUTO_TEST_CASE(the_youngest_is_preempted_and_runs_all_its_tokens_again) {
  SchedulerConfig config = config_of(4, 100);
  config.prefix_cache = false;
  Script script(config);
  script.arrive(1, 4, {}, 1, 12);
  script.arrive(2, 3, {}, 1, 8);
  BOOST_TEST(script.run() == "1.0:0+4! 2.0:0+3!");
  BOOST_TEST(script.run() == "1.0:4+1! 2.0:3+1!");
  BOOST_TEST(script.run() == "1.0:5+1! 2.0:4+1!");
  for (int i = 6; i < 8; ++i) script.run();
  BOOST_TEST(script.run() == "1.0:8+1!");  // takes the blocks of 2
  BOOST_TEST(script.scheduler.counters().preemptions == 1);
  BOOST_TEST(script.scheduler.n_waiting() == 1);
  script.scheduler.finish(1, 0);
  BOOST_TEST(script.run() == "2.0:0+8!");
  BOOST_TEST(script.run() == "2.0:8+1!");
}

BOOST_AUTO_TEST_CASE(nobody_passes_the_head_of_the_queue) {
  Script script(config_of(6, 100));
  script.arrive(1, 8);
  BOOST_TEST(script.run() == "1.0:0+8!");
  script.arrive(2, 16);
  script.arrive(3, 1);
  BOOST_TEST(script.run() == "1.0:8+1!");  // 2 does not fit beside 1, and 3 waits behind it
  script.scheduler.finish(1, 0);
  BOOST_TEST(script.run() == "2.0:0+16! 3.0:0+1!");
}

BOOST_AUTO_TEST_CASE(further_choices_start_from_the_full_blocks_of_the_prompt) {
  Script script(config_of(100, 100));
  script.arrive(1, 10, {}, 3);
  BOOST_TEST(script.run() == "1.0:0+10!");
  BOOST_TEST(script.run() == "1.0:10+1! 1.1:8+2! 1.2:8+2!");
  const RequestState& request = *script.scheduler.request(1);
  BOOST_TEST(request.choices[1].blocks[1] == request.choices[0].blocks[1]);
  BOOST_TEST(request.choices[1].blocks[2] != request.choices[0].blocks[2]);
  for (int32_t choice = 0; choice < 3; ++choice) script.scheduler.finish(1, choice);
  BOOST_TEST(script.scheduler.pool().n_held() == 0);
  BOOST_TEST(script.scheduler.n_requests() == 0);
}

BOOST_AUTO_TEST_CASE(a_running_prompt_takes_blocks_that_were_published_since) {
  Script script(config_of(100, 8));
  NewRequest twin{.id = 1,
                  .arrival = 1,
                  .prompt = std::vector<int32_t>(17, 5),
                  .images = {},
                  .n_choices = 1,
                  .max_tokens = 5};
  BOOST_REQUIRE(script.scheduler.arrived(twin));
  twin.id = twin.arrival = 2;
  BOOST_REQUIRE(script.scheduler.arrived(twin));
  BOOST_TEST(script.run() == "1.0:0+8");
  BOOST_TEST(script.run() == "1.0:8+8");
  BOOST_TEST(script.run() == "1.0:16+1! 2.0:16+1!");
}

BOOST_AUTO_TEST_CASE(a_cancelled_request_in_a_step_keeps_its_blocks_until_the_step_is_done) {
  Script script(config_of(100, 100));
  script.arrive(1, 8);
  script.step();
  script.scheduler.cancel(1);
  script.scheduler.cancel(1);
  BOOST_TEST(script.scheduler.pool().n_held() == 2);
  BOOST_TEST(script.scheduler.n_requests() == 1);
  script.step_done();
  BOOST_TEST(script.scheduler.pool().n_held() == 0);
  BOOST_TEST(script.scheduler.n_requests() == 0);
}

BOOST_AUTO_TEST_CASE(what_a_bad_step_computed_is_not_used_again) {
  Script script(config_of(100, 100));
  script.arrive(1, 8);
  script.step();
  script.scheduler.step_done(std::vector<int32_t>{-1});
  script.scheduler.cancel(1);
  BOOST_TEST(script.scheduler.pool().n_cached() == 0);
  script.arrive(1, 8);
  script.step();
  script.scheduler.step_failed();
  script.scheduler.cancel(1);
  BOOST_TEST(script.scheduler.pool().n_cached() == 0);
  BOOST_TEST(script.scheduler.pool().n_held() == 0);
}

// Random events against random limits: the orders keep every promise, everybody is served in the
// end, and the same events give the same orders.
std::string random_run(uint32_t seed) {
  std::mt19937 random(seed);
  const auto draw = [&](uint32_t low, uint32_t high) {
    return static_cast<int32_t>(low + random() % (high - low + 1));
  };
  SchedulerConfig config = config_of(draw(12, 40), draw(1, 30));
  config.max_num_seqs = draw(1, 6);
  config.max_encode_images = draw(1, 3);
  config.embedding_rows = config.max_encode_rows = draw(12, 40);
  const int32_t buffer = draw(-1, 1);  // below 0: the tower writes into the slots
  config.prefix_cache = draw(0, 1) == 1;
  Script script(config);
  Scheduler& scheduler = script.scheduler;
  std::map<RequestId, std::vector<int32_t>> left;  // tokens that each choice still gives
  RequestId next_id = 1;
  std::string log;
  bool encoding = false;
  bool stepping = false;
  std::deque<TransferOrder> transferring;
  TransferOrder transfer;
  std::vector<RequestId> failed;
  for (int turn = 0; turn < 3000; ++turn) {
    if (next_id <= 25 && draw(0, 3) == 0) {
      const RequestId id = next_id++;
      std::vector<PromptImage> images;
      int32_t n = draw(1, 8);
      for (int32_t i = draw(0, 2); i > 0; --i) {
        const int32_t rows = draw(1, 12);
        images.push_back(image_at(n, static_cast<uint64_t>(rows), rows));
        n += rows + draw(0, 4);
      }
      left[id] = std::vector<int32_t>(static_cast<size_t>(draw(1, 3)), draw(1, 10));
      script.arrive(id, n + 1, images, static_cast<int32_t>(left[id].size()), 12);
    }
    if (!encoding) {
      const std::string text = script.encode(buffer);
      encoding = text != "-";
      log += "E" + text;
    }
    while (scheduler.next_transfer(transfer)) transferring.push_back(transfer);
    if (!stepping) {
      const std::string text = script.step();
      stepping = text != "-";
      log += "S" + text + "\n";
      if (stepping) {
        int32_t n_tokens = 0;
        std::set<BlockId> written;
        for (const StepOrder::Item& item : script.order.items) {
          n_tokens += item.count;
          const Sequence& s = *item.sequence;
          BOOST_REQUIRE_GE(static_cast<int32_t>(s.blocks.size()) * 4, item.first + item.count);
          for (int32_t b = item.first / 4; b <= (item.first + item.count - 1) / 4; ++b) {
            const BlockId block = s.blocks[static_cast<size_t>(b)];
            BOOST_REQUIRE(written.insert(block).second);
            BOOST_REQUIRE_EQUAL(scheduler.pool().ref_count(block), 1);  // never a shared one
          }
          for (const PromptImage& image : s.request->images) {
            if (image.end() <= item.first || image.first >= item.first + item.count) continue;
            BOOST_REQUIRE(image.slot != kNoSlot && scheduler.slots().arrived(image.slot));
          }
        }
        BOOST_REQUIRE_EQUAL(n_tokens, script.order.n_tokens);
        BOOST_REQUIRE_LE(n_tokens, config.max_num_batched_tokens);
        BOOST_REQUIRE_LE(static_cast<int32_t>(script.order.items.size()), config.max_num_seqs);
      }
    }
    if (draw(0, 40) == 0 && !left.empty()) {
      const RequestId id = left.begin()->first;
      scheduler.cancel(id);
      left.erase(id);
    }
    // One of the lanes gets done.
    const int32_t lane = draw(0, 2);
    if (lane == 0 && encoding) {
      script.encode_done();
      encoding = false;
    } else if (lane == 1 && !transferring.empty()) {
      const std::vector outcomes(transferring.front().items.size(), ImageOutcome::kOk);
      scheduler.transfer_done(outcomes, failed);
      transferring.pop_front();
    } else if (lane == 2 && stepping) {
      const std::vector<StepOrder::Item> items = script.order.items;
      std::vector<std::pair<RequestId, int32_t>> sampled;
      for (const StepOrder::Item& item : items) {
        if (item.sample) sampled.emplace_back(item.sequence->request->id, item.sequence->choice);
      }
      script.step_done();
      stepping = false;
      for (const auto& [id, choice] : sampled) {
        const auto it = left.find(id);
        if (it == left.end() || --it->second[static_cast<size_t>(choice)] > 0) continue;
        scheduler.finish(id, choice);
        if (scheduler.request(id) == nullptr) left.erase(it);
      }
    }
    if (next_id > 25 && left.empty() && scheduler.n_requests() == 0) break;
  }
  BOOST_TEST(left.empty(), "not everybody was served");
  BOOST_TEST(scheduler.pool().n_held() == 0);
  BOOST_TEST(scheduler.slots().n_held() == 0);
  return log;
}

// Prompts of any length arrive at any time; with blocks enough for all and a budget of at least one
// token a sequence, everybody who generates has a token in every step.
BOOST_AUTO_TEST_CASE(long_prompts_never_keep_a_stream_waiting) {
  const uint32_t first_seed = test::test_seed();
  for (uint32_t seed = first_seed; seed < first_seed + 50; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      std::mt19937 random(seed);
      SchedulerConfig config = config_of(10'000, 8 + static_cast<int32_t>(random() % 40));
      config.prefix_cache = random() % 2 == 0;
      Script script(config);
      RequestId next_id = 1;
      std::set<RequestId> generating;
      size_t n_watched = 0;
      for (int i = 0; i < 400; ++i) {
        if (random() % 8 == 0) {
          script.arrive(next_id++, static_cast<int32_t>(1 + random() % 800), {}, 1, 150);
        }
        if (script.step() == "-") continue;
        std::set<RequestId> in_step;
        std::set<RequestId> sampled;
        for (const StepOrder::Item& item : script.order.items) {
          in_step.insert(item.sequence->request->id);
          if (item.sample) sampled.insert(item.sequence->request->id);
        }
        BOOST_REQUIRE(std::ranges::includes(in_step, generating));
        n_watched += generating.size();
        script.step_done();
        for (const RequestId id : sampled) {
          generating.insert(id);
          if (random() % 30 != 0) continue;
          script.scheduler.finish(id, 0);
          generating.erase(id);
        }
      }
      BOOST_TEST(n_watched > 0U);
    }
  }
}

BOOST_AUTO_TEST_CASE(same_events_give_same_orders_and_everybody_is_served) {
  const uint32_t first_seed = test::test_seed();
  for (uint32_t i = 0; i < 100; ++i) {
    BOOST_TEST_CONTEXT("seed " << first_seed + i) {
      const std::string once = random_run(first_seed + i);
      BOOST_TEST((once == random_run(first_seed + i)));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
