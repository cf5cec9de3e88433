#include "api/served_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace hs {

bool ServedModel::has_name(std::string_view name) const {
  return std::ranges::find(names, name) != names.end();
}

Error unknown_model(const ServedModel& model) {
  return {ErrorKind::kNotFound,
          fmt::format("The model does not exist here. Served: {}.", fmt::join(model.names, ", ")),
          "model_not_found", "model"};
}

}  // namespace hs
