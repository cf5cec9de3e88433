// Data files that are part of the program, so that plan and simulate need no installation.
#pragma once

#include <string_view>

namespace hs {

std::string_view shipped_cards_toml();   // src/plan/cards.toml
std::string_view shipped_models_toml();  // src/plan/models.toml

}  // namespace hs
