// The header of a .safetensors file: 8 bytes with the length of a JSON object,
// little-endian; the object; then the tensors' bytes, row-major, without holes.
//
//   {"w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
//    "__metadata__": {"made_by": "..."}}
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/core/dtype.h"
#include "engine/core/shape.h"

namespace attn {

// The format's own bound.
inline constexpr int64_t kMaxSafetensorsHeaderBytes = 100'000'000;
inline constexpr int64_t kSafetensorsPrefixBytes = 8;

// Where one tensor lies.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  // From the first byte after the header.
  int64_t offset = 0;

  int64_t byte_count() const;
};

// A value; thread-compatible.
struct SafetensorsHeader {
  // In the order of their offsets.
  std::vector<SafetensorsEntry> entries;
  std::map<std::string, std::string> metadata;
};

// The length of the JSON object, from the file's first 8 bytes.
// INVALID_ARGUMENT if it exceeds `max_header_bytes` or the file.
absl::StatusOr<int64_t> SafetensorsHeaderLength(absl::string_view prefix,
                                                int64_t file_bytes,
                                                int64_t max_header_bytes);

// Reads the object. `data_bytes`: what follows it in the file, and all of it
// must be some tensor's. INVALID_ARGUMENT says what is wrong.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view json,
                                                         int64_t data_bytes);

// Everything before the data, padded so that the data begins at a multiple of
// 8 bytes. Sorts `header.entries` so that each is aligned for its type, and
// sets their offsets: the data follows in that order.
std::string WriteSafetensorsHeader(SafetensorsHeader& header);

}  // namespace attn
