#include "engine/cache/kv_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/tile/convert.h"

namespace attn {
namespace {

// 64 rows of 128 floats: 32 KiB, which stay in the first cache.
constexpr int64_t kStackFloats = 64 * 128;
constexpr float kLargestInt8 = 127;

int64_t Bytes(DType dtype, int64_t elements) {
  return elements * static_cast<int64_t>(SizeOf(dtype));
}

KvRowSource RowsFrom(const KvRowSource& from, int64_t row) {
  KvRowSource rows = from;
  rows.data += Bytes(from.dtype, row * from.row_stride);
  return rows;
}

KvRowTarget RowsTo(const KvRowTarget& to, int64_t row) {
  KvRowTarget rows = to;
  rows.data += Bytes(to.dtype, row * to.width);
  if (to.scales != nullptr) rows.scales += row;
  return rows;
}

void CopyUnchanged(const KvRowSource& from, int64_t count,
                   const KvRowTarget& to) {
  // Rows that stand one after the other are one long row.
  const bool joined = from.row_stride == to.width;
  const int64_t pieces = joined ? 1 : count;
  const int64_t bytes = Bytes(to.dtype, (joined ? count : 1) * to.width);
  for (int64_t i = 0; i < pieces; ++i) {
    std::memcpy(RowsTo(to, i).data, RowsFrom(from, i).data,
                static_cast<size_t>(bytes));
  }
}

void LoadRows(const KvRowSource& from, int64_t count, int64_t width,
              float* rows) {
  if (from.element_stride == 1 && from.row_stride == width) {
    return LoadElements(from.data, from.dtype, 1, count * width, rows);
  }
  for (int64_t i = 0; i < count; ++i) {
    LoadElements(RowsFrom(from, i).data, from.dtype, from.element_stride, width,
                 rows + i * width);
  }
}

// To nearest even, for |x| < 2^51: there the sum has no bits left below 1.
double RoundToEven(double x) {
  constexpr double kOneAndAHalfTo52 = 6755399441055744.0;
  return (x + kOneAndAHalfTo52) - kOneAndAHalfTo52;
}

// max |x| / 127, or the next below where 127 of them would be an infinity.
float ScaleOf(float largest) {
  const float scale = largest / kLargestInt8;
  return std::isinf(scale * kLargestInt8) ? std::nextafter(scale, 0.0F) : scale;
}

// Gives the row's scale.
float QuantizeRow(const float* row, int64_t width, int8_t* to) {
  float largest = 0;
  bool finite = true;
  for (int64_t i = 0; i < width; ++i) {
    const float magnitude = std::fabs(row[i]);
    finite &= magnitude <= std::numeric_limits<float>::max();
    largest = std::max(largest, magnitude);
  }
  const float scale = ScaleOf(largest);
  if (!finite || scale == 0) {
    std::fill_n(to, width, int8_t{0});
    return finite ? 1 : std::numeric_limits<float>::quiet_NaN();
  }
  // In double no quotient is rounded onto a tie. Subnormal scales are so coarse
  // that quotients reach beyond 127.
  const auto divisor = static_cast<double>(scale);
  for (int64_t i = 0; i < width; ++i) {
    const double rounded = RoundToEven(static_cast<double>(row[i]) / divisor);
    to[i] = static_cast<int8_t>(
        static_cast<int>(std::clamp<double>(rounded, -127, 127)));
  }
  return scale;
}

void StoreRows(const float* rows, int64_t count, const KvRowTarget& to) {
  if (to.dtype != DType::kI8) {
    return StoreElements(rows, count * to.width, to.dtype, to.data);
  }
  for (int64_t i = 0; i < count; ++i) {
    to.scales[i] =
        QuantizeRow(rows + i * to.width, to.width,
                    reinterpret_cast<int8_t*>(to.data) + i * to.width);
  }
}

// By way of `scratch`, as many rows at a time as it holds.
void ConvertRows(const KvRowSource& from, int64_t count, const KvRowTarget& to,
                 const PrepareKeys& prepare, const KvRowPlace& place,
                 float* scratch, int64_t rows_at_a_time) {
  for (int64_t i = 0; i < count; i += rows_at_a_time) {
    const int64_t n = std::min(rows_at_a_time, count - i);
    const KvRowTarget part = RowsTo(to, i);
    LoadRows(RowsFrom(from, i), n, to.width, scratch);
    if (prepare) prepare(place.kv_head, place.first + i, n, scratch);
    StoreRows(scratch, n, part);
  }
}

void ConvertOnStack(const KvRowSource& from, int64_t count,
                    const KvRowTarget& to, const PrepareKeys& prepare,
                    const KvRowPlace& place) {
  float stack[kStackFloats];
  const int64_t fitting = kStackFloats / std::max<int64_t>(to.width, 1);
  ConvertRows(from, count, to, prepare, place, stack, fitting);
}

}  // namespace

int64_t WideRowFloats(int64_t width) {
  return width > kStackFloats ? width : 0;
}

void WriteKvRows(const KvRowSource& from, int64_t count, const KvRowTarget& to,
                 const PrepareKeys& prepare, const KvRowPlace& place,
                 std::vector<float>& wide) {
  const bool side_by_side = from.element_stride == 1 || to.width <= 1;
  const bool same = from.dtype == to.dtype && to.scales == nullptr;
  if (!prepare && same && side_by_side) {
    if (to.width > 0) CopyUnchanged(from, count, to);
    return;
  }
  if (WideRowFloats(to.width) > 0) {
    return ConvertRows(from, count, to, prepare, place, wide.data(), 1);
  }
  ConvertOnStack(from, count, to, prepare, place);
}

}  // namespace attn
