// What is counted by layer and head.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/metrics/metrics.h"
#include "server/metrics/name_table.h"
#include "server/metrics/text_page.h"

namespace attn {

// How many pairs of layer and head have series of their own, beside "other",
// "other": 16 layers of 32 heads.
inline constexpr size_t kMaxLayerHeads = 512;

// Pairs get their places in the order in which they are first used, the heads
// of a layer from the first on, and keep them. Thread-safe: only the first use
// of a pair waits, for another such.
class LayerSeries {
 public:
  LayerSeries();
  ~LayerSeries();

  // heads[i] is what was seen of head i.
  void HeadsObserved(std::string_view layer,
                     std::span<const ObservedHead> heads);
  void Write(TextPage& page) const;

 private:
  struct Head;
  struct OfLayer;

  std::unique_ptr<OfLayer> MakeLayer(std::string_view name);
  // Places for the heads before `count`, as far as there are any.
  void Grow(OfLayer& layer, size_t count);
  template <typename Visit>
  void ForEachHead(Visit visit) const;

  std::unique_ptr<Head> other_;
  NameTable<OfLayer> layers_;
  std::mutex growing_;
  // Pairs without a place; changes under growing_.
  std::atomic<size_t> places_left_{kMaxLayerHeads};
};

}  // namespace attn
