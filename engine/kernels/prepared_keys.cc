#include "engine/kernels/prepared_keys.h"

#include <algorithm>

#include "engine/tile/row_math.h"
#include "engine/tile/tile_products.h"

namespace attn {

PreparedKeys::PreparedKeys(const Problem& problem, const Pipeline& pipeline,
                           int64_t chunk_keys)
    : shape_(problem.shape),
      pipeline_(pipeline),
      is_packed_(pipeline.score().is_dot()),
      key_width_(pipeline.prepared_width()),
      chunks_(problem.shape, chunk_keys),
      packed_(problem, pipeline),
      values_(problem, chunk_keys, kColumnUnit),
      key_plane_bytes_(is_packed_
                           ? packed_.plane_bytes()
                           : Arena::Padded(static_cast<size_t>(
                                               shape_.kv_length * key_width_) *
                                           sizeof(float))) {}

size_t PreparedKeys::call_scratch_bytes() const {
  const auto planes = static_cast<size_t>(shape_.batch * shape_.kv_heads);
  return planes * (key_plane_bytes_ + values_.plane_bytes());
}

int64_t PreparedKeys::chunk_elements() const {
  const int64_t keys = std::min(chunks_.chunk_keys(), shape_.kv_length);
  return std::max({is_packed_ ? packed_.scratch_elements()
                              : keys * std::max(shape_.k_dim, key_width_),
                   values_.chunk_elements()});
}

std::byte* PreparedKeys::KeyPlane(const KernelCall& call,
                                  const KeyChunk& part) const {
  return call.scratch + static_cast<size_t>(PlaneOf(part)) * key_plane_bytes_;
}

std::byte* PreparedKeys::ValuePlane(const KernelCall& call,
                                    const KeyChunk& part) const {
  const auto planes = static_cast<size_t>(shape_.batch * shape_.kv_heads);
  return call.scratch + planes * key_plane_bytes_ +
         static_cast<size_t>(PlaneOf(part)) * values_.plane_bytes();
}

float* PreparedKeys::Rows(const KernelCall& call, const KeyChunk& part) const {
  return reinterpret_cast<float*>(KeyPlane(call, part)) +
         part.key_begin * key_width_;
}

void PreparedKeys::Prepare(const KernelCall& call, int64_t job,
                           float* scratch) const {
  const KeyChunk chunk = chunks_.At({shape_, *call.args}, job);
  if (is_packed_) {
    packed_.Pack(call, chunk, KeyPlane(call, chunk), scratch);
  } else {
    PrepareRows(call, chunk, scratch);
  }
  values_.Prepare(call, chunk, ValuePlane(call, chunk), scratch);
}

void PreparedKeys::PrepareRows(const KernelCall& call, const KeyChunk& chunk,
                               float* scratch) const {
  const HeadRows k = KeyRows(call, chunk.batch, chunk.kv_head);
  float* to = Rows(call, chunk);
  k.Load(chunk.key_begin, chunk.keys, scratch);
  const int64_t found = CountNonFinite(scratch, chunk.keys * shape_.k_dim);
  call.counters->nonfinite_k.fetch_add(found, std::memory_order_relaxed);
  const RowSpan span{chunk.batch, chunk.kv_head, chunk.key_begin, chunk.keys};
  const float* rows =
      pipeline_.Prepare({shape_, *call.args}, Side::kKey, span, scratch, to);
  if (rows == scratch) std::copy_n(rows, chunk.keys * key_width_, to);
}

const float* PreparedKeys::Panel(const KernelCall& call,
                                 const KeyChunk& part) const {
  return packed_.Panel(KeyPlane(call, part), part.key_begin);
}

ConstMatrix PreparedKeys::Keys(const KernelCall& call,
                               const KeyChunk& part) const {
  return {Rows(call, part), key_width_};
}

ConstMatrix PreparedKeys::Values(const KernelCall& call, const KeyChunk& part,
                                 float* scratch) const {
  return values_.Values(call, part, ValuePlane(call, part), scratch);
}

bool PreparedKeys::ChunkIsClean(const KernelCall& call,
                                const KeyChunk& part) const {
  return values_.ChunkIsClean(ValuePlane(call, part), part.key_begin);
}

bool PreparedKeys::KeyIsClean(const KernelCall& call, const KeyChunk& part,
                              int64_t key) const {
  return values_.KeyIsClean(ValuePlane(call, part), key);
}

}  // namespace attn
