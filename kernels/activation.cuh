// The activations of kernels/linear.h in float32.
#pragma once

#include <cmath>

#include "kernels/linear.h"
#include "kernels/portable.cuh"

namespace hs::cuda {

HS_DEVICE float sigmoid(float x) {
  return 1.0F / (1.0F + expf(-x));
}

HS_DEVICE float activate(float x, Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kNone:
      return x;
    case Epilogue::kGeluErf:
      return 0.5F * x * (1.0F + erff(x * 0.707106781F));
    case Epilogue::kGeluTanh:  // 0.5 x (1 + tanh(u)) = x sigmoid(2 u)
      return x * sigmoid(1.595769122F * (x + 0.044715F * (x * x * x)));
    case Epilogue::kQuickGelu:
      return x * sigmoid(1.702F * x);
    case Epilogue::kSilu:
      return x * sigmoid(x);
    case Epilogue::kRelu:
      return x < 0 ? 0.0F : x;  // NaN stays NaN
  }
  return x;
}

}  // namespace hs::cuda
