#include "tests/engine/cache/stored_rows.h"

#include <cstring>

#include "tests/testing/small_float.h"

namespace attn {
namespace {

// One row in its block.
struct StoredRow {
  const std::byte* elements = nullptr;
  const std::byte* scale = nullptr;
  int64_t width = 0;
};

StoredRow RowOf(const KvSequence& sequence, bool is_key, int64_t head,
                int64_t token) {
  const KvLayout& layout = sequence.layout();
  const auto size = static_cast<int64_t>(SizeOf(layout.dtype));
  const int64_t k_bytes = Padded64(layout.kv_heads * 64 * layout.k_dim * size);
  const int64_t v_bytes = Padded64(layout.kv_heads * 64 * layout.v_dim * size);
  const int64_t scale_bytes = Padded64(layout.kv_heads * 64 * 4);
  const std::byte* const block = sequence.Describe().blocks[token / 64];
  const int64_t row = head * 64 + token % 64;
  StoredRow found;
  found.width = is_key ? layout.k_dim : layout.v_dim;
  found.elements = block + (is_key ? 0 : k_bytes) + row * found.width * size;
  if (layout.dtype == DType::kI8) {
    found.scale =
        block + k_bytes + v_bytes + (is_key ? 0 : scale_bytes) + row * 4;
  }
  return found;
}

double NumberAt(const std::byte* elements, DType dtype, int64_t index) {
  const std::byte* const at =
      elements + index * static_cast<int64_t>(SizeOf(dtype));
  if (dtype == DType::kI8) return static_cast<int8_t>(*at);
  if (dtype == DType::kF32) {
    float value = 0;
    std::memcpy(&value, at, sizeof(value));
    return static_cast<double>(value);
  }
  uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof(bits));
  return oracle::Decode(
      bits, dtype == DType::kF16 ? oracle::kBinary16 : oracle::kBFloat16);
}

std::vector<double> ScaledRow(const KvSequence& sequence, bool is_key,
                              int64_t head, int64_t token) {
  const StoredRow row = RowOf(sequence, is_key, head, token);
  std::vector<double> numbers =
      NumbersOf(row.elements, sequence.layout().dtype, row.width);
  if (row.scale == nullptr) return numbers;
  const double scale = NumberAt(row.scale, DType::kF32, 0);
  for (double& number : numbers) number *= scale;
  return numbers;
}

}  // namespace

int64_t Padded64(int64_t bytes) { return (bytes + 63) / 64 * 64; }

std::vector<double> NumbersOf(const std::byte* elements, DType dtype,
                              int64_t count) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < count; ++i) {
    numbers.push_back(NumberAt(elements, dtype, i));
  }
  return numbers;
}

std::vector<double> StoredKey(const KvSequence& sequence, int64_t head,
                              int64_t token) {
  return ScaledRow(sequence, true, head, token);
}

std::vector<double> StoredValue(const KvSequence& sequence, int64_t head,
                                int64_t token) {
  return ScaledRow(sequence, false, head, token);
}

std::vector<std::byte> StoredBytes(const KvSequence& sequence) {
  const KvLayout& layout = sequence.layout();
  std::vector<std::byte> bytes;
  for (const bool is_key : {true, false}) {
    for (int64_t head = 0; head < layout.kv_heads; ++head) {
      for (int64_t token = 0; token < sequence.length(); ++token) {
        const StoredRow row = RowOf(sequence, is_key, head, token);
        bytes.insert(bytes.end(), row.elements,
                     row.elements + row.width * static_cast<int64_t>(
                                                    SizeOf(layout.dtype)));
        if (row.scale != nullptr) {
          bytes.insert(bytes.end(), row.scale, row.scale + 4);
        }
      }
    }
  }
  return bytes;
}

}  // namespace attn
