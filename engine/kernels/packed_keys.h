// K packed for the tiled kernels' products, once for all query rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/head_rows.h"
#include "engine/kernels/kernel.h"
#include "engine/kernels/partition.h"
#include "engine/kernels/pipeline.h"
#include "engine/tile/tile_products.h"

namespace attn {

enum class KeyFormat : uint8_t {
  kPanels = 1,
  // Rows of BF16, for products by oneDNN: of K that came so and that no stage
  // transforms.
  kBf16Rows = 2,
};

// K of one KV head of a batch entry as panels (engine/tile/tile_products.h), in
// a plane of memory that the caller owns: widened to f32, transformed and
// projected as the pipeline says; or as rows of BF16. Thread-safe: const;
// chunks are disjoint.
class PackedKeys {
 public:
  // Borrows `pipeline`.
  PackedKeys(const Problem& problem, const Pipeline& pipeline,
             KeyFormat format = KeyFormat::kPanels);

  KeyFormat format() const { return format_; }

  // Bytes of a plane, a multiple of the arena's alignment.
  size_t plane_bytes() const { return plane_bytes_; }
  // Of a prepared key, and of the rows it is multiplied with.
  int64_t width() const { return width_; }
  // Elements of the scratch that Pack() takes.
  int64_t scratch_elements() const;

  // One chunk, which begins with a panel; adds to the call's counters.
  void Pack(const KernelCall& call, const KeyChunk& chunk, std::byte* plane,
            float* scratch) const;

  // The panel that holds `key` [width(), kPanelKeys].
  const float* Panel(const std::byte* plane, int64_t key) const {
    return reinterpret_cast<const float*>(plane) +
           key / kPanelKeys * kPanelKeys * width_;
  }

  // The rows from `key` on [keys, width()]; of whole panels too.
  const uint16_t* Bf16Rows(const std::byte* plane, int64_t key) const {
    return reinterpret_cast<const uint16_t*>(plane) + key * width_;
  }

 private:
  int64_t PackRows(const HeadRows& k, const RowSpan& span, std::byte* plane,
                   float* scratch) const;

  AttentionShape shape_;
  const Pipeline& pipeline_;
  KeyFormat format_;
  bool prepares_;
  int64_t width_;
  size_t plane_bytes_;
};

}  // namespace attn
