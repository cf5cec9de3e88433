#include "api/image_fields.h"

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace hs {
namespace {

constexpr size_t kNameShownMax = 64;  // bytes of a client's word that a message repeats

void refuse_unknown(ObjectReader& object) {
  for (const std::string& name : object.unknown()) {
    const std::string shown = name.size() <= kNameShownMax ? name : "(a long name)";
    return object.fail_field(
        shown,
        fmt::format("'{}' is not supported; pictures take min_pixels, max_pixels, and size with "
                    "shortest_edge and longest_edge.",
                    object.param(shown)),
        ErrorKind::kUnsupported, "unsupported_parameter");
  }
}

void read_size(ObjectReader& kwargs, ImageOptions& options) {
  const nlohmann::json* value = kwargs.any("size");
  if (value == nullptr) return;
  if (!value->is_object())
    return kwargs.fail_field("size",
                             fmt::format("'{}' must be an object with shortest_edge and "
                                         "longest_edge.",
                                         kwargs.param("size")),
                             ErrorKind::kInvalidArgument, "invalid_type");
  ObjectReader size(*value, kwargs.param("size"));
  options.min_pixels = size.integer("shortest_edge", 1, INT64_MAX);
  options.max_pixels = size.integer("longest_edge", 1, INT64_MAX);
  refuse_unknown(size);
  if (size.failed()) kwargs.fail_with(size.status().error());
}

}  // namespace

void read_image_options(ObjectReader& body, ImageOptions& options) {
  const nlohmann::json* value = body.any("mm_processor_kwargs");
  if (value == nullptr) return;
  if (!value->is_object())
    return body.fail_field("mm_processor_kwargs", "'mm_processor_kwargs' must be an object.",
                           ErrorKind::kInvalidArgument, "invalid_type");
  ObjectReader kwargs(*value, "mm_processor_kwargs");
  read_size(kwargs, options);
  // As in the processors, these two go before `size`.
  if (const auto min = kwargs.integer("min_pixels", 1, INT64_MAX)) options.min_pixels = min;
  if (const auto max = kwargs.integer("max_pixels", 1, INT64_MAX)) options.max_pixels = max;
  refuse_unknown(kwargs);
  if (!kwargs.failed() && options.min_pixels && options.max_pixels &&
      *options.min_pixels > *options.max_pixels)
    kwargs.fail_field("min_pixels", fmt::format("'mm_processor_kwargs' asks for at least {} and at "
                                                "most {} pixels.",
                                                *options.min_pixels, *options.max_pixels));
  if (kwargs.failed()) body.fail_with(kwargs.status().error());
}

}  // namespace hs
