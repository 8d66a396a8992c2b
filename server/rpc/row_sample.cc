#include "server/rpc/row_sample.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "engine/core/head_statistics.h"
#include "server/rpc/head_health.h"

namespace attn {
namespace {

// Two histograms cost about 30 ns a row: a microsecond a call.
constexpr size_t kMaxSampledRows = 32;
constexpr size_t kMaxRowsOfHead = 8;

// The golden ratio's fraction: its multiples spread over [0, 1) evenly however
// many there are.
constexpr double kGoldenFraction = 0.6180339887498949;

// Places `first`, `first` + `stride`, ... of `size`.
struct Steps {
  size_t first = 0;
  size_t stride = 1;
};

// At most `limit` places, at least one of a `size` that is not 0.
Steps StepsOver(size_t size, size_t limit, const RowSampling& sampling) {
  const auto wanted =
      static_cast<size_t>(std::ceil(sampling.rate * static_cast<double>(size)));
  const size_t count = std::clamp<size_t>(wanted, 1, limit);
  Steps steps;
  // Rounded up: `count` is a promise.
  steps.stride = (size + count - 1) / count;
  const double turns = static_cast<double>(sampling.turn) * kGoldenFraction;
  steps.first = std::min(
      static_cast<size_t>((turns - std::floor(turns)) *
                          static_cast<double>(std::min(steps.stride, size))),
      size - 1);
  return steps;
}

std::optional<ObservedRow> Observe(const RowStatistics& row) {
  // The entropy of a row of one key is 0 whatever the head does.
  if (row.visible_keys < 2 || !HasLogits(row)) return std::nullopt;
  ObservedRow observed;
  observed.entropy_ratio = EntropyRatio(row);
  observed.peak_weight = row.peak_weight;
  observed.saturated = row.peak_weight >= kSaturatedPeakWeight;
  // One NaN would stay in a sum for as long as the server runs.
  if (!std::isfinite(observed.entropy_ratio + observed.peak_weight)) {
    return std::nullopt;
  }
  return observed;
}

void Add(const ObservedRow& row, ObservedHead& head) {
  ++head.rows;
  head.saturated_rows += row.saturated ? 1 : 0;
  head.entropy_ratios += row.entropy_ratio;
  head.peak_weights += row.peak_weight;
}

}  // namespace

std::vector<ObservedRow> SampleRows(absl::Span<const RowStatistics> rows,
                                    const RowSampling& sampling) {
  std::vector<ObservedRow> sample;
  if (rows.empty()) return sample;
  const Steps steps = StepsOver(rows.size(), kMaxSampledRows, sampling);
  sample.reserve(rows.size() / steps.stride + 1);
  for (size_t i = steps.first; i < rows.size(); i += steps.stride) {
    if (const auto row = Observe(rows[i])) sample.push_back(*row);
  }
  return sample;
}

std::vector<ObservedHead> SampleHeads(absl::Span<const RowStatistics> rows,
                                      int64_t heads, int64_t length,
                                      const RowSampling& sampling) {
  if (rows.empty()) return {};
  const auto head_count = static_cast<size_t>(heads);
  const auto row_count = static_cast<size_t>(length);
  std::vector<ObservedHead> sample(head_count);
  // Those of one head, one batch entry after the other.
  const size_t size = rows.size() / head_count;
  const Steps steps = StepsOver(size, kMaxRowsOfHead, sampling);
  for (size_t head = 0; head < head_count; ++head) {
    for (size_t i = steps.first; i < size; i += steps.stride) {
      const size_t plane = i / row_count * head_count + head;
      const auto row = Observe(rows[plane * row_count + i % row_count]);
      if (row.has_value()) Add(*row, sample[head]);
    }
  }
  return sample;
}

}  // namespace attn
