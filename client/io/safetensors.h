// .safetensors files (proto/safetensors reads their header).
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/io/tensor_file.h"

namespace attn {

// Every tensor of the file, whole. Refuses a file with bytes that are no
// tensor's, a type that the service does not have, and more than
// options.max_bytes.
absl::StatusOr<TensorMap> ReadSafetensors(const std::string& path,
                                          const ReadOptions& options = {});

absl::Status WriteSafetensors(const std::string& path,
                              const TensorMap& tensors);

}  // namespace attn
