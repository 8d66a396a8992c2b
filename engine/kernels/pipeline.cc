#include "engine/kernels/pipeline.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/spec_size.h"
#include "engine/kernels/quantization.h"
#include "engine/tile/row_math.h"

namespace attn {
namespace {

// Beyond these a softcap is 0, or no cap at all, to every digit of a float that
// is not itself near a float's limits; between them x / cap keeps its digits.
constexpr double kMinCap = 0x1p-100;
constexpr double kMaxCap = 0x1p100;

// 0: there is none.
double CapOf(const std::optional<double>& softcap) {
  return softcap ? std::clamp(*softcap, kMinCap, kMaxCap) : 0;
}

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

// Null: there is none.
absl::StatusOr<std::unique_ptr<const Program>> CompileProgram(
    const std::optional<ProgramSpec>& spec, const Problem& problem,
    ProgramKind kind) {
  if (!spec.has_value()) return std::unique_ptr<const Program>();
  return Program::Compile(*spec, problem, kind,
                          kind == ProgramKind::kScore ? "spec.score_program"
                                                      : "spec.weight_program");
}

std::string DescribeProgram(const std::optional<ProgramSpec>& program) {
  return program ? absl::StrCat(" -> program(", program->source, ")") : "";
}

// What comes between the normalizer and the output.
std::string DescribeWeightStages(const AttentionSpec& spec) {
  std::string text = DescribeProgram(spec.weight_program);
  if (spec.dropout.has_value()) {
    absl::StrAppend(&text, " -> dropout ", spec.dropout->p);
  }
  if (spec.head_gate.has_value()) absl::StrAppend(&text, " -> head gate");
  return text;
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
  if (problem.ragged) return " -> offsets";
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
  if (absl::Status status = CheckSpecSize(spec); !status.ok()) return status;
  for (const absl::Status& status : {
           EntryOf(ScoreTable(), spec.score)
               .validate(spec.score, problem, "spec.score"),
           ValidateAll(TransformTable(), spec.transforms, problem,
                       "spec.transforms"),
           ValidateAll(BiasTable(), spec.biases, problem, "spec.biases"),
           CompileProgram(spec.score_program, problem, ProgramKind::kScore)
               .status(),
           ValidateAll(MaskTable(), spec.masks, problem, "spec.masks"),
           ValidateAll(SparsifierTable(), spec.sparsifiers, problem,
                       "spec.sparsifiers"),
           EntryOf(NormalizerTable(), spec.normalizer)
               .validate(spec.normalizer, problem, "spec.normalizer"),
           CompileProgram(spec.weight_program, problem, ProgramKind::kWeight)
               .status(),
           ValidateDropout(problem),
           ValidateQuantization(problem),
           ValidateHeadGate(problem),
       }) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

std::string DescribeStages(const Problem& problem) {
  const AttentionSpec& spec = problem.spec;
  std::string text;
  if (spec.kv_quantization.has_value()) {
    text = DescribeQuantization(*spec.kv_quantization) + " -> ";
  }
  for (const TransformSpec& transform : spec.transforms) {
    absl::StrAppend(&text,
                    EntryOf(TransformTable(), transform).describe(transform),
                    " -> ");
  }
  absl::StrAppend(&text, EntryOf(ScoreTable(), spec.score).describe(spec.score),
                  " * ", EffectiveScale(problem));
  if (spec.softcap.has_value()) {
    absl::StrAppend(&text, " -> softcap ", *spec.softcap);
  }
  for (const BiasSpec& bias : spec.biases) {
    absl::StrAppend(&text, " -> + ", EntryOf(BiasTable(), bias).describe(bias));
  }
  absl::StrAppend(&text, DescribeProgram(spec.score_program));
  for (const MaskSpec& mask : spec.masks) {
    absl::StrAppend(&text, " -> ", EntryOf(MaskTable(), mask).describe(mask));
  }
  absl::StrAppend(&text, DescribeLengths(problem),
                  DescribeTemperatures(spec.temperatures));
  for (const SparsifierSpec& sparsifier : spec.sparsifiers) {
    absl::StrAppend(
        &text, " -> ",
        EntryOf(SparsifierTable(), sparsifier).describe(sparsifier));
  }
  absl::StrAppend(
      &text, " -> ",
      EntryOf(NormalizerTable(), spec.normalizer).describe(spec.normalizer),
      DescribeWeightStages(spec));
  return text;
}

double EffectiveScale(const Problem& problem) {
  const ScoreSpec& score = problem.spec.score;
  return EntryOf(ScoreTable(), score).make(score, problem)->static_scale();
}

Pipeline::Pipeline(const Problem& problem)
    : score_(EntryOf(ScoreTable(), problem.spec.score)
                 .make(problem.spec.score, problem)),
      softcap_(CapOf(problem.spec.softcap)),
      score_program_(*CompileProgram(problem.spec.score_program, problem,
                                     ProgramKind::kScore)),
      temperatures_(problem.spec.temperatures),
      normalizer_(EntryOf(NormalizerTable(), problem.spec.normalizer)
                      .make(problem.spec.normalizer, problem)),
      weight_program_(*CompileProgram(problem.spec.weight_program, problem,
                                      ProgramKind::kWeight)),
      dropout_(problem),
      head_gate_(problem) {
  for (const TransformSpec& transform : problem.spec.transforms) {
    transforms_.push_back(
        EntryOf(TransformTable(), transform).make(transform, problem));
  }
  for (const SparsifierSpec& sparsifier : problem.spec.sparsifiers) {
    sparsifiers_.push_back(
        EntryOf(SparsifierTable(), sparsifier).make(sparsifier, problem));
  }
  for (const BiasSpec& bias : problem.spec.biases) {
    biases_.push_back(EntryOf(BiasTable(), bias).make(bias, problem));
  }
  for (const MaskSpec& mask : problem.spec.masks) {
    masks_.push_back(EntryOf(MaskTable(), mask).make(mask, problem));
  }
}

bool Pipeline::prepares(Side side) const {
  return score_->prepares() ||
         std::any_of(
             transforms_.begin(), transforms_.end(),
             [side](const auto& stage) { return stage->Applies(side); });
}

template <typename T>
T* Pipeline::Prepare(const CallView& call, Side side, const RowSpan& span,
                     T* rows, T* prepared) const {
  for (const auto& transform : transforms_) {
    if (transform->Applies(side)) transform->Apply(call, side, span, rows);
  }
  if (!score_->prepares()) return rows;
  if (side == Side::kQuery) {
    score_->PrepareQueries(call, span, rows, prepared);
  } else {
    score_->PrepareKeys(call, span, rows, prepared);
  }
  return prepared;
}

template float* Pipeline::Prepare(const CallView&, Side, const RowSpan&, float*,
                                  float*) const;
template double* Pipeline::Prepare(const CallView&, Side, const RowSpan&,
                                   double*, double*) const;

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

bool Pipeline::finishes() const {
  return softcap_ > 0 || !biases_.empty() || score_program_ != nullptr ||
         has_masks() || !temperatures_.empty() || has_sparsifiers();
}

template <typename T>
void Pipeline::CapAndBias(const CallView& call, const Tile<T>& tile) const {
  const TileBounds& b = tile.bounds;
  if (softcap_ > 0) {
    for (int64_t r = 0; r < b.rows; ++r) {
      SoftcapRow(tile.Row(r), b.keys, static_cast<T>(softcap_));
    }
  }
  for (const auto& bias : biases_) bias->Add(call, tile);
}

template <typename T>
void Pipeline::MaskAndSparsify(const CallView& call, const Tile<T>& tile,
                               T* scratch) const {
  const TileBounds& b = tile.bounds;
  for (const auto& mask : masks_) {
    if (!mask->Covers(call, b)) mask->Exclude(call, tile);
  }
  ExcludeBeyondLengths(call, tile);
  Cool(tile);
  for (const auto& sparsifier : sparsifiers_) {
    sparsifier->Drop(call, tile, scratch);
  }
}

template <typename T>
void Pipeline::FinishTile(const CallView& call, const Tile<T>& tile,
                          T* scratch) const {
  CapAndBias(call, tile);
  if (score_program_ != nullptr) score_program_->Run(call, tile, tile);
  MaskAndSparsify(call, tile, scratch);
}

double Pipeline::TemperatureOf(int64_t head) const {
  if (temperatures_.empty()) return 1;
  return temperatures_[temperatures_.size() == 1 ? 0
                                                 : static_cast<size_t>(head)];
}

template <typename T>
void Pipeline::Cool(const Tile<T>& tile) const {
  if (temperatures_.empty()) return;
  const TileBounds& b = tile.bounds;
  // A temperature below every T must not become 0.
  const T divisor = std::max(static_cast<T>(TemperatureOf(b.head)),
                             std::numeric_limits<T>::denorm_min());
  for (int64_t r = 0; r < b.rows; ++r) {
    DivideRow(tile.Row(r), b.keys, divisor);
  }
}

// For pipeline_backward.cc.
template void Pipeline::CapAndBias(const CallView&, const Tile<double>&) const;
template void Pipeline::MaskAndSparsify(const CallView&, const Tile<double>&,
                                        double*) const;

void Pipeline::Finish(const CallView& call, const Tile<float>& tile,
                      float* scratch) const {
  FinishTile(call, tile, scratch);
}

void Pipeline::Finish(const CallView& call, const Tile<double>& tile,
                      double* scratch) const {
  FinishTile(call, tile, scratch);
}

void Pipeline::FinishWeights(const CallView& call, const Tile<float>& weights,
                             const Tile<float>& logits) const {
  if (weight_program_ != nullptr) weight_program_->Run(call, weights, logits);
}

void Pipeline::FinishWeights(const CallView& call, const Tile<double>& weights,
                             const Tile<double>& logits) const {
  if (weight_program_ != nullptr) weight_program_->Run(call, weights, logits);
}

}  // namespace attn
