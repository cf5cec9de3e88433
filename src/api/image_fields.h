// `mm_processor_kwargs` of a request: how large pictures become for the vision tower. vLLM's field,
// with the arguments of Hugging Face's image processors.
#pragma once

#include "api/object_reader.h"
#include "model/model.h"

namespace hs {

// min_pixels, max_pixels, and size: {shortest_edge, longest_edge}, which says the same two areas.
// Any other argument is an error that names it. Errors go to `body`.
void read_image_options(ObjectReader& body, ImageOptions& options);

}  // namespace hs
