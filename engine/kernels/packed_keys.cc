#include "engine/kernels/packed_keys.h"

#include <algorithm>

#include "engine/kernels/head_rows.h"
#include "engine/tile/convert.h"
#include "engine/tile/row_math.h"

namespace attn {

PackedKeys::PackedKeys(const Problem& problem, const Pipeline& pipeline,
                       KeyFormat format)
    : shape_(problem.shape),
      pipeline_(pipeline),
      format_(format),
      prepares_(pipeline.prepares(Side::kKey)),
      width_(pipeline.prepared_width()) {
  const int64_t panels = (shape_.kv_length + kPanelKeys - 1) / kPanelKeys;
  const size_t element_bytes =
      format == KeyFormat::kPanels ? sizeof(float) : sizeof(uint16_t);
  plane_bytes_ = Arena::Padded(
      static_cast<size_t>(panels * kPanelKeys * width_) * element_bytes);
}

int64_t PackedKeys::scratch_elements() const {
  return kPanelKeys * (shape_.k_dim + (prepares_ ? width_ : 0));
}

// Returns how many elements are infinite or NaN.
int64_t PackedKeys::PackRows(const HeadRows& k, const RowSpan& span,
                             std::byte* plane, float* scratch) const {
  k.Load(span.begin, span.count, scratch);
  auto* const rows = reinterpret_cast<uint16_t*>(plane) + span.begin * width_;
  const int64_t elements = span.count * width_;
  FloatToBF16(scratch, rows, elements);  // they came so: exact
  std::fill_n(rows + elements, (kPanelKeys - span.count) * width_, uint16_t{0});
  return CountNonFinite(scratch, elements);
}

void PackedKeys::Pack(const KernelCall& call, const KeyChunk& chunk,
                      std::byte* plane, float* scratch) const {
  const HeadRows k = KeyRows(call, chunk.batch, chunk.kv_head);
  float* const prepared = scratch + kPanelKeys * shape_.k_dim;
  int64_t found = 0;
  RowSpan span{chunk.batch, chunk.kv_head, chunk.key_begin, 0};
  const int64_t end = chunk.key_begin + chunk.keys;
  for (; span.begin < end; span.begin += kPanelKeys) {
    span.count = std::min(kPanelKeys, end - span.begin);
    if (format_ == KeyFormat::kBf16Rows) {
      found += PackRows(k, span, plane, scratch);
      continue;
    }
    ConstMatrix rows{scratch, shape_.k_dim};
    if (k.is_matrix() && !prepares_) {
      rows = k.MatrixFrom(span.begin);
      found += CountNonFiniteRows(k, span.begin, span.count, scratch);
    } else {
      k.Load(span.begin, span.count, scratch);
      found += CountNonFinite(scratch, span.count * shape_.k_dim);
    }
    if (prepares_) {
      rows = {pipeline_.Prepare({shape_, *call.args}, Side::kKey, span, scratch,
                                prepared),
              width_};
    }
    float* panel = reinterpret_cast<float*>(plane) + span.begin * width_;
    PackPanel(rows.data, rows.stride, span.count, width_, panel);
  }
  if (found == 0) return;
  call.counters->nonfinite_k.fetch_add(found, std::memory_order_relaxed);
}

}  // namespace attn
