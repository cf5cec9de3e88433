#include "model/projector.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace hs {

namespace {

constexpr int64_t kProjectedRows = 512;  // at a time, which bounds the work area

}  // namespace

bool cuts_before_projector(CutChoice choice, const ProjectorShape& shape) {
  if (choice != CutChoice::kAuto) return choice == CutChoice::kPre;
  return shape.feature_dim < shape.out_dim;
}

ProjectorWeights ProjectorWeights::load(WeightLoader& weights, const ProjectorShape& shape) {
  ProjectorWeights loaded;
  loaded.linear_1 =
      weights.linear({{shape.linear_1, shape.inner_dim}}, shape.feature_dim, shape.bias);
  loaded.linear_2 = weights.linear({{shape.linear_2, shape.out_dim}}, shape.inner_dim, shape.bias);
  loaded.activation = shape.activation;
  return loaded;
}

void ProjectorWeights::run(Ops& ops, Matrix features, Matrix inner, Matrix out) const {
  ops.linear(features, linear_1.weight.packed, linear_1.bias, inner, activation);
  ops.linear(inner, linear_2.weight.packed, linear_2.bias, out);
}

Result<std::unique_ptr<MlpProjector>> MlpProjector::load(WeightLoader& weights, Device& device,
                                                         const ProjectorShape& shape) {
  std::unique_ptr<MlpProjector> projector(new MlpProjector(device, shape));
  projector->weights_ = ProjectorWeights::load(weights, shape);
  if (auto status = weights.status(); !status) return std::unexpected(std::move(status.error()));
  auto inner =
      Scratch::allocate(device, kProjectedRows * shape.inner_dim, device.activation_dtype());
  if (!inner) return std::unexpected(std::move(inner.error()));
  projector->inner_ = std::move(*inner);
  return projector;
}

// A row's result does not depend on the rows beside it, so the parts may end anywhere.
Status MlpProjector::project(Matrix features, Matrix out) {
  HS_CHECK_EQ(features.rows, out.rows);
  HS_CHECK_EQ(features.cols, shape_.feature_dim);
  HS_CHECK_EQ(out.cols, shape_.out_dim);
  for (int64_t first = 0; first < features.rows; first += kProjectedRows) {
    const int64_t n = std::min(kProjectedRows, features.rows - first);
    weights_.run(device_->ops(), features.row_range(first, n), inner_.view(n, shape_.inner_dim),
                 out.row_range(first, n));
  }
  return device_->sync();
}

Status load_projectors(const Checkpoint& checkpoint, const LoadOptions& options,
                       const ProjectorShape& shape, Model& model) {
  if (!model.spec.cut_before_projector) return {};
  for (const DeviceGroup& group : options.language_devices) {
    Device& device = *group.ranks.front();
    WeightLoader weights(checkpoint, device, options.dtype);
    auto projector = MlpProjector::load(weights, device, shape);
    if (!projector) return std::unexpected(std::move(projector.error()));
    if (model.projectors.empty()) model.spec.language_bytes += weights.weight_bytes();
    model.projectors.push_back(std::move(*projector));
  }
  return {};
}

}  // namespace hs
