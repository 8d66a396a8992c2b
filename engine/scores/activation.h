// Activations of scores with a hidden layer, and their slopes.
#pragma once

#include <cmath>
#include <numbers>

#include "engine/core/score_spec.h"
#include "engine/tile/sigmoid.h"

namespace attn {

inline double Activate(Activation activation, double x) {
  switch (activation) {
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kRelu:
      return x > 0 ? x : 0;
    case Activation::kSigmoid:
      return SigmoidOf(x);
    case Activation::kGelu:
      return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case Activation::kIdentity:
      return x;
  }
  return x;
}

// The derivative at x.
inline double ActivationSlope(Activation activation, double x) {
  switch (activation) {
    case Activation::kTanh:
      return TanhSlope(x);
    case Activation::kRelu:
      return x > 0 ? 1 : 0;
    case Activation::kSigmoid:
      return SigmoidSlope(x);
    case Activation::kGelu: {
      const double density =
          std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
      return 0.5 * std::erfc(-x / std::numbers::sqrt2) + x * density;
    }
    case Activation::kIdentity:
      return 1;
  }
  return 1;
}

}  // namespace attn
