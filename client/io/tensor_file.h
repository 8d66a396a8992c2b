// Named tensors in files, by the ending of the file's name: .npy, .npz, .json,
// .safetensors.
//
// Every error is one line that says file and reason. Sizes are checked before
// anything is allocated.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "client/library/host_tensor.h"

namespace attn {

// Sorted, so that what is written does not depend on chance.
using TensorMap = std::map<std::string, HostTensor>;

struct ReadOptions {
  // numpy has no bfloat16: some tools store its bits as '<u2'.
  bool u2_is_bf16 = false;
  // Bound on the sum of all tensors of a file.
  int64_t max_bytes = int64_t{8} << 30;
};

// A .npy file holds one tensor, which gets the name "".
absl::StatusOr<TensorMap> ReadTensors(const std::string& path,
                                      const ReadOptions& options = {});

// The only tensor of a file.
absl::StatusOr<HostTensor> ReadTensor(const std::string& path,
                                      const ReadOptions& options = {});

// .npy takes exactly one tensor.
absl::Status WriteTensors(const std::string& path, const TensorMap& tensors);

// Before the work whose result is to be written: whether `count` tensors could
// be written to `path` as far as can be seen without writing. "" is no file,
// and fine.
absl::Status CheckOutputFile(const std::string& path, int64_t count);

}  // namespace attn
