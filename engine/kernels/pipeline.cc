#include "engine/kernels/pipeline.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/tile/row_math.h"

namespace attn {
namespace {

// Beyond these a softcap is 0, or no cap at all, to every digit of a float that
// is not itself near a float's limits; between them x / cap keeps its digits.
constexpr double kMinCap = 0x1p-100;
constexpr double kMaxCap = 0x1p100;

// The tables are in the order of their variants.
template <typename Entry, typename Spec>
const Entry& EntryOf(absl::Span<const Entry> table, const Spec& spec) {
  return table[spec.index()];
}

template <typename Entry, typename Spec>
absl::Status ValidateAll(absl::Span<const Entry> table,
                         const std::vector<Spec>& specs, const Problem& problem,
                         absl::string_view list) {
  for (size_t i = 0; i < specs.size(); ++i) {
    absl::Status status =
        EntryOf(table, specs[i])
            .validate(specs[i], problem, absl::StrCat(list, "[", i, "]"));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

std::string DescribeTemperatures(const std::vector<double>& temperatures) {
  if (temperatures.empty()) return "";
  return absl::StrCat(" -> / temperature",
                      temperatures.size() == 1
                          ? absl::StrCat(" ", temperatures[0])
                          : std::string("[h]"));
}

// "lengths of q and k" as far as the call brings them.
std::string DescribeLengths(const Problem& problem) {
  if (problem.has_q_lengths && problem.has_kv_lengths) {
    return " -> q_lengths -> kv_lengths";
  }
  if (problem.has_q_lengths) return " -> q_lengths";
  return problem.has_kv_lengths ? " -> kv_lengths" : "";
}

KeyRange Intersection(const KeyRange& a, const KeyRange& b) {
  const KeyRange both = {std::max(a.begin, b.begin), std::min(a.end, b.end)};
  return both.empty() ? KeyRange{} : both;
}

// Excludes the keys beyond kv_length and the rows beyond q_length.
template <typename T>
void ExcludeBeyondLengths(const CallView& call, const Tile<T>& tile) {
  const TileBounds& b = tile.bounds;
  const int64_t rows =
      std::clamp<int64_t>(call.q_length(b.batch) - b.row_begin, 0, b.rows);
  const int64_t keys =
      std::clamp<int64_t>(call.kv_length(b.batch) - b.key_begin, 0, b.keys);
  for (int64_t r = 0; r < b.rows; ++r) {
    T* row = tile.Row(r);
    std::fill(row + (r < rows ? keys : 0), row + b.keys,
              -std::numeric_limits<T>::infinity());
  }
}

}  // namespace

absl::Status ValidateStages(const Problem& problem) {
  const AttentionSpec& spec = problem.spec;
  absl::Status status = EntryOf(ScoreTable(), spec.score)
                            .validate(spec.score, problem, "spec.score");
  if (!status.ok()) return status;
  status = ValidateAll(BiasTable(), spec.biases, problem, "spec.biases");
  if (!status.ok()) return status;
  status = ValidateAll(MaskTable(), spec.masks, problem, "spec.masks");
  if (!status.ok()) return status;
  return EntryOf(NormalizerTable(), spec.normalizer)
      .validate(spec.normalizer, problem, "spec.normalizer");
}

std::string DescribeStages(const Problem& problem) {
  const AttentionSpec& spec = problem.spec;
  std::string text =
      absl::StrCat(EntryOf(ScoreTable(), spec.score).describe(spec.score),
                   " * ", EffectiveScale(problem));
  if (spec.softcap.has_value()) {
    absl::StrAppend(&text, " -> softcap ", *spec.softcap);
  }
  for (const BiasSpec& bias : spec.biases) {
    absl::StrAppend(&text, " -> + ", EntryOf(BiasTable(), bias).describe(bias));
  }
  for (const MaskSpec& mask : spec.masks) {
    absl::StrAppend(&text, " -> ", EntryOf(MaskTable(), mask).describe(mask));
  }
  absl::StrAppend(
      &text, DescribeLengths(problem), DescribeTemperatures(spec.temperatures),
      " -> ",
      EntryOf(NormalizerTable(), spec.normalizer).describe(spec.normalizer));
  return text;
}

double EffectiveScale(const Problem& problem) {
  const ScoreSpec& score = problem.spec.score;
  return EntryOf(ScoreTable(), score).make(score, problem)->scale(0);
}

Pipeline::Pipeline(const Problem& problem)
    : score_(EntryOf(ScoreTable(), problem.spec.score)
                 .make(problem.spec.score, problem)),
      softcap_(problem.spec.softcap.value_or(0)),
      temperatures_(problem.spec.temperatures),
      normalizer_(EntryOf(NormalizerTable(), problem.spec.normalizer)
                      .make(problem.spec.normalizer, problem)) {
  for (const BiasSpec& bias : problem.spec.biases) {
    biases_.push_back(EntryOf(BiasTable(), bias).make(bias, problem));
  }
  for (const MaskSpec& mask : problem.spec.masks) {
    masks_.push_back(EntryOf(MaskTable(), mask).make(mask, problem));
  }
}

KeyRange Pipeline::VisibleKeys(const CallView& call,
                               const TileBounds& rows) const {
  TileBounds valid = rows;
  valid.rows = std::min(rows.rows, call.q_length(rows.batch) - rows.row_begin);
  if (valid.rows <= 0) return {};
  KeyRange keys =
      Intersection({0, call.kv_length(rows.batch)}, {0, call.shape.kv_length});
  for (const auto& mask : masks_) {
    keys = Intersection(keys, mask->Visible(call, valid));
  }
  return keys;
}

template <typename T>
void Pipeline::FinishTile(const CallView& call, const Tile<T>& tile) const {
  const TileBounds& b = tile.bounds;
  if (softcap_ > 0) {
    const auto cap = static_cast<T>(std::clamp(softcap_, kMinCap, kMaxCap));
    for (int64_t r = 0; r < b.rows; ++r) {
      SoftcapRow(tile.Row(r), b.keys, cap);
    }
  }
  for (const auto& bias : biases_) bias->Add(call, tile);
  for (const auto& mask : masks_) {
    if (!mask->Covers(call, b)) mask->Exclude(call, tile);
  }
  ExcludeBeyondLengths(call, tile);
  if (temperatures_.empty()) return;
  const size_t head =
      temperatures_.size() == 1 ? 0 : static_cast<size_t>(b.head);
  // A temperature below every T must not become 0.
  const T divisor = std::max(static_cast<T>(temperatures_[head]),
                             std::numeric_limits<T>::denorm_min());
  for (int64_t r = 0; r < b.rows; ++r) {
    DivideRow(tile.Row(r), b.keys, divisor);
  }
}

void Pipeline::Finish(const CallView& call, const Tile<float>& tile) const {
  FinishTile(call, tile);
}

void Pipeline::Finish(const CallView& call, const Tile<double>& tile) const {
  FinishTile(call, tile);
}

}  // namespace attn
