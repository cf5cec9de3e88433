// How work is divided between pools of devices: the choices a user has, as words of their own.
#pragma once

#include <string_view>

namespace hs {

enum class Partition {
  kModality,   // consumer devices encode, datacenter devices run the language model
  kStage,      // consumer devices encode and prefill, datacenter devices decode; KV blocks move
  kColocated,  // every device does everything for its requests
};
constexpr std::string_view to_string(Partition partition) {
  switch (partition) {
    case Partition::kModality:
      return "modality";
    case Partition::kStage:
      return "stage";
    case Partition::kColocated:
      break;
  }
  return "colocated";
}

enum class StealMode {
  kOff,
  kOn,    // whenever the other unit has more tokens left than the thief
  kAuto,  // when the thief is predicted to be done sooner
};

}  // namespace hs
