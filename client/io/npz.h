// .npz files: a ZIP archive of .npy files, stored or deflated.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/io/tensor_file.h"

namespace attn {

// The names are those of the members, without ".npy". Refuses a name that
// comes twice, a member that is no .npy file, an encrypted member, a damaged
// archive, and more than options.max_bytes of content.
absl::StatusOr<TensorMap> ReadNpz(const std::string& path,
                                  const ReadOptions& options = {});

// Deflated, as numpy.savez_compressed. Replaces the file as a whole.
absl::Status WriteNpz(const std::string& path, const TensorMap& tensors);

}  // namespace attn
