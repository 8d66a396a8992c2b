// Calls whose tensors are of a given size, and little work.
#pragma once

#include <cstdint>
#include <vector>

#include "attention/v1/attention.grpc.pb.h"
#include "client/library/attention_client.h"

namespace attn {

inline constexpr int64_t kMebibyte = int64_t{1} << 20;

// One Attend with q, k, v and an output of `mebibytes` MiB each: F32
// [1, 512 * mebibytes, 8, 64]. A head's keys are 2 KiB, so that no copy of a
// kernel's (it moves tiles into its scratch) is among those of 4 KiB and more.
// Thread-compatible.
class BigCall {
 public:
  explicit BigCall(int64_t mebibytes);

  int64_t tensor_bytes() const { return mebibytes_ * kMebibyte; }
  int64_t sent_bytes() const { return 3 * tensor_bytes(); }
  // Borrows the tensors.
  AttendMessage Message() const;
  // Copies them.
  v1::AttendRequest Request() const;

 private:
  TensorView View(const std::vector<float>& values) const;

  int64_t mebibytes_;
  std::vector<float> q_;
  std::vector<float> k_;
  std::vector<float> v_;
};

}  // namespace attn
