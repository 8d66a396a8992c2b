#include "server/metrics/variant_series.h"

#include <atomic>

#include "server/metrics/histogram.h"
#include "server/metrics/once_made.h"

namespace attn {
namespace {

constexpr uint64_t kRowsPlace = uint64_t{1} << 63;
constexpr size_t kMaxMethods = 63;

uint64_t PlaceOf(size_t method) { return uint64_t{1} << method; }

}  // namespace

// Those of one method.
struct VariantSeries::Requests {
  Requests(std::string labels_text, size_t codes)
      : labels(std::move(labels_text)), by_code(codes) {}

  const std::string labels;
  std::vector<std::atomic<uint64_t>> by_code;
  Histogram duration{LatencyBounds()};
};

struct VariantSeries::Rows {
  explicit Rows(std::string labels_text) : labels(std::move(labels_text)) {}

  const std::string labels;
  Histogram entropy_ratio{UnitBounds()};
  Histogram max_weight{UnitBounds()};
  std::atomic<uint64_t> saturated{0};
};

struct VariantSeries::OfVariant {
  OfVariant(std::string_view variant, Places places, size_t methods)
      : name(variant), announced(places), requests(methods) {}

  const std::string name;
  // What it may have of its own.
  const Places announced;
  std::vector<OnceMade<Requests>> requests;
  OnceMade<Rows> rows;
};

VariantSeries::VariantSeries(const MetricsInfo& info)
    : variants_(kMaxVariants) {
  for (const std::string& code : info.codes) {
    code_labels_.push_back(LabelText({{"code", code}}) + ",");
  }
  for (const MethodLabels& labels : info.methods) {
    if (methods_.size() == kMaxMethods) break;
    for (const std::string& variant : labels.variants) {
      announced_[variant] |= PlaceOf(methods_.size());
    }
    methods_.push_back(labels.method);
  }
  for (const std::string& variant : info.row_variants) {
    announced_[variant] |= kRowsPlace;
  }
  other_ = MakeVariant(kOtherVariant, ~Places{0});
  for (size_t method = 0; method < methods_.size(); ++method) {
    RequestsOf(*other_, method);
  }
  RowsOf(*other_);
  for (const std::string& name : info.initial_variants) {
    OfVariant& variant = Of(name);
    for (size_t method = 0; method < methods_.size(); ++method) {
      RequestsOf(variant, method);
    }
    RowsOf(variant);
  }
}

VariantSeries::~VariantSeries() = default;

std::unique_ptr<VariantSeries::OfVariant> VariantSeries::MakeVariant(
    std::string_view name, Places announced) const {
  return std::make_unique<OfVariant>(name, announced, methods_.size());
}

VariantSeries::OfVariant& VariantSeries::Of(std::string_view variant) {
  OfVariant* found = variants_.Find(variant);
  if (found != nullptr) return *found;
  const auto announced = announced_.find(variant);
  if (announced == announced_.end()) return *other_;
  found = variants_.FindOrAdd(
      variant, [&] { return MakeVariant(variant, announced->second); });
  return found == nullptr ? *other_ : *found;
}

VariantSeries::Requests& VariantSeries::RequestsOf(OfVariant& variant,
                                                   size_t method) {
  if ((variant.announced & PlaceOf(method)) == 0) {
    return RequestsOf(*other_, method);
  }
  return variant.requests[method].GetOrMake([&] {
    return std::make_unique<Requests>(
        LabelText({{"method", methods_[method]}, {"variant", variant.name}}),
        code_labels_.size());
  });
}

VariantSeries::Rows& VariantSeries::RowsOf(OfVariant& variant) {
  if ((variant.announced & kRowsPlace) == 0) return RowsOf(*other_);
  return variant.rows.GetOrMake([&] {
    return std::make_unique<Rows>(LabelText({{"variant", variant.name}}));
  });
}

void VariantSeries::RequestEnded(std::string_view method,
                                 std::string_view variant, int code,
                                 double seconds) {
  size_t place = 0;
  // A dozen names: no slower than a hash.
  while (place < methods_.size() && methods_[place] != method) ++place;
  if (place == methods_.size()) return;
  Requests& requests = RequestsOf(Of(variant), place);
  const auto index = static_cast<size_t>(code);
  if (index < requests.by_code.size()) {
    requests.by_code[index].fetch_add(1, std::memory_order_relaxed);
  }
  requests.duration.Observe(seconds);
}

void VariantSeries::RowsObserved(std::string_view variant,
                                 std::span<const ObservedRow> rows) {
  Rows& series = RowsOf(Of(variant));
  uint64_t saturated = 0;
  for (const ObservedRow& row : rows) {
    series.entropy_ratio.Observe(row.entropy_ratio);
    series.max_weight.Observe(row.peak_weight);
    saturated += row.saturated ? 1 : 0;
  }
  if (saturated > 0) {
    series.saturated.fetch_add(saturated, std::memory_order_relaxed);
  }
}

template <typename Visit>
void VariantSeries::ForEachVariant(Visit visit) const {
  visit(std::as_const(*other_));
  variants_.ForEach(visit);
}

void VariantSeries::Write(TextPage& page) const {
  WriteRequests(page);
  WriteRows(page);
}

void VariantSeries::WriteRequests(TextPage& page) const {
  page.Family("attn_requests_total", "Requests that ended, by status code.",
              MetricKind::kCounter);
  std::string labels;
  ForEachVariant([&](const OfVariant& variant) {
    for (const auto& place : variant.requests) {
      const Requests* requests = place.get();
      if (requests == nullptr) continue;
      for (size_t code = 0; code < code_labels_.size(); ++code) {
        labels = code_labels_[code];
        labels += requests->labels;
        page.Line("", labels,
                  requests->by_code[code].load(std::memory_order_relaxed));
      }
    }
  });
  page.Family("attn_request_duration_seconds",
              "From the arrival of a request to its reply.",
              MetricKind::kHistogram);
  ForEachVariant([&](const OfVariant& variant) {
    for (const auto& place : variant.requests) {
      const Requests* requests = place.get();
      if (requests != nullptr) page.Lines(requests->labels, requests->duration);
    }
  });
}

void VariantSeries::WriteRows(TextPage& page) const {
  const auto for_each = [this](auto write) {
    ForEachVariant([&](const OfVariant& variant) {
      const Rows* rows = variant.rows.get();
      if (rows != nullptr) write(*rows);
    });
  };
  page.Family("attn_row_entropy_ratio",
              "Entropy over ln(visible keys) of sampled rows.",
              MetricKind::kHistogram);
  for_each(
      [&](const Rows& rows) { page.Lines(rows.labels, rows.entropy_ratio); });
  page.Family("attn_row_max_weight", "Largest weight of sampled rows.",
              MetricKind::kHistogram);
  for_each([&](const Rows& rows) { page.Lines(rows.labels, rows.max_weight); });
  page.Family("attn_saturated_rows_total",
              "Sampled rows with a largest weight of 0.99 or more.",
              MetricKind::kCounter);
  for_each([&](const Rows& rows) {
    page.Line("", rows.labels, rows.saturated.load(std::memory_order_relaxed));
  });
}

}  // namespace attn
