// The bucket of a distance, read through a bias: a table whose value is its own
// index, on top of q = 0.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "client/cli/check/handlers.h"
#include "client/cli/check/tensor_ops.h"

namespace attn {
namespace {

// Logits [1, 1, n, n] of row i and key j: the bucket of j - i.
absl::StatusOr<ServiceCall> MakeBucketCall(const Case& tested, int64_t length) {
  const nlohmann::json& params = tested.params;
  const int64_t buckets = params.value("num_buckets", int64_t{0});
  if (buckets <= 0) return Skip("buckets without num_buckets");
  ServiceCall call;
  call.q = HostTensor(DType::kF32, Shape{1, 1, length, 1});
  call.k = HostTensor(DType::kF32, Shape{1, 1, length, 1});
  call.v = HostTensor(DType::kF32, Shape{1, 1, length, 1});
  HostTensor table(DType::kF32, Shape{buckets, 1});
  for (int64_t i = 0; i < buckets; ++i) table.Set(i, static_cast<double>(i));
  T5Bias bias;
  bias.table = call.AddInput(std::move(table));
  bias.bidirectional = params.value("bidirectional", true);
  bias.max_distance = params.value("max_distance", bias.max_distance);
  call.spec.biases.emplace_back(bias);
  return call;
}

}  // namespace

absl::StatusOr<Outcome> HandleT5Bucket(const Case& tested,
                                       const Service& service) {
  const HostTensor* offsets = tested.Input("relative_position");
  if (offsets == nullptr) return Skip("buckets without relative_position");
  double furthest = 0;
  for (int64_t i = 0; i < offsets->element_count(); ++i) {
    furthest = std::max(furthest, std::abs(offsets->At(i)));
  }
  const int64_t length = static_cast<int64_t>(furthest) + 1;
  const auto call = MakeBucketCall(tested, length);
  if (!call.ok()) return call.status();
  const auto outputs = service.Attend(*call, {"masked_logits"});
  if (!outputs.ok()) return outputs.status();
  const HostTensor& logits = outputs->at("masked_logits");
  Outcome outcome;
  outcome.got["bucket"] =
      Map(*offsets, DType::kI64, [&logits, length](double offset) {
        // Of the first row to the right, of the last one to the left.
        const auto distance = static_cast<int64_t>(offset);
        return distance >= 0 ? logits.At(distance)
                             : logits.At(length * length - 1 + distance);
      });
  return outcome;
}

}  // namespace attn
