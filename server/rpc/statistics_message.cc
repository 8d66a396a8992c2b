#include "server/rpc/statistics_message.h"

namespace attn {
namespace {

// A number of a row and the tensor that it goes to.
struct RealStatistic {
  double (*get)(const RowStatistics& row);
  v1::Tensor* (v1::RowStatistics::*tensor)();
};

template <double RowStatistics::*kMember>
double Get(const RowStatistics& row) {
  return row.*kMember;
}

constexpr RealStatistic kRealStatistics[] = {
    {Get<&RowStatistics::entropy>, &v1::RowStatistics::mutable_entropy},
    {Get<&RowStatistics::peak_weight>, &v1::RowStatistics::mutable_peak_weight},
    {EntropyRatio, &v1::RowStatistics::mutable_entropy_ratio},
    {EffectiveKeys, &v1::RowStatistics::mutable_effective_keys},
    {Get<&RowStatistics::logit_min>, &v1::RowStatistics::mutable_logit_min},
    {Get<&RowStatistics::logit_max>, &v1::RowStatistics::mutable_logit_max},
    {Get<&RowStatistics::logit_mean>, &v1::RowStatistics::mutable_logit_mean},
    {Get<&RowStatistics::logit_std>, &v1::RowStatistics::mutable_logit_std},
    {Get<&RowStatistics::contribution>,
     &v1::RowStatistics::mutable_contribution},
};

template <typename T>
constexpr v1::DataType kWireType = v1::DATA_TYPE_F32;
template <>
constexpr v1::DataType kWireType<double> = v1::DATA_TYPE_F64;
template <>
constexpr v1::DataType kWireType<int64_t> = v1::DATA_TYPE_I64;

// A tensor of one value for each row.
template <typename T, typename Get>
void FillTensor(absl::Span<const RowStatistics> rows,
                const AttentionShape& shape, Get get, v1::Tensor* tensor) {
  tensor->set_dtype(kWireType<T>);
  tensor->add_shape(shape.batch);
  tensor->add_shape(shape.q_heads);
  tensor->add_shape(shape.q_length);
  std::vector<T> values;
  values.reserve(rows.size());
  for (const RowStatistics& row : rows) {
    values.push_back(static_cast<T>(get(row)));
  }
  tensor->mutable_data()->assign(reinterpret_cast<const char*>(values.data()),
                                 values.size() * sizeof(T));
}

v1::DeadHead ToWire(DeadHead dead) {
  switch (dead) {
    case DeadHead::kNo:
      return v1::DEAD_HEAD_UNSPECIFIED;
    case DeadHead::kCollapsed:
      return v1::DEAD_HEAD_COLLAPSED;
    case DeadHead::kUninformative:
      return v1::DEAD_HEAD_UNINFORMATIVE;
    case DeadHead::kConstantLogits:
      return v1::DEAD_HEAD_CONSTANT_LOGITS;
  }
  return v1::DEAD_HEAD_UNSPECIFIED;
}

void FillHead(const HeadStatistics& from, v1::HeadStatistics& to) {
  to.set_rows(from.rows);
  to.set_empty_rows(from.empty_rows);
  to.set_mean_entropy(from.mean_entropy);
  to.set_mean_entropy_ratio(from.mean_entropy_ratio);
  to.set_mean_peak_weight(from.mean_peak_weight);
  to.set_max_peak_weight(from.max_peak_weight);
  to.set_mean_visible_keys(from.mean_visible_keys);
  to.set_mean_effective_keys(from.mean_effective_keys);
  to.set_mean_contribution(from.mean_contribution);
  to.set_top_key(from.top_key);
  to.set_top_key_share(from.top_key_share);
  to.set_saturated_rows(from.saturated_rows);
  to.set_saturated_share(from.saturated_share);
  to.set_logit_min(from.logit_min);
  to.set_logit_max(from.logit_max);
  to.set_logit_mean(from.logit_mean);
  to.set_logit_std(from.logit_std);
  to.set_dead(ToWire(from.dead));
  to.set_dead_reason(from.dead_reason);
}

}  // namespace

std::vector<HeadStatistics> SummarizeHeads(absl::Span<const RowStatistics> rows,
                                           const AttentionShape& shape) {
  const auto length = static_cast<size_t>(shape.q_length);
  const auto count = static_cast<size_t>(shape.batch * shape.q_heads);
  std::vector<HeadStatistics> heads;
  heads.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    heads.push_back(Summarize(rows.subspan(i * length, length)));
  }
  return heads;
}

void FillHeads(
    absl::Span<const HeadStatistics> heads, const AttentionShape& shape,
    google::protobuf::RepeatedPtrField<v1::HeadStatistics>& messages) {
  int64_t plane = 0;
  for (const HeadStatistics& head : heads) {
    v1::HeadStatistics& message = *messages.Add();
    message.set_batch(plane / shape.q_heads);
    message.set_head(plane % shape.q_heads);
    FillHead(head, message);
    ++plane;
  }
}

void FillRows(absl::Span<const RowStatistics> rows, const AttentionShape& shape,
              DType real, v1::RowStatistics& message) {
  for (const RealStatistic& statistic : kRealStatistics) {
    v1::Tensor* tensor = (message.*statistic.tensor)();
    if (real == DType::kF64) {
      FillTensor<double>(rows, shape, statistic.get, tensor);
    } else {
      FillTensor<float>(rows, shape, statistic.get, tensor);
    }
  }
  FillTensor<int64_t>(
      rows, shape, [](const RowStatistics& row) { return row.top_key; },
      message.mutable_top_key());
  FillTensor<int64_t>(
      rows, shape, [](const RowStatistics& row) { return row.visible_keys; },
      message.mutable_visible_keys());
}

}  // namespace attn
