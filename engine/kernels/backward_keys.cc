#include "engine/kernels/backward_keys.h"

#include <algorithm>

#include "engine/kernels/gradient_rows.h"
#include "engine/kernels/head_rows.h"
#include "engine/tile/row_math.h"

namespace attn {
namespace {

// Few enough that a late call can be cancelled soon though projections are
// plain loops.
constexpr int64_t kChunkKeys = 64;

size_t PaddedDoubles(int64_t count) {
  return Arena::Padded(static_cast<size_t>(count) * sizeof(double));
}

}  // namespace

BackwardKeys::BackwardKeys(const Problem& problem, const Pipeline& pipeline)
    : shape_(problem.shape),
      pipeline_(pipeline),
      width_(pipeline.prepared_width()),
      chunks_per_plane_((shape_.kv_length + kChunkKeys - 1) / kChunkKeys),
      chunks_(problem.shape, kChunkKeys) {}

size_t BackwardKeys::call_scratch_bytes() const {
  const int64_t keys = shape_.batch * shape_.kv_heads * shape_.kv_length;
  return 2 * PaddedDoubles(keys * width_) + PaddedDoubles(keys * shape_.v_dim) +
         Arena::Padded(static_cast<size_t>(keys));
}

std::array<JobArray, 3> BackwardKeys::ArraysOf(Rows& rows) const {
  return {
      {{&rows.kept,
        pipeline_.kept_stages(Side::kKey) * kChunkKeys * shape_.k_dim},
       {&rows.prepared, kChunkKeys * width_},
       {&rows.gradient, kChunkKeys * std::max(shape_.k_dim, shape_.v_dim)}}};
}

size_t BackwardKeys::worker_scratch_bytes() const {
  Rows rows;
  return JobBytes(ArraysOf(rows));
}

KeyPlane BackwardKeys::PlaneOf(std::byte* memory, int64_t plane) const {
  const int64_t keys = shape_.batch * shape_.kv_heads * shape_.kv_length;
  const int64_t first = plane * shape_.kv_length;
  const auto take = [&memory](size_t bytes) {
    std::byte* taken = memory;
    memory += bytes;
    return taken;
  };
  const auto rows = [&take, keys, first](int64_t width) {
    return reinterpret_cast<double*>(take(PaddedDoubles(keys * width))) +
           first * width;
  };
  KeyPlane result;
  result.prepared = rows(width_);
  result.gradient = rows(width_);
  result.value_gradient = rows(shape_.v_dim);
  result.seen = reinterpret_cast<uint8_t*>(memory) + first;
  return result;
}

void BackwardKeys::Prepare(const KernelCall& call, std::byte* memory,
                           int64_t job, Arena& arena) const {
  const CallView view{shape_, *call.args};
  const KeyChunk chunk = chunks_.At(view, job);
  const KeyPlane plane =
      PlaneOf(memory, chunk.batch * shape_.kv_heads + chunk.kv_head);
  const int64_t all = std::min(kChunkKeys, shape_.kv_length - chunk.key_begin);
  const int64_t begin = chunk.key_begin;
  std::fill_n(plane.gradient + begin * width_, all * width_, 0.0);
  std::fill_n(plane.value_gradient + begin * shape_.v_dim, all * shape_.v_dim,
              0.0);
  std::fill_n(plane.seen + begin, all, uint8_t{0});
  if (chunk.keys == 0) return;

  Rows rows;
  TakeJobMemory(ArraysOf(rows), arena);
  const HeadRows v = ValueRows(call, chunk.batch, chunk.kv_head);
  call.counters->nonfinite_v.fetch_add(
      CountNonFiniteRows(v, begin, chunk.keys, rows.gradient),
      std::memory_order_relaxed);
  KeyRows(call, chunk.batch, chunk.kv_head).Load(begin, chunk.keys, rows.kept);
  call.counters->nonfinite_k.fetch_add(
      CountNonFinite(rows.kept, chunk.keys * shape_.k_dim),
      std::memory_order_relaxed);
  const RowsRecord record{{chunk.batch, chunk.kv_head, begin, chunk.keys},
                          rows.kept,
                          rows.prepared};
  std::copy_n(pipeline_.PrepareAndKeep(view, Side::kKey, record),
              chunk.keys * width_, plane.prepared + begin * width_);
}

void BackwardKeys::Finish(const KernelCall& call, std::byte* memory,
                          int64_t job, const GradientSink& sink,
                          Arena& arena) const {
  const KeyChunk chunk = chunks_.At({shape_, *call.args}, job);
  const KeyPlane plane =
      PlaneOf(memory, chunk.batch * shape_.kv_heads + chunk.kv_head);
  Rows rows;
  TakeJobMemory(ArraysOf(rows), arena);
  const int64_t end = std::min(chunk.key_begin + kChunkKeys, shape_.kv_length);
  const RowSpan range{chunk.batch, chunk.kv_head, chunk.key_begin,
                      end - chunk.key_begin};
  StoreHeadRows(call, call.gradients.k, range, nullptr);
  int64_t key = chunk.key_begin;
  while (key < end) {
    int64_t last = key + 1;
    while (last < end && plane.seen[last] == plane.seen[key]) ++last;
    if (plane.seen[key] != 0) {
      const RowSpan span{chunk.batch, chunk.kv_head, key, last - key};
      FinishRun(call, span, plane, rows, sink);
    }
    key = last;
  }
  StoreHeadRows(call, call.gradients.v, range,
                plane.value_gradient + chunk.key_begin * shape_.v_dim);
}

void BackwardKeys::FinishRun(const KernelCall& call, const RowSpan& span,
                             const KeyPlane& plane, const Rows& rows,
                             const GradientSink& sink) const {
  const CallView view{shape_, *call.args};
  KeyRows(call, span.batch, span.head).Load(span.begin, span.count, rows.kept);
  const RowsRecord record{span, rows.kept, rows.prepared};
  pipeline_.PrepareAndKeep(view, Side::kKey, record);
  pipeline_.PrepareBackward(
      view, Side::kKey, record,
      {plane.gradient + span.begin * width_, rows.gradient}, sink);
  StoreHeadRows(call, call.gradients.k, span, rows.gradient);
}

}  // namespace attn
