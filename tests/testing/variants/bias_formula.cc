#include <algorithm>
#include <cmath>

#include "tests/testing/oracle.h"
#include "tests/testing/variants/formulas.h"

namespace attn::oracle {
namespace {

// Key minus query position where the last query meets the last key.
int64_t OffsetOf(const VariantCase& call, const Pair& at) {
  return at.key - (at.query + call.shape.kv_length - call.shape.q_length);
}

// As the published code (T5's relative_position_bucket) forms it, with n of
// the distance's buckets; `max` is where the last one begins.
int64_t DistanceBucket(int64_t distance, int64_t n, int64_t max) {
  const int64_t exact = n / 2;
  if (distance < exact) return distance;
  const double steps =
      std::log(static_cast<double>(distance) / static_cast<double>(exact)) /
      std::log(static_cast<double>(max) / static_cast<double>(exact)) *
      static_cast<double>(n - exact);
  // Whole numbers come out a rounding below themselves.
  return std::min(exact + static_cast<int64_t>(std::floor(steps + 1e-9)),
                  n - 1);
}

int64_t Bucket(int64_t offset, int64_t buckets, const T5Bias& t5) {
  if (!t5.bidirectional) {
    return DistanceBucket(std::max<int64_t>(-offset, 0), buckets,
                          t5.max_distance);
  }
  const int64_t half = buckets / 2;
  return (offset > 0 ? half : 0) +
         DistanceBucket(std::abs(offset), half, t5.max_distance);
}

// An offset of cells, scaled to [-8, 8] and log-spaced.
double LogSpaced(int64_t cells, int64_t extent) {
  if (extent == 1) return 0;
  const double x =
      8.0 * static_cast<double>(cells) / static_cast<double>(extent - 1);
  const double size = std::log(std::abs(x) + 1) / std::log(8.0);
  return x < 0 ? -size : size;
}

double ContinuousPosition(const VariantCase& call,
                          const ContinuousPositionBias& bias, const Pair& at) {
  const double row =
      LogSpaced(at.query / bias.width - at.key / bias.width, bias.height);
  const double column =
      LogSpaced(at.query % bias.width - at.key % bias.width, bias.width);
  const Parameter& w1 = call.inputs[bias.hidden_weight];
  const Parameter& b1 = call.inputs[bias.hidden_bias];
  const Parameter& w2 = call.inputs[bias.output_weight];
  double x = 0;
  for (int64_t i = 0; i < w1.shape[1]; ++i) {
    const double hidden = row * Read(w1, 0, {0, i}) +
                          column * Read(w1, 0, {1, i}) + Read(b1, 0, {i});
    if (hidden > 0) x += hidden * Read(w2, 0, {i, at.head});
  }
  return 16 / (1 + std::exp(-x));
}

}  // namespace

double Bias(const VariantCase& call, const BiasSpec& spec, const Pair& at) {
  return std::visit(
      Overloaded{
          [&](const DenseBias& bias) {
            return ReadBroadcast(call.inputs[bias.input], at);
          },
          [&](const AlibiBias& bias) {
            const std::vector<double> slopes =
                bias.slopes.empty() ? PublishedSlopes(call.shape.q_heads)
                                    : bias.slopes;
            return -slopes[static_cast<size_t>(at.head)] *
                   std::abs(static_cast<double>(OffsetOf(call, at)));
          },
          [&](const RelativeTableBias& bias) {
            const Parameter& table = call.inputs[bias.table];
            const int64_t n = (table.shape[1] - 1) / 2;
            const int64_t column = std::clamp(OffsetOf(call, at), -n, n) + n;
            return Read(table, 0, {table.shape[0] == 1 ? 0 : at.head, column});
          },
          [&](const T5Bias& bias) {
            const Parameter& table = call.inputs[bias.table];
            const int64_t bucket =
                Bucket(OffsetOf(call, at), table.shape[0], bias);
            return Read(table, 0, {bucket, at.head});
          },
          [&](const ContinuousPositionBias& bias) {
            return ContinuousPosition(call, bias, at);
          },
          [&](const ConstantBias& bias) {
            return Read(call.inputs[bias.values], 0, {at.head});
          }},
      spec);
}

}  // namespace attn::oracle
