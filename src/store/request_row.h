// One row of the request log, and finding rows again. Holds no prompt and no answer.
//
// Every request of a logged route that was answered has a row, also one that was refused unread
// (405, 413, 415, 503) or timed out (408): then without what only its body tells. A client that
// leaves before its request is complete leaves no row: half a request is no request.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "store/database.h"

namespace hs {

// Empty text and negative numbers mean "not known" or "did not happen"; they are stored as NULL.
struct RequestRow {
  std::string id;        // X-Request-Id
  int64_t ts_ms = 0;     // when the request was complete at our side, milliseconds since 1970
  std::string endpoint;  // "/v1/chat/completions"
  std::string model;
  std::string key_name;  // of the API key; "" where none was needed
  std::string client;    // peer address; the caller shortens or leaves it out as configured
  int64_t status = -1;   // HTTP
  std::string error_code;
  std::string finish_reason;
  bool stream = false;
  int64_t n_images = -1;
  int64_t image_pixels = -1;  // over all images, as decoded
  int64_t prompt_tokens = -1;
  int64_t vision_tokens = -1;  // of the prompt
  int64_t cached_tokens = -1;  // of the prompt
  int64_t completion_tokens = -1;
  int64_t queue_us = -1;
  int64_t image_fetch_us = -1;  // of pictures by URL, the wait for a place included
  int64_t image_fetch_bytes = -1;
  int64_t image_decode_us = -1;
  int64_t encode_us = -1;
  int64_t transfer_us = -1;
  int64_t prefill_us = -1;
  int64_t first_token_us = -1;
  int64_t decode_us = -1;
  int64_t total_us = -1;
  int64_t bytes_in = -1;
  int64_t bytes_out = -1;
  std::string cancelled_by;     // "client", "shutdown", ...
  std::string params_json;      // sampling parameters, never content
  int64_t transfer_bytes = -1;  // embeddings, between devices
  std::string transfer_path;    // "peer", "staged"
  int64_t kv_transfer_us = -1;  // from the device that prefilled to the one that decodes
  int64_t kv_transfer_bytes = -1;
  bool stolen = false;      // answered by a device of the consumer pool
  std::string revision;     // of the weights
  std::string trace_id;     // of a W3C traceparent header
  int64_t itl_p50_us = -1;  // gaps between tokens of a choice: the median, and the 99th percentile
  int64_t itl_p99_us = -1;
  // Its share of what the devices drew, and what that and their hours cost (store/cost_account.h).
  int64_t energy_uj = -1;    // millionths of a joule
  int64_t cost_micros = -1;  // millionths of the currency that prices are in

  bool operator==(const RequestRow&) const = default;
};

struct RequestFilter {
  int64_t since_ms = 0;  // rows of this time and later
  int64_t until_ms = INT64_MAX;
  int64_t status_min =
      0;  // 400 to 599 finds what failed; a row without a status fails every narrower range
  int64_t status_max = INT64_MAX;
  std::string model = {};     // "" = any
  std::string id = {};        // "" = any
  std::string key_name = {};  // "" = any
  int64_t images_min = 0;     // rows with so many pictures and more
  // Rows count upwards as they are written: those above after_row, up to until_row.
  int64_t after_row = 0;
  int64_t until_row = INT64_MAX;
  int64_t limit = 100;
};

Result<Statement> prepare_insert(Database& db);
// Runs `insert` (of prepare_insert) for one row and leaves it ready for the next.
Status insert_row(Statement& insert, const RequestRow& row);

// Newest first. Opens the file read-only, also beside a server that writes it, and leaves no file
// behind that the server's user could not open.
Result<std::vector<RequestRow>> query_requests(const std::string& path,
                                               const RequestFilter& filter);
// The number of the row that was written last; 0 for an empty log. Read like query_requests().
Result<int64_t> last_request_row(const std::string& path);
// Rows as query_requests() finds them, oldest first and one at a time, so that a log of any size
// can be exported; `take` may end it with an error. filter.limit counts from the oldest.
Status for_each_request(const std::string& path, const RequestFilter& filter,
                        const std::function<Status(const RequestRow&)>& take);

}  // namespace hs
