#include "client/cli/seen_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/library/host_tensor.h"
#include "client/library/inspection.h"

namespace attn {
namespace {

void SetRange(int64_t begin, int64_t end, v1::IndexRange& range) {
  range.set_begin(begin);
  range.set_end(end);
}

InspectMessage MessageFor(const CallMessage& call,
                          const ScoreQuestion& question) {
  InspectMessage message;
  static_cast<CallMessage&>(message) = call;
  InspectQuestion& asked = message.question;
  SetRange(question.batch, question.batch + 1, *asked.window.mutable_batch());
  SetRange(question.heads.front(), question.heads.back() + 1,
           *asked.window.mutable_head());
  SetRange(question.query_begin, question.query_begin + question.query_count,
           *asked.window.mutable_query());
  SetRange(question.key_begin, question.key_begin + question.key_count,
           *asked.window.mutable_key());
  asked.views.logits = question.logits;
  asked.views.weights = question.weights;
  if (question.pools()) {
    v1::InspectTiles tiles;
    tiles.set_query_tile(question.query_step);
    tiles.set_key_tile(question.key_step);
    tiles.set_pooling(question.pooling);
    asked.tiles = std::move(tiles);
  } else {
    // Says which cells are masked.
    asked.views.masked_logits = true;
  }
  return message;
}

// The planes of the heads that were asked for, of those of the window.
absl::StatusOr<std::vector<std::vector<double>>> PlanesOf(
    const InspectResult& result, const std::string& name,
    const ScoreQuestion& question) {
  const auto tensor = ViewOf(result, name);
  if (!tensor.ok()) return tensor.status();
  const Shape& shape = tensor->shape();
  const int64_t span = question.heads.back() + 1 - question.heads.front();
  // Whoever draws it counts on as many cells.
  if (!(shape == Shape{1, span, question.rows(), question.columns()})) {
    return absl::InternalError(
        absl::StrCat("the response's ", name, " is ", shape.ToString()));
  }
  const int64_t size = shape[2] * shape[3];
  std::vector<std::vector<double>> planes;
  for (const int64_t head : question.heads) {
    std::vector<double>& plane = planes.emplace_back();
    plane.reserve(static_cast<size_t>(size));
    const int64_t first = (head - question.heads.front()) * size;
    for (int64_t i = 0; i < size; ++i) plane.push_back(tensor->At(first + i));
  }
  return planes;
}

// Whether some logit that counts is not finite.
bool SeesNonFinite(const v1::InspectResponse& header) {
  const v1::RowStatistics& rows = header.row_statistics();
  for (const v1::Tensor* message :
       {&rows.logit_mean(), &rows.logit_min(), &rows.logit_max()}) {
    const auto tensor = HostTensor::Copy(*message);
    if (!tensor.ok()) continue;
    for (int64_t i = 0; i < tensor->element_count(); ++i) {
      if (!std::isfinite(tensor->At(i))) return true;
    }
  }
  return false;
}

// Of tiles, by their sums: those of masked ones are 0, those of NaNs NaN.
absl::Status TellMaskedFromNaN(const AttentionClient& client,
                               const CallMessage& call,
                               const ScoreQuestion& question,
                               std::vector<SeenHead>& heads) {
  InspectMessage message = MessageFor(call, question);
  message.question.tiles->set_pooling(v1::POOLING_SUM);
  message.question.views.logits = false;
  message.question.views.weights = true;
  const auto sums = client.Inspect(message);
  if (!sums.ok()) return sums.status();
  const auto planes = PlanesOf(*sums, "weights", question);
  if (!planes.ok()) return planes.status();
  for (size_t h = 0; h < heads.size(); ++h) {
    for (size_t i = 0; i < heads[h].masked.size(); ++i) {
      if (std::isnan((*planes)[h][i])) heads[h].masked[i] = false;
    }
  }
  return absl::OkStatus();
}

// Tiles are NaN in every view if no key may be seen.
bool IsMaskedTile(const SeenHead& head, size_t i) {
  return (head.logits.empty() || std::isnan(head.logits[i])) &&
         (head.weights.empty() || std::isnan(head.weights[i]));
}

// Puts a view into the heads.
absl::Status TakeView(const InspectResult& result, const std::string& name,
                      const ScoreQuestion& question,
                      std::vector<double> SeenHead::*values,
                      std::vector<SeenHead>& heads) {
  auto planes = PlanesOf(result, name, question);
  if (!planes.ok()) return planes.status();
  for (size_t h = 0; h < heads.size(); ++h) {
    heads[h].*values = std::move((*planes)[h]);
  }
  return absl::OkStatus();
}

void MarkMaskedTiles(std::vector<SeenHead>& heads) {
  for (SeenHead& head : heads) {
    const size_t cells = std::max(head.logits.size(), head.weights.size());
    for (size_t i = 0; i < cells; ++i) {
      head.masked.push_back(IsMaskedTile(head, i));
    }
  }
}

absl::Status MarkMaskedCells(const InspectResult& result,
                             const ScoreQuestion& question,
                             std::vector<SeenHead>& heads) {
  const auto logits = PlanesOf(result, "masked_logits", question);
  if (!logits.ok()) return logits.status();
  for (size_t h = 0; h < heads.size(); ++h) {
    for (const double logit : (*logits)[h]) {
      heads[h].masked.push_back(logit ==
                                -std::numeric_limits<double>::infinity());
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SeenScores> SeeScores(const AttentionClient& client,
                                     const CallMessage& call,
                                     const ScoreQuestion& question) {
  const auto result = client.Inspect(MessageFor(call, question));
  if (!result.ok()) return result.status();
  SeenScores seen;
  seen.report = result->header.report();
  for (const int64_t head : question.heads) {
    seen.heads.emplace_back().head = head;
  }
  absl::Status status;
  if (question.logits) {
    status =
        TakeView(*result, "logits", question, &SeenHead::logits, seen.heads);
  }
  if (status.ok() && question.weights) {
    status =
        TakeView(*result, "weights", question, &SeenHead::weights, seen.heads);
  }
  if (!status.ok()) return status;
  if (!question.pools()) {
    status = MarkMaskedCells(*result, question, seen.heads);
  } else {
    MarkMaskedTiles(seen.heads);
    if (SeesNonFinite(result->header)) {
      status = TellMaskedFromNaN(client, call, question, seen.heads);
    }
  }
  if (!status.ok()) return status;
  return seen;
}

}  // namespace attn
