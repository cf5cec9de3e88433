// From a tower's features to rows of the language model's width: two linear layers with an
// activation between them, y = W_2 act(W_1 x + b_1) + b_2. LLaVA's projector (Liu et al., 2023) and
// the layers of Qwen2.5-VL's merger (Bai et al., 2025) are both of this form.
#pragma once

#include <cstdint>
#include <string>

#include "device/device.h"
#include "model/device_memory.h"
#include "model/model.h"
#include "model/weights.h"

namespace hs {

struct ProjectorShape {
  std::string linear_1 = {};  // weight names
  std::string linear_2 = {};
  int64_t feature_dim = 0;
  int64_t inner_dim = 0;
  int64_t out_dim = 0;
  Epilogue activation = Epilogue::kGeluErf;
  bool bias = true;
};

// Whether pictures cross as features.
bool cuts_before_projector(CutChoice choice, const ProjectorShape& shape);

struct ProjectorWeights {
  LinearWeights linear_1;
  LinearWeights linear_2;
  Epilogue activation = Epilogue::kGeluErf;

  static ProjectorWeights load(WeightLoader& weights, const ProjectorShape& shape);
  // features (n, feature_dim) -> out (n, out_dim); inner (n, inner_dim) is a work area.
  void run(Ops& ops, Matrix features, Matrix inner, Matrix out) const;
};

// The projector by itself, on a language model's device.
class MlpProjector final : public Projector {
 public:
  static Result<std::unique_ptr<MlpProjector>> load(WeightLoader& weights, Device& device,
                                                    const ProjectorShape& shape);
  Status project(Matrix features, Matrix out) override;

 private:
  MlpProjector(Device& device, const ProjectorShape& shape) : device_(&device), shape_(shape) {}

  Device* device_;
  ProjectorShape shape_;
  ProjectorWeights weights_;
  Scratch inner_;  // (kProjectedRows, inner_dim)
};

// The projectors of a model whose towers give features, on the first device of each group of the
// language devices; its spec then counts their weights with the language model's.
Status load_projectors(const Checkpoint& checkpoint, const LoadOptions& options,
                       const ProjectorShape& shape, Model& model);

}  // namespace hs
