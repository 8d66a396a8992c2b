#include "server/rpc/inspect_views.h"

#include <algorithm>
#include <array>
#include <utility>

#include "server/rpc/byte_count.h"
#include "server/rpc/inspect_window.h"

namespace attn {
namespace {

// Weights, of all heads together, that are computed only to compare the heads.
constexpr int64_t kMostCompared = int64_t{1} << 22;

// Of the scores that a part takes, all its tensors together; but a row of tiles
// is never divided.
constexpr int64_t kMostPartBytes = int64_t{128} << 20;

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
        {},
        {}}},
      // Says which keys take part in a tile.
      {shown.masked_logits || pools,
       {Fields::kMaskedLogitsFieldNumber,
        &AttentionOutputs::masked_logits,
        &OutputSelection::masked_logits,
        shown.masked_logits,
        {},
        {}}},
      {shown.weights || compares,
       {Fields::kWeightsFieldNumber,
        &AttentionOutputs::weights,
        &OutputSelection::weights,
        shown.weights,
        {},
        {}}},
      {shown.contribution,
       {Fields::kContributionFieldNumber,
        &AttentionOutputs::contribution,
        &OutputSelection::contribution,
        shown.contribution,
        {},
        {}}},
      {shown.gradient_weight,
       {Fields::kGradientWeightFieldNumber,
        &AttentionOutputs::gradient_weight,
        &OutputSelection::gradient_weight,
        shown.gradient_weight,
        {},
        {}}},
  };
  for (const auto& [needed, score] : all) {
    if (!needed) continue;
    Score& own = scores_.emplace_back();
    own.field = score.field;
    own.view = score.view;
    own.selected = score.selected;
    own.shown = score.shown;
  }
  if (pools) DivideIntoParts();
  CountBytes(pools);
}

void InspectedScores::CountBytes(bool pools) {
  const int64_t held =
      TensorBytes(part_count_ > 0 ? part_shape_ : shape_, options_.dtype);
  for (const Score& score : scores_) {
    booked_bytes_ = SaturatingSum(booked_bytes_, held);
    if (!score.shown) continue;
    const int64_t sent = TensorBytes(
        pools ? options_.tiling->ShapeOver(shape_) : shape_, options_.dtype);
    shown_bytes_ = SaturatingSum(shown_bytes_, sent);
    if (pools) booked_bytes_ = SaturatingSum(booked_bytes_, sent);
  }
}

void InspectedScores::DivideIntoParts() {
  const auto tensors = static_cast<int64_t>(scores_.size());
  const int64_t whole =
      SaturatingProduct(TensorBytes(shape_, options_.dtype), tensors);
  // What heads are compared by is needed as a whole.
  if (whole <= kMostPartBytes || shape_.element_count() <= kMostCompared) {
    return;
  }
  // Each part is a run of the engine, which looks at all heads: those that are
  // small share one.
  const int64_t tile = std::min(options_.tiling->query_tile, shape_[2]);
  std::array<int64_t, 3> extents = {1, 1, tile};
  for (const size_t axis : {2U, 1U, 0U}) {
    const int64_t whole_axis = shape_[static_cast<int>(axis)];
    const int64_t bytes = SaturatingProduct(
        TensorBytes({extents[0], extents[1], extents[2], shape_[3]},
                    options_.dtype),
        tensors);
    const int64_t fit = std::max<int64_t>(kMostPartBytes / bytes, 1);
    extents[axis] = std::min(SaturatingProduct(extents[axis], fit), whole_axis);
    if (extents[axis] < whole_axis) break;
  }
  part_shape_ = {extents[0], extents[1], extents[2], shape_[3]};
  part_count_ = SaturatingProduct(
      PartsAlong(0), SaturatingProduct(PartsAlong(1), PartsAlong(2)));
}

ScoreWindow InspectedScores::WindowOf(int64_t part) const {
  const auto range = [this](int axis, int64_t index, const AxisRange& all) {
    const int64_t begin = all.begin + index * part_shape_[axis];
    return AxisRange{begin, std::min(begin + part_shape_[axis], all.end)};
  };
  const int64_t plane = part / PartsAlong(2);
  const ScoreWindow& all = options_.window;
  return {range(0, plane / PartsAlong(1), all.batch),
          range(1, plane % PartsAlong(1), all.head),
          range(2, part % PartsAlong(2), all.query), all.key};
}

AttentionOutputs InspectedScores::Part(int64_t part) {
  AttentionOutputs outputs;
  outputs.window = WindowOf(part);
  for (Score& score : scores_) {
    outputs.*score.view = MutableTensorView::Dense(
        score.data.data(), options_.dtype, ShapeOf(outputs.window));
  }
  return outputs;
}

void InspectedScores::PoolPart(int64_t part) {
  const ScoreWindow window = WindowOf(part);
  const Shape shape = ShapeOf(window);
  const Shape pooled = options_.tiling->ShapeOver(shape);
  const Shape all = options_.tiling->ShapeOver(shape_);
  // Of its first head's plane, and of the row of tiles in it: the tiles of a
  // part lie together.
  const int64_t plane =
      (window.batch.begin - options_.window.batch.begin) * shape_[1] +
      window.head.begin - options_.window.head.begin;
  const int64_t tile_row = (window.query.begin - options_.window.query.begin) /
                           options_.tiling->query_tile;
  const int64_t first = (plane * all[2] + tile_row) * all[3];
  const auto view = [&](const Score& score) {
    return TensorView::Dense(score.data.data(), options_.dtype, shape);
  };
  for (Score& score : scores_) {
    if (!score.shown) continue;
    PoolScores(*options_.tiling, view(score),
               view(*Find(Fields::kMaskedLogitsFieldNumber)),
               MutableTensorView::Dense(
                   score.pooled.data() +
                       static_cast<size_t>(first) * SizeOf(options_.dtype),
                   options_.dtype, pooled));
  }
}

void InspectedScores::Select(OutputSelection& selection) const {
  for (const Score& score : scores_) selection.*score.selected = true;
}

AttentionOutputs InspectedScores::Allocate() {
  AttentionOutputs outputs;
  if (part_count_ > 0) {
    const auto bytes = [this](const Shape& shape) {
      return static_cast<size_t>(TensorBytes(shape, options_.dtype));
    };
    for (Score& score : scores_) {
      score.data = AlignedBuffer(bytes(part_shape_));
      if (!score.shown) continue;
      score.pooled = AlignedBuffer(bytes(options_.tiling->ShapeOver(shape_)));
    }
    return outputs;
  }
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
  if (weights == nullptr || part_count_ > 0) return std::nullopt;
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
  for (Score& score : scores_) {
    if (!score.shown || !options_.tiling) continue;
    if (part_count_ == 0) {
      tensors.push_back(Pool(score));
      continue;
    }
    ResponseTensor& tensor = tensors.emplace_back();
    tensor.field = score.field;
    tensor.dtype = options_.dtype;
    tensor.shape = options_.tiling->ShapeOver(shape_);
    tensor.data = std::move(score.pooled);
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
