#include "engine/kernels/prepared_keys.h"

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

void CleanRows(float* rows, int64_t count, int64_t width) {
  for (int64_t r = 0; r < count; ++r) Clean(rows + r * width, width);
}

}  // namespace

PreparedKeys::PreparedKeys(const Problem& problem, const Pipeline& pipeline,
                           int64_t chunk_keys)
    : shape_(problem.shape),
      pipeline_(pipeline),
      widen_keys_(problem.dtype != DType::kF32 ||
                  pipeline.prepares(Side::kKey) || !pipeline.score().is_dot()),
      widen_values_(problem.dtype != DType::kF32),
      key_width_(pipeline.prepared_width()),
      chunks_(problem.shape, chunk_keys),
      chunk_flags_bytes_(Arena::Padded(static_cast<size_t>(chunks_.count()) *
                                       sizeof(int64_t))) {
  const auto keys =
      static_cast<size_t>(shape_.batch * shape_.kv_heads * shape_.kv_length);
  const auto bytes = [&](bool widen, int64_t width) {
    return widen ? Arena::Padded(keys * static_cast<size_t>(width) *
                                 sizeof(float))
                 : 0;
  };
  keys_bytes_ = bytes(widen_keys_, key_width_);
  values_bytes_ = bytes(widen_values_, shape_.v_dim);
  key_flags_bytes_ = Arena::Padded(keys);
}

size_t PreparedKeys::call_scratch_bytes() const {
  return keys_bytes_ + values_bytes_ + chunk_flags_bytes_ + key_flags_bytes_;
}

int64_t PreparedKeys::chunk_elements() const {
  return std::min(chunks_.chunk_keys(), shape_.kv_length) *
         std::max({shape_.k_dim, key_width_, shape_.v_dim});
}

float* PreparedKeys::WideKeys(const KernelCall& call,
                              const KeyChunk& part) const {
  const int64_t key =
      (part.batch * shape_.kv_heads + part.kv_head) * shape_.kv_length +
      part.key_begin;
  return reinterpret_cast<float*>(call.scratch) + key * key_width_;
}

float* PreparedKeys::WideValues(const KernelCall& call,
                                const KeyChunk& part) const {
  const int64_t key =
      (part.batch * shape_.kv_heads + part.kv_head) * shape_.kv_length +
      part.key_begin;
  return reinterpret_cast<float*>(call.scratch + keys_bytes_) +
         key * shape_.v_dim;
}

int64_t* PreparedKeys::ChunkFlags(const KernelCall& call) const {
  return reinterpret_cast<int64_t*>(call.scratch + keys_bytes_ + values_bytes_);
}

uint8_t* PreparedKeys::KeyFlags(const KernelCall& call,
                                const KeyChunk& part) const {
  const int64_t first =
      (part.batch * shape_.kv_heads + part.kv_head) * shape_.kv_length;
  return reinterpret_cast<uint8_t*>(call.scratch + keys_bytes_ + values_bytes_ +
                                    chunk_flags_bytes_) +
         first;
}

void PreparedKeys::Prepare(const KernelCall& call, int64_t job,
                           float* scratch) const {
  const KeyChunk chunk = chunks_.At({shape_, *call.args}, job);
  const int64_t in_keys = PrepareKeys(call, chunk, scratch);
  const int64_t in_values = PrepareValues(call, chunk, scratch);
  ChunkFlags(call)[job] = in_values;
  call.counters->nonfinite_k.fetch_add(in_keys, std::memory_order_relaxed);
  call.counters->nonfinite_v.fetch_add(in_values, std::memory_order_relaxed);
}

int64_t PreparedKeys::PrepareKeys(const KernelCall& call, const KeyChunk& chunk,
                                  float* scratch) const {
  const HeadRows k(call.args->k, chunk.batch, chunk.kv_head);
  if (!widen_keys_) {
    return CountNonFiniteRows(k, chunk.key_begin, chunk.keys, scratch);
  }
  float* wide = WideKeys(call, chunk);
  k.Load(chunk.key_begin, chunk.keys, scratch);
  const int64_t found = CountNonFinite(scratch, chunk.keys * shape_.k_dim);
  const RowSpan span{chunk.batch, chunk.kv_head, chunk.key_begin, chunk.keys};
  const float* rows =
      pipeline_.Prepare({shape_, *call.args}, Side::kKey, span, scratch, wide);
  if (rows == scratch) std::copy_n(rows, chunk.keys * key_width_, wide);
  return found;
}

int64_t PreparedKeys::PrepareValues(const KernelCall& call,
                                    const KeyChunk& chunk,
                                    float* scratch) const {
  const HeadRows v(call.args->v, chunk.batch, chunk.kv_head);
  int64_t found = 0;
  if (widen_values_) {
    float* wide = WideValues(call, chunk);
    v.Load(chunk.key_begin, chunk.keys, wide);
    found = CountNonFinite(wide, chunk.keys * shape_.v_dim);
  } else {
    found = CountNonFiniteRows(v, chunk.key_begin, chunk.keys, scratch);
  }
  if (found == 0) return 0;
  uint8_t* flags = KeyFlags(call, chunk);
  for (int64_t key = chunk.key_begin; key < chunk.key_begin + chunk.keys;
       ++key) {
    v.Load(key, 1, scratch);
    flags[key] = Clean(scratch, shape_.v_dim) ? 1 : 0;
  }
  if (widen_values_)
    CleanRows(WideValues(call, chunk), chunk.keys, shape_.v_dim);
  return found;
}

bool PreparedKeys::KeysInPlace(const KernelCall& call) const {
  return widen_keys_ || HeadRows(call.args->k, 0, 0).is_matrix();
}

ConstMatrix PreparedKeys::Keys(const KernelCall& call, const KeyChunk& part,
                               float* scratch) const {
  if (widen_keys_) return {WideKeys(call, part), key_width_};
  const HeadRows k(call.args->k, part.batch, part.kv_head);
  if (k.is_matrix()) return k.MatrixFrom(part.key_begin);
  k.Load(part.key_begin, part.keys, scratch);
  return {scratch, key_width_};
}

ConstMatrix PreparedKeys::Values(const KernelCall& call, const KeyChunk& part,
                                 float* scratch) const {
  if (widen_values_) return {WideValues(call, part), shape_.v_dim};
  const HeadRows v(call.args->v, part.batch, part.kv_head);
  const bool clean = ChunkIsClean(call, part);
  if (clean && v.is_matrix()) return v.MatrixFrom(part.key_begin);
  v.Load(part.key_begin, part.keys, scratch);
  if (!clean) CleanRows(scratch, part.keys, shape_.v_dim);
  return {scratch, shape_.v_dim};
}

bool PreparedKeys::ChunkIsClean(const KernelCall& call,
                                const KeyChunk& part) const {
  return ChunkFlags(
             call)[chunks_.Find(part.batch, part.kv_head, part.key_begin)] == 0;
}

bool PreparedKeys::KeyIsClean(const KernelCall& call, const KeyChunk& part,
                              int64_t key) const {
  return KeyFlags(call, part)[key] == 0;
}

}  // namespace attn
