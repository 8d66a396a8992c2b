#include "server/rpc/inspect_views.h"

#include <utility>

#include "server/rpc/byte_count.h"
#include "server/rpc/inspect_window.h"

namespace attn {
namespace {

// Weights, of all heads together, that are computed only to compare the heads.
constexpr int64_t kMostCompared = int64_t{1} << 22;

using Fields = v1::InspectResponse;

}  // namespace

InspectedScores::InspectedScores(const Options& options)
    : options_(options), shape_(ShapeOf(options.window)) {
  const InspectViews& shown = options.shown;
  const bool pools = options.tiling.has_value() && shown.any();
  // Heads are not compared where only that would take a lot of memory.
  const bool compares = options.compare_heads && shape_[1] > 1 &&
                        shape_.element_count() <= kMostCompared;
  const struct {
    bool needed;
    Score score;
  } all[] = {
      {shown.logits,
       {Fields::kLogitsFieldNumber,
        &AttentionOutputs::logits,
        &OutputSelection::logits,
        shown.logits,
        {}}},
      // Says which keys take part in a tile.
      {shown.masked_logits || pools,
       {Fields::kMaskedLogitsFieldNumber,
        &AttentionOutputs::masked_logits,
        &OutputSelection::masked_logits,
        shown.masked_logits,
        {}}},
      {shown.weights || compares,
       {Fields::kWeightsFieldNumber,
        &AttentionOutputs::weights,
        &OutputSelection::weights,
        shown.weights,
        {}}},
      {shown.contribution,
       {Fields::kContributionFieldNumber,
        &AttentionOutputs::contribution,
        &OutputSelection::contribution,
        shown.contribution,
        {}}},
      {shown.gradient_weight,
       {Fields::kGradientWeightFieldNumber,
        &AttentionOutputs::gradient_weight,
        &OutputSelection::gradient_weight,
        shown.gradient_weight,
        {}}},
  };
  for (const auto& [needed, score] : all) {
    if (!needed) continue;
    Score& own = scores_.emplace_back();
    own.field = score.field;
    own.view = score.view;
    own.selected = score.selected;
    own.shown = score.shown;
    const int64_t whole = TensorBytes(shape_, options.dtype);
    booked_bytes_ = SaturatingSum(booked_bytes_, whole);
    if (!own.shown) continue;
    const int64_t sent =
        pools ? TensorBytes(options.tiling->ShapeOver(shape_), options.dtype)
              : whole;
    shown_bytes_ = SaturatingSum(shown_bytes_, sent);
    if (pools) booked_bytes_ = SaturatingSum(booked_bytes_, sent);
  }
}

void InspectedScores::Select(OutputSelection& selection) const {
  for (const Score& score : scores_) selection.*score.selected = true;
}

AttentionOutputs InspectedScores::Allocate() {
  AttentionOutputs outputs;
  outputs.window = options_.window;
  for (Score& score : scores_) {
    score.data =
        AlignedBuffer(static_cast<size_t>(TensorBytes(shape_, options_.dtype)));
    outputs.*score.view =
        MutableTensorView::Dense(score.data.data(), options_.dtype, shape_);
  }
  return outputs;
}

const InspectedScores::Score* InspectedScores::Find(int field) const {
  for (const Score& score : scores_) {
    if (score.field == field) return &score;
  }
  return nullptr;
}

TensorView InspectedScores::ViewOf(const Score& score) const {
  return TensorView::Dense(score.data.data(), options_.dtype, shape_);
}

std::optional<TensorView> InspectedScores::Weights() const {
  const Score* weights = Find(Fields::kWeightsFieldNumber);
  if (weights == nullptr) return std::nullopt;
  return ViewOf(*weights);
}

ResponseTensor InspectedScores::Pool(const Score& score) const {
  ResponseTensor pooled;
  pooled.field = score.field;
  pooled.dtype = options_.dtype;
  pooled.shape = options_.tiling->ShapeOver(shape_);
  pooled.data = AlignedBuffer(
      static_cast<size_t>(TensorBytes(pooled.shape, pooled.dtype)));
  PoolScores(
      *options_.tiling, ViewOf(score),
      ViewOf(*Find(Fields::kMaskedLogitsFieldNumber)),
      MutableTensorView::Dense(pooled.data.data(), pooled.dtype, pooled.shape));
  return pooled;
}

std::vector<ResponseTensor> InspectedScores::Take() {
  std::vector<ResponseTensor> tensors;
  for (const Score& score : scores_) {
    if (score.shown && options_.tiling) tensors.push_back(Pool(score));
  }
  for (Score& score : scores_) {
    if (!score.shown || options_.tiling) continue;
    ResponseTensor tensor;
    tensor.field = score.field;
    tensor.dtype = options_.dtype;
    tensor.shape = shape_;
    tensor.data = std::move(score.data);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace attn
