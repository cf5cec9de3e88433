// What the flags of plan and simulate name, read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/plan_options.h"
#include "app/report.h"
#include "base/status.h"
#include "plan/arms.h"
#include "plan/cards.h"
#include "plan/model_shape.h"
#include "plan/profile.h"

namespace hs {

Result<std::vector<ModelShape>> shipped_shapes();
// `name`: a shipped shape, or a path.
Result<ModelShape> load_shape(const std::string& name);
Result<Catalogue> load_catalogue(const PlanOptions& options);
// "896x896". `field`: what messages call it.
Result<PictureSize> parse_picture_size(const std::string& text, std::string_view field);
// Rows of one picture of the workload.
Result<int32_t> picture_rows(const ModelShape& shape, const WorkloadOptions& workload);

// The traffic that the flags or a log describe, and a sentence that says so.
struct PlanWorkload {
  Workload workload;
  std::string told;
};
Result<PlanWorkload> load_workload(const ModelShape& shape, const WorkloadOptions& options);

ServingLimits serving_limits(const CardsOptions& devices, const Workload& workload);

// The two kinds of devices that the flags name.
struct PlanDevices {
  DeviceModel consumer;
  DeviceModel datacenter;
};
// `profile`: null without one.
Result<PlanDevices> load_devices(const ModelShape& shape, const CardsOptions& devices,
                                 const Catalogue& catalogue, const Profile* profile);
// Of --profile; none when the flag was not given.
Result<std::optional<Profile>> load_profile(const PlanOptions& options);

// All that the flags name, read once.
struct PlanInputs {
  ModelShape shape;
  Catalogue catalogue;
  PlanWorkload workload;
  PlanDevices devices;
  std::optional<Profile> profile;
};
Result<PlanInputs> load_plan_inputs(const PlanOptions& options);

// The mix that the flags mean for an arm: those with one kind of devices have as many as both kinds
// together.
Mix mix_of(ArmKind kind, const CardsOptions& devices);

// What was measured of the profile's devices, and where and when.
void add_profile_table(Report& report, const Profile& profile);

// Writes a file that a flag names.
Status write_text_file(const std::string& path, std::string_view text, std::string_view flag);

// Prints the error; the exit status for it.
int plan_failure(const Error& error);
int print_report(const Report& report, bool json);

}  // namespace hs
