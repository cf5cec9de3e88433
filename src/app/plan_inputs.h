// What the flags of plan and simulate name, read.
#pragma once

#include <string>
#include <vector>

#include "app/plan_options.h"
#include "app/report.h"
#include "base/status.h"
#include "plan/cards.h"
#include "plan/model_shape.h"

namespace hs {

Result<std::vector<ModelShape>> shipped_shapes();
// `name`: a shipped shape, or a path.
Result<ModelShape> load_shape(const std::string& name);
Result<Catalogue> load_catalogue(const PlanOptions& options);
// "896x896". `field`: what messages call it.
Result<PictureSize> parse_picture_size(const std::string& text, std::string_view field);
// Rows of one picture of the workload.
Result<int32_t> picture_rows(const ModelShape& shape, const WorkloadOptions& workload);

// Prints the error; the exit status for it.
int plan_failure(const Error& error);
int print_report(const Report& report, bool json);

}  // namespace hs
