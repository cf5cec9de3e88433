// What the administration routes of models ask of the program around the API.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "hub/hugging_face.h"
#include "hub/model_store.h"
#include "hub/pull.h"
#include "hub/pull_jobs.h"

namespace hs {

// Which model is served, or on its way. Where nothing is loaded after a failed load, `error` says
// what went wrong.
struct ServedState {
  enum class Stage { kEmpty, kDraining, kLoading, kReady };

  Stage stage = Stage::kEmpty;
  std::string model;  // as it is loaded by: "org/name", or a path; "" = none
  std::string id;     // "org/name@commit"; "" = not from the store
  std::string phase;  // "reading weights"
  int32_t percent = 0;
  std::optional<Error> error;
};
std::string_view to_string(ServedState::Stage stage);

// A model that can be loaded.
struct LoadTarget {
  std::string model;               // as in ServedState
  std::string id;                  // as in ServedState
  std::string path;                // its folder
  std::vector<std::string> names;  // that requests may use, at least one
  std::shared_ptr<FileLock> hold;  // while it is kept nobody removes the model; may be null
};

// Whether a model's weights fit in what this machine has, and in common cards.
struct MemoryFit {
  struct Card {
    std::string name;
    int64_t memory_bytes = 0;
    bool fits = false;
  };
  int64_t needed_bytes = 0;
  int64_t available_bytes = 0;  // of main memory
  std::vector<Card> cards;

  bool fits() const { return needed_bytes <= available_bytes; }
};

class ModelAdmin {
 public:
  virtual ~ModelAdmin() = default;

  // Any thread.
  virtual const ModelStore& store() const = 0;
  virtual const HubEndpoint& endpoint() const = 0;
  virtual PullJobs& jobs() = 0;
  // Reads files. kNotFound "model_not_stored".
  virtual Result<LoadTarget> find(const std::string& name) const = 0;
  virtual MemoryFit memory_fit(const PullPlan& plan) const = 0;

  // Loop thread. Both begin what state() then tells; kUnavailable "model_changing" while another
  // change is under way.
  virtual Status load(LoadTarget target) = 0;
  virtual Status unload() = 0;
  virtual ServedState state() const = 0;
};

}  // namespace hs
