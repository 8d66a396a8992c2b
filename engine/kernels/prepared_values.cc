#include "engine/kernels/prepared_values.h"

#include <algorithm>
#include <cmath>

#include "engine/tile/row_math.h"

namespace attn {
namespace {

// Replaces infinite and NaN elements by 0 and says whether there were any.
bool Clean(float* row, int64_t count) {
  bool found = false;
  for (int64_t i = 0; i < count; ++i) {
    if (std::isfinite(row[i])) continue;
    row[i] = 0;
    found = true;
  }
  return found;
}

}  // namespace

PreparedValues::PreparedValues(const Problem& problem, int64_t chunk_keys,
                               int64_t column_unit)
    : v_dim_(problem.shape.v_dim),
      chunk_keys_(chunk_keys),
      kv_length_(problem.shape.kv_length),
      width_((v_dim_ + column_unit - 1) / column_unit * column_unit),
      widens_(problem.kv_dtype != DType::kF32 || width_ != v_dim_),
      flags_bytes_(Arena::Padded(
          static_cast<size_t>((kv_length_ + chunk_keys - 1) / chunk_keys))),
      key_bytes_(Arena::Padded(static_cast<size_t>(kv_length_))) {
  if (widens_) {
    wide_bytes_ =
        Arena::Padded(static_cast<size_t>(kv_length_ * width_) * sizeof(float));
  }
}

int64_t PreparedValues::chunk_elements() const {
  return std::min(chunk_keys_, kv_length_) * width_;
}

void PreparedValues::Load(const HeadRows& v, const KeyChunk& part,
                          float* rows) const {
  if (width_ == v_dim_) return v.Load(part.key_begin, part.keys, rows);
  for (int64_t key = 0; key < part.keys; ++key) {
    float* row = rows + key * width_;
    v.Load(part.key_begin + key, 1, row);
    std::fill(row + v_dim_, row + width_, 0.0F);
  }
}

void PreparedValues::Prepare(const KernelCall& call, const KeyChunk& chunk,
                             std::byte* plane, float* scratch) const {
  if (chunk.keys == 0) return;
  const HeadRows v = ValueRows(call, chunk.batch, chunk.kv_head);
  float* wide = Wide(plane, chunk.key_begin);
  int64_t found = 0;
  if (widens_) {
    Load(v, chunk, wide);
    found = CountNonFinite(wide, chunk.keys * width_);
  } else {
    found = CountNonFiniteRows(v, chunk.key_begin, chunk.keys, scratch);
  }
  auto* const chunk_flags = reinterpret_cast<uint8_t*>(plane);
  chunk_flags[chunk.key_begin / chunk_keys_] = found == 0 ? 0 : 1;
  if (found == 0) return;
  call.counters->nonfinite_v.fetch_add(found, std::memory_order_relaxed);
  auto* const key_flags = reinterpret_cast<uint8_t*>(plane + flags_bytes_);
  for (int64_t key = 0; key < chunk.keys; ++key) {
    v.Load(chunk.key_begin + key, 1, scratch);
    key_flags[chunk.key_begin + key] = Clean(scratch, v_dim_) ? 1 : 0;
    if (widens_) Clean(wide + key * width_, v_dim_);
  }
}

ConstMatrix PreparedValues::Values(const KernelCall& call, const KeyChunk& part,
                                   const std::byte* plane,
                                   float* scratch) const {
  if (widens_) {
    return {Wide(const_cast<std::byte*>(plane), part.key_begin), width_};
  }
  const HeadRows v = ValueRows(call, part.batch, part.kv_head);
  const bool clean = ChunkIsClean(plane, part.key_begin);
  if (clean && v.is_matrix()) return v.MatrixFrom(part.key_begin);
  Load(v, part, scratch);
  if (!clean) Clean(scratch, part.keys * width_);
  return {scratch, width_};
}

}  // namespace attn
