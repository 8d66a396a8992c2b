#include "engine/kernels/softmax_keys.h"

#include <algorithm>
#include <cmath>

#include "engine/kernels/gradient_rows.h"
#include "engine/kernels/head_rows.h"
#include "engine/tile/row_math.h"

namespace attn {
namespace {

constexpr int64_t kChunkKeys = 8 * kPanelKeys;

size_t PaddedFloats(int64_t count) {
  return Arena::Padded(static_cast<size_t>(count) * sizeof(float));
}

int64_t CountNonFiniteIn(ConstMatrix rows, int64_t count, int64_t width) {
  if (rows.stride == width) return CountNonFinite(rows.data, count * width);
  int64_t found = 0;
  for (int64_t r = 0; r < count; ++r) {
    found += CountNonFinite(rows.data + r * rows.stride, width);
  }
  return found;
}

// With 0 for what is infinite or NaN; returns how many that were. `to` has rows
// of `stride` >= width.
int64_t CopyFinite(ConstMatrix rows, int64_t count, int64_t width, float* to,
                   int64_t stride) {
  const int64_t nonfinite = CountNonFiniteIn(rows, count, width);
  for (int64_t key = 0; key < count; ++key) {
    std::copy_n(rows.data + key * rows.stride, width, to);
    std::fill(to + width, to + stride, 0.0F);
    for (int64_t i = 0; nonfinite > 0 && i < width; ++i) {
      if (!std::isfinite(to[i])) to[i] = 0;
    }
    to += stride;
  }
  return nonfinite;
}

bool AllZero(const float* row, int64_t count) {
  return std::all_of(row, row + count, [](float x) { return x == 0; });
}

}  // namespace

SoftmaxKeys::SoftmaxKeys(const Problem& problem, const Pipeline& pipeline,
                         int64_t lanes)
    : shape_(problem.shape),
      pipeline_(pipeline),
      prepares_(pipeline.prepares(Side::kKey)),
      width_(pipeline.prepared_width()),
      padded_width_(RoundUpToColumnUnit(width_)),
      padded_v_dim_(RoundUpToColumnUnit(shape_.v_dim)),
      panels_((shape_.kv_length + kPanelKeys - 1) / kPanelKeys),
      lanes_(lanes),
      chunks_per_plane_((shape_.kv_length + kChunkKeys - 1) / kChunkKeys),
      chunks_(problem.shape, kChunkKeys) {}

size_t SoftmaxKeys::call_scratch_bytes() const {
  const int64_t panel_keys = planes() * panels_ * kPanelKeys;
  const int64_t keys = planes() * shape_.kv_length;
  return PaddedFloats(panel_keys * width_) +
         PaddedFloats(panel_keys * shape_.v_dim) +
         PaddedFloats((1 + lanes_) * keys * padded_width_) +
         PaddedFloats(lanes_ * keys * padded_v_dim_);
}

SoftmaxKeyPlane SoftmaxKeys::PlaneOf(std::byte* memory, int64_t plane,
                                     int64_t lane) const {
  const auto take = [&memory](int64_t count) {
    auto* taken = reinterpret_cast<float*>(memory);
    memory += PaddedFloats(count);
    return taken;
  };
  const int64_t panel_keys = panels_ * kPanelKeys;
  const int64_t keys = shape_.kv_length;
  const int64_t first = (plane * lanes_ + lane) * keys;
  SoftmaxKeyPlane result;
  result.key_panels =
      take(planes() * panel_keys * width_) + plane * panel_keys * width_;
  result.value_panels = take(planes() * panel_keys * shape_.v_dim) +
                        plane * panel_keys * shape_.v_dim;
  float* rows = take((1 + lanes_) * planes() * keys * padded_width_);
  result.key_rows = rows + plane * keys * padded_width_;
  result.key_gradient = rows + (planes() * keys + first) * padded_width_;
  result.value_gradient =
      take(lanes_ * planes() * keys * padded_v_dim_) + first * padded_v_dim_;
  return result;
}

std::array<FloatJobArray, 1> SoftmaxKeys::FloatsOf(Rows& rows) const {
  const int64_t width = std::max({shape_.k_dim, shape_.v_dim, width_});
  return {{{&rows.rows, kPanelKeys * width}}};
}

std::array<JobArray, 4> SoftmaxKeys::DoublesOf(Rows& rows) const {
  const int64_t keys = prepares_ ? kPanelKeys : 0;
  return {
      {{&rows.kept, pipeline_.kept_stages(Side::kKey) * keys * shape_.k_dim},
       {&rows.prepared, keys * width_},
       {&rows.compared, keys * width_},
       {&rows.gradient, keys * shape_.k_dim}}};
}

size_t SoftmaxKeys::worker_scratch_bytes() const {
  Rows rows;
  return JobBytes(FloatsOf(rows)) + JobBytes(DoublesOf(rows));
}

void SoftmaxKeys::Prepare(const KernelCall& call, std::byte* memory,
                          int64_t job, Arena& arena) const {
  const KeyChunk chunk = chunks_.At({shape_, *call.args}, job);
  const int64_t plane_index = chunk.batch * shape_.kv_heads + chunk.kv_head;
  const int64_t begin = chunk.key_begin;
  const int64_t all = std::min(kChunkKeys, shape_.kv_length - begin);
  for (int64_t lane = 0; lane < lanes_; ++lane) {
    const SoftmaxKeyPlane plane = PlaneOf(memory, plane_index, lane);
    std::fill_n(plane.key_gradient + begin * padded_width_, all * padded_width_,
                0.0F);
    std::fill_n(plane.value_gradient + begin * padded_v_dim_,
                all * padded_v_dim_, 0.0F);
  }
  Rows rows;
  TakeJobMemory(FloatsOf(rows), arena);
  TakeJobMemory(DoublesOf(rows), arena);
  const SoftmaxKeyPlane plane = PlaneOf(memory, plane_index, 0);
  for (int64_t key = 0; key < chunk.keys; key += kPanelKeys) {
    PreparePanel(call,
                 {chunk.batch, chunk.kv_head, begin + key,
                  std::min(kPanelKeys, chunk.keys - key)},
                 plane, rows);
  }
}

void SoftmaxKeys::PreparePanel(const KernelCall& call, const RowSpan& span,
                               const SoftmaxKeyPlane& plane,
                               const Rows& rows) const {
  const int64_t count = span.count;
  const ConstMatrix v = ValueRows(call, span.batch, span.head)
                            .Matrix(span.begin, count, rows.rows);
  call.counters->nonfinite_v.fetch_add(CountNonFiniteIn(v, count, shape_.v_dim),
                                       std::memory_order_relaxed);
  PackPanel(v.data, v.stride, count, shape_.v_dim,
            plane.value_panels + span.begin * shape_.v_dim);
  const ConstMatrix k = LoadKeys(call, span, rows);
  PackPanel(k.data, k.stride, count, width_,
            plane.key_panels + span.begin * width_);
  int64_t nonfinite_k =
      CopyFinite(k, count, width_, plane.key_rows + span.begin * padded_width_,
                 padded_width_);
  // Of the keys themselves, not of what they became.
  if (prepares_) nonfinite_k = CountNonFinite(rows.kept, count * shape_.k_dim);
  call.counters->nonfinite_k.fetch_add(nonfinite_k, std::memory_order_relaxed);
}

// Prepared rows.
ConstMatrix SoftmaxKeys::LoadKeys(const KernelCall& call, const RowSpan& span,
                                  const Rows& rows) const {
  const HeadRows keys = KeyRows(call, span.batch, span.head);
  if (!prepares_) return keys.Matrix(span.begin, span.count, rows.rows);
  keys.Load(span.begin, span.count, rows.kept);
  const double* prepared = pipeline_.PrepareAndKeep(
      {shape_, *call.args}, Side::kKey, {span, rows.kept, rows.prepared});
  std::transform(prepared, prepared + span.count * width_, rows.rows,
                 [](double x) { return static_cast<float>(x); });
  return {rows.rows, width_};
}

void SoftmaxKeys::Finish(const KernelCall& call, std::byte* memory, int64_t job,
                         const GradientSink& sink, Arena& arena) const {
  const KeyChunk chunk = chunks_.At({shape_, *call.args}, job);
  const int64_t plane = chunk.batch * shape_.kv_heads + chunk.kv_head;
  const int64_t end = std::min(chunk.key_begin + kChunkKeys, shape_.kv_length);
  Rows rows;
  TakeJobMemory(FloatsOf(rows), arena);
  TakeJobMemory(DoublesOf(rows), arena);
  for (int64_t key = chunk.key_begin; key < end; key += kPanelKeys) {
    const RowSpan span{chunk.batch, chunk.kv_head, key,
                       std::min(kPanelKeys, end - key)};
    AddLanes(memory, plane, span);
    FinishPanel(call, span, PlaneOf(memory, plane, 0), rows, sink);
  }
}

// To lane 0, in order.
void SoftmaxKeys::AddLanes(std::byte* memory, int64_t plane,
                           const RowSpan& span) const {
  const SoftmaxKeyPlane sum = PlaneOf(memory, plane, 0);
  const auto add = [&span](const float* from, int64_t width, float* to) {
    const int64_t end = (span.begin + span.count) * width;
    for (int64_t i = span.begin * width; i < end; ++i) to[i] += from[i];
  };
  for (int64_t lane = 1; lane < lanes_; ++lane) {
    const SoftmaxKeyPlane other = PlaneOf(memory, plane, lane);
    add(other.key_gradient, padded_width_, sum.key_gradient);
    add(other.value_gradient, padded_v_dim_, sum.value_gradient);
  }
}

void SoftmaxKeys::FinishPanel(const KernelCall& call, const RowSpan& span,
                              const SoftmaxKeyPlane& plane, const Rows& rows,
                              const GradientSink& sink) const {
  StoreHeadRows(call, call.gradients.v, span,
                plane.value_gradient + span.begin * padded_v_dim_,
                padded_v_dim_);
  const float* gradient = plane.key_gradient + span.begin * padded_width_;
  if (!prepares_) {
    return StoreHeadRows(call, call.gradients.k, span, gradient, padded_width_);
  }
  ClearHeadRows(call, call.gradients.k, span);
  const auto is_zero = [&](int64_t key) {
    return AllZero(gradient + key * padded_width_, width_);
  };
  // Keys that no row sees are not read again: there may be NaN in them.
  for (int64_t key = 0; key < span.count;) {
    const bool zero = is_zero(key);
    int64_t last = key + 1;
    while (last < span.count && is_zero(last) == zero) ++last;
    if (!zero) {
      FinishRun(call, {span.batch, span.head, span.begin + key, last - key},
                plane, rows, sink);
    }
    key = last;
  }
}

void SoftmaxKeys::FinishRun(const KernelCall& call, const RowSpan& span,
                            const SoftmaxKeyPlane& plane, const Rows& rows,
                            const GradientSink& sink) const {
  const CallView view{shape_, *call.args};
  const float* gradient = plane.key_gradient + span.begin * padded_width_;
  for (int64_t key = 0; key < span.count; ++key) {
    std::copy_n(gradient + key * padded_width_, width_,
                rows.compared + key * width_);
  }
  KeyRows(call, span.batch, span.head).Load(span.begin, span.count, rows.kept);
  const RowsRecord record{span, rows.kept, rows.prepared};
  pipeline_.PrepareAndKeep(view, Side::kKey, record);
  pipeline_.PrepareBackward(view, Side::kKey, record,
                            {rows.compared, rows.gradient}, sink);
  StoreHeadRows(call, call.gradients.k, span, rows.gradient);
}

}  // namespace attn
