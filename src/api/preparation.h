// Everything between a request's body and the engine: JSON, pictures, template, tokens. Runs on a
// worker thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "api/chat_request.h"
#include "api/held_body.h"
#include "api/served_model.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/engine.h"
#include "media/image.h"

namespace hs {

struct PreparationLimits {
  RequestLimits request;
  size_t image_bytes_max = size_t{20} << 20;  // of one picture, compressed
  ImageLimits image;
};

// What preparing the pictures took, for the log and metrics.
struct ImageWork {
  int32_t n_images = 0;
  int64_t pixels = 0;
  int64_t decode_us = 0;  // base64, decode, resize, normalise; all pictures
};

// The fields that are known are filled in on failure, too, because the log names them.
struct PreparedChat {
  Status status;
  std::string model;  // as the client named it
  StreamFields stream;
  bool timings = false;
  std::vector<std::string> unknown_fields;
  ImageWork images;
  GenerateRequest generate;  // when status is good
};

struct PreparationInput {
  HeldBody& body;           // released as soon as it is read
  uint64_t drawn_seed = 0;  // used when the client gave none
  const ServedModel& model;
  const PreparationLimits& limits;
  const Clock& clock;
  const std::atomic<bool>& cancelled;  // looked at between pictures
};

PreparedChat prepare_chat(const PreparationInput& input);

// The prompt of a request that was read already. Errors name the message and part at fault.
Result<Prompt> build_prompt(const ChatRequest& request, const PreparationInput& input,
                            ImageWork& work);

}  // namespace hs
