// Everything between a request's body and the engine: JSON, pictures, template, tokens. Runs on a
// worker thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/chat_request.h"
#include "api/held_body.h"
#include "api/served_model.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/engine.h"
#include "fetch/media_policy.h"
#include "media/image.h"

namespace hs {

class AnswerFormat;
struct AnswerHead;

struct PreparationLimits {
  RequestLimits request;
  size_t image_bytes_max = size_t{20} << 20;  // of one picture, compressed
  ImageLimits image;
  std::shared_ptr<const MediaPolicy> media;  // null: pictures are not fetched
};

// Pictures of a request that have to be fetched before it can be prepared. Preparation runs twice
// then: the first time it reads and checks everything that a URL does not hide, and names them.
struct RemotePictures {
  struct Wanted {
    std::string url;
    std::string param;  // of the first part that names it
  };
  std::vector<Wanted> wanted;                             // each URL once
  std::map<std::string, std::string, std::less<>> bytes;  // by URL, once they are fetched
  bool fetched = false;

  bool needs_fetch() const { return !wanted.empty() && !fetched; }
};

// What preparing the pictures took, for the log and metrics.
struct ImageWork {
  int32_t n_images = 0;
  int64_t pixels = 0;
  int64_t decode_us = 0;  // base64, decode, resize, normalise; all pictures
};

// A request that the engine can take, and how its answer will look. The fields that are known are
// filled in on failure, too, because the log names them.
struct PreparedRequest {
  Status status;
  RequestLabels labels;
  StreamFields stream;
  ImageWork images;
  // When status is good:
  std::vector<GenerateRequest> generate;  // one a prompt, at least one; the same n_choices in each
  int32_t max_tokens = 0;                 // as asked; 0 = not
  std::string prompt_param;               // the field that made the prompt
  // Called once, on the loop thread. The model that the input named lives as long as the format.
  std::function<std::unique_ptr<AnswerFormat>(const AnswerHead&, const Tokenizer&)> make_answer;
};

struct PreparationInput {
  HeldBody& body;           // released as soon as it is read
  uint64_t drawn_seed = 0;  // used when the client gave none
  const ServedModel& model;
  const PreparationLimits& limits;
  const Clock& clock;
  const std::atomic<bool>& cancelled;  // looked at between pictures
  // Set as soon as the fields are known to be good and ask for a stream; may be null.
  std::atomic<bool>* streams = nullptr;
  RemotePictures* remote = nullptr;  // null: pictures are not fetched
};

// When input.remote->needs_fetch() after the call, the pictures come next and then the same call
// again; what was returned means nothing but its labels, unless its status is an error.
PreparedRequest prepare_chat(const PreparationInput& input);
PreparedRequest prepare_completion(const PreparationInput& input);
PreparedRequest prepare_response(const PreparationInput& input);

// Whether pictures of the request have to be fetched first; then they stand in input.remote.
// An error: one of them may not be.
Result<bool> wants_pictures(const ChatRequest& request, const PreparationInput& input);

// The prompt of a request that was read already. Errors name the message and part at fault.
Result<Prompt> build_prompt(const ChatRequest& request, const PreparationInput& input,
                            ImageWork& work);

}  // namespace hs
