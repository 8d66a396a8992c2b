// Requests drawn at random: legal ones, of every dtype and layout.
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "proto/codec/attend_codec.h"

namespace attn {

// The same seed gives the same requests. Thread-compatible.
class RandomRequest {
 public:
  explicit RandomRequest(uint32_t seed) : random_(seed) {}

  v1::AttendRequest Draw();
  // A number in [0, bound).
  int Below(int bound) {
    return std::uniform_int_distribution<int>(0, bound - 1)(random_);
  }

 private:
  void FillTensor(int rank, v1::Tensor* tensor);
  std::string Text();

  std::mt19937 random_;
};

}  // namespace attn
