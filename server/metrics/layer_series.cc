#include "server/metrics/layer_series.h"

#include <algorithm>

namespace attn {
namespace {

constexpr char kOtherLayer[] = "other";

std::string LayerHeadLabels(std::string_view layer, std::string_view head) {
  return LabelText({{"head", head}, {"layer", layer}});
}

}  // namespace

struct LayerSeries::Head {
  explicit Head(std::string labels_text) : labels(std::move(labels_text)) {}

  void Add(const ObservedHead& seen) {
    if (seen.rows == 0) return;
    rows.fetch_add(static_cast<uint64_t>(seen.rows), std::memory_order_relaxed);
    entropy_ratios.fetch_add(seen.entropy_ratios, std::memory_order_relaxed);
    peak_weights.fetch_add(seen.peak_weights, std::memory_order_relaxed);
    if (seen.saturated_rows == 0) return;
    saturated_rows.fetch_add(static_cast<uint64_t>(seen.saturated_rows),
                             std::memory_order_relaxed);
  }

  const std::string labels;
  std::atomic<uint64_t> rows{0};
  std::atomic<uint64_t> saturated_rows{0};
  std::atomic<double> entropy_ratios{0};
  std::atomic<double> peak_weights{0};
};

struct LayerSeries::OfLayer {
  OfLayer(std::string_view layer, size_t max_heads)
      : name(layer), heads(max_heads) {}

  const std::string name;
  // As many as there can ever be; the first `count` are there.
  std::vector<std::unique_ptr<Head>> heads;
  std::atomic<size_t> count{0};
};

LayerSeries::LayerSeries()
    : other_(std::make_unique<Head>(LayerHeadLabels(kOtherLayer, kOtherLayer))),
      layers_(kMaxLayerHeads) {}

LayerSeries::~LayerSeries() = default;

std::unique_ptr<LayerSeries::OfLayer> LayerSeries::MakeLayer(
    std::string_view name) {
  const size_t places = places_left_.load(std::memory_order_relaxed);
  if (places == 0) return nullptr;
  return std::make_unique<OfLayer>(name, places);
}

void LayerSeries::Grow(OfLayer& layer, size_t count) {
  const std::lock_guard lock(growing_);
  size_t have = layer.count.load(std::memory_order_relaxed);
  size_t left = places_left_.load(std::memory_order_relaxed);
  for (; have < count && left > 0; ++have, --left) {
    layer.heads[have] = std::make_unique<Head>(
        LayerHeadLabels(layer.name, std::to_string(have)));
  }
  places_left_.store(left, std::memory_order_relaxed);
  layer.count.store(have, std::memory_order_release);
}

void LayerSeries::HeadsObserved(std::string_view name,
                                std::span<const ObservedHead> heads) {
  if (heads.empty()) return;
  OfLayer* layer =
      places_left_.load(std::memory_order_relaxed) == 0
          ? layers_.Find(name)
          : layers_.FindOrAdd(name, [&] { return MakeLayer(name); });
  size_t own = 0;
  if (layer != nullptr) {
    own = layer->count.load(std::memory_order_acquire);
    if (own < heads.size() &&
        places_left_.load(std::memory_order_relaxed) > 0) {
      Grow(*layer, heads.size());
      own = layer->count.load(std::memory_order_relaxed);
    }
  }
  for (size_t i = 0; i < heads.size(); ++i) {
    (i < own ? *layer->heads[i] : *other_).Add(heads[i]);
  }
}

template <typename Visit>
void LayerSeries::ForEachHead(Visit visit) const {
  visit(std::as_const(*other_));
  layers_.ForEach([&](const OfLayer& layer) {
    const size_t count = layer.count.load(std::memory_order_acquire);
    for (size_t i = 0; i < count; ++i) visit(std::as_const(*layer.heads[i]));
  });
}

void LayerSeries::Write(TextPage& page) const {
  const auto write = [&](std::string_view suffix, auto number) {
    ForEachHead([&](const Head& head) {
      page.Line(suffix, head.labels,
                (head.*number).load(std::memory_order_relaxed));
    });
  };
  page.Family("attn_layer_row_entropy_ratio",
              "Entropy over ln(visible keys) of sampled rows.",
              MetricKind::kSummary);
  write("_sum", &Head::entropy_ratios);
  write("_count", &Head::rows);
  page.Family("attn_layer_row_max_weight", "Largest weight of sampled rows.",
              MetricKind::kSummary);
  write("_sum", &Head::peak_weights);
  write("_count", &Head::rows);
  page.Family("attn_layer_saturated_rows_total",
              "Sampled rows with a largest weight of 0.99 or more.",
              MetricKind::kCounter);
  write("", &Head::saturated_rows);
}

}  // namespace attn
