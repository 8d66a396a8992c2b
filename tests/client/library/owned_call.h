// A call of normal random tensors for tests of contexts that are divided.
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "client/library/host_tensor.h"
#include "proto/codec/attend_codec.h"

namespace attn {

inline constexpr int64_t kBatch = 2;
inline constexpr int64_t kQueryHeads = 4;
inline constexpr int64_t kKeyHeads = 2;
inline constexpr int64_t kWidth = 8;

inline HostTensor Normal(const Shape& shape, std::mt19937& random) {
  HostTensor tensor(DType::kF32, shape);
  std::normal_distribution<float> normal;
  for (float& x : tensor.values<float>()) x = normal(random);
  return tensor;
}

// A call and the tensors that it is about.
struct OwnedCall {
  OwnedCall(int64_t queries, int64_t keys, uint32_t seed) : random(seed) {
    tensors.push_back(Normal({kBatch, kQueryHeads, queries, kWidth}, random));
    tensors.push_back(Normal({kBatch, kKeyHeads, keys, kWidth}, random));
    tensors.push_back(Normal({kBatch, kKeyHeads, keys, kWidth}, random));
    message.args.q = tensors[0].view();
    message.args.k = tensors[1].view();
    message.args.v = tensors[2].view();
    message.wanted = {.output = true, .lse = true};
  }
  uint32_t Bring(HostTensor tensor) {
    // Their bytes stay where they are when the vector grows.
    tensors.push_back(std::move(tensor));
    message.args.inputs.push_back(tensors.back().view());
    return static_cast<uint32_t>(message.args.inputs.size() - 1);
  }

  std::mt19937 random;
  std::vector<HostTensor> tensors;
  AttendMessage message;
};

}  // namespace attn
