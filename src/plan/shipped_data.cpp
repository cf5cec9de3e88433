#include "plan/shipped_data.h"

extern "C" {
extern const char hs_shipped_cards[];
extern const char hs_shipped_cards_end[];
extern const char hs_shipped_models[];
extern const char hs_shipped_models_end[];
}

namespace hs {

std::string_view shipped_cards_toml() {
  return {hs_shipped_cards, hs_shipped_cards_end};
}

std::string_view shipped_models_toml() {
  return {hs_shipped_models, hs_shipped_models_end};
}

}  // namespace hs
