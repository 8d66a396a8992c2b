// The header of a .npy file: what lies between the magic and the elements.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace attn {

struct NpyHeader {
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

// Reads "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }": these
// three keys, each once, in any order. INVALID_ARGUMENT says what is wrong.
absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view text);

// The same text, unpadded.
std::string FormatNpyHeader(const NpyHeader& header);

}  // namespace attn
