// The .npy format, versions 1 to 3 (numpy.lib.format): magic, header length, a
// Python dict literal, raw elements.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/io/tensor_file.h"
#include "client/library/host_tensor.h"

namespace attn {

// `bytes` is the whole file. Little-endian f2, f4, f8, i1, i4, i8, b1, and
// bfloat16 as V2; Fortran order is turned into C order. INVALID_ARGUMENT that
// begins with `name` for anything else.
absl::StatusOr<HostTensor> ParseNpy(absl::string_view bytes,
                                    const std::string& name,
                                    const ReadOptions& options = {});

// Version 1, C order, elements at a multiple of 64 bytes.
std::string SerializeNpy(const HostTensor& tensor);

}  // namespace attn
