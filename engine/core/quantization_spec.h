// Keys and values that come as small integers.
#pragma once

#include <cstdint>
#include <tuple>

#include "engine/core/spec_value.h"

namespace attn {

// What one scale stands for.
enum class QuantizationGranularity : uint8_t {
  kPerTensor = 1,  // scales [1]
  kPerHead = 2,    // scales [Hkv]
  kPerToken = 3,   // scales [B, Hkv, Sk]
};

// k and v are I8; x = q * scale, applied once when a row is read, before any
// stage sees it. The scales are inputs, F32.
// A value; thread-compatible.
struct KvQuantization {
  QuantizationGranularity granularity = QuantizationGranularity::kPerTensor;
  uint32_t key_scale = 0;
  uint32_t value_scale = 0;
  auto Fields() const { return std::tie(granularity, key_scale, value_scale); }
};

}  // namespace attn
