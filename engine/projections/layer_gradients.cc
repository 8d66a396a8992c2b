#include "engine/projections/layer_gradients.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "engine/core/spec_inputs.h"
#include "engine/kernels/gradient_rows.h"
#include "engine/tile/parameter_view.h"

namespace attn {
namespace {

// Rows that one phase adds, unless that makes too many phases.
constexpr int64_t kSegmentRows = 4096;
constexpr int64_t kMostSegments = 256;

// Elements that one job writes.
constexpr int64_t kWrittenElements = 16384;

// Adds the sums of each input up and writes them.
class WriteStep final : public ProjectionStep {
 public:
  struct Entry {
    uint32_t input = 0;
    int64_t count = 0;
    // Whether the heads have written what their stages found.
    bool stages_too = false;
    std::vector<size_t> sums;
  };

  explicit WriteStep(std::vector<Entry> entries)
      : entries_(std::move(entries)) {}

  int64_t job_count() const override {
    int64_t jobs = 0;
    for (const Entry& entry : entries_) jobs += JobsOf(entry);
    return jobs;
  }
  size_t worker_scratch_bytes() const override {
    return Arena::Padded(kWrittenElements * sizeof(double));
  }
  void RunJob(const KernelCall& call, int64_t job,
              Arena& arena) const override {
    for (const Entry& entry : entries_) {
      if (job < JobsOf(entry)) {
        const int64_t first = job * kWrittenElements;
        Write(call, entry, first,
              std::min(kWrittenElements, entry.count - first),
              arena.Allocate<double>(kWrittenElements));
        return;
      }
      job -= JobsOf(entry);
    }
  }

 private:
  static int64_t JobsOf(const Entry& entry) {
    return (entry.count + kWrittenElements - 1) / kWrittenElements;
  }
  static void Write(const KernelCall& call, const Entry& entry, int64_t first,
                    int64_t count, double* sum) {
    const MutableTensorView& to = call.gradients.inputs[entry.input];
    if (!to.wanted()) return;
    std::fill_n(sum, count, 0.0);
    if (entry.stages_too) {
      const TensorView written{to.data, to.dtype, to.shape, to.strides};
      ParameterView(written).Load(first, count, sum);
    }
    for (const size_t offset : entry.sums) {
      const auto* from =
          reinterpret_cast<const double*>(call.scratch + offset) + first;
      for (int64_t i = 0; i < count; ++i) sum[i] += from[i];
    }
    StoreFlat(to, first, count, sum);
  }

  std::vector<Entry> entries_;
};

std::set<uint32_t> InputsOfStages(const AttentionSpec& spec) {
  AttentionSpec stages = spec;
  stages.projections.reset();
  return NamedInputs(stages);
}

}  // namespace

size_t LayerGradients::Book(uint32_t input) {
  const size_t offset =
      layout_.Sums(problem_.inputs[input].shape.element_count());
  sums_[input].push_back(offset);
  return offset;
}

void LayerGradients::AddLayer(const LinearLayer& layer, const RowSource& rows,
                              const RowSource& gradient) {
  const Shape& weight = problem_.inputs[layer.weight].shape;
  if (problem_.gradients.WantsInput(layer.weight)) {
    weights_.push_back(
        {rows, gradient, weight[0], weight[1], Book(layer.weight)});
  }
  if (problem_.gradients.WantsInput(layer.bias)) {
    columns_.push_back({gradient, weight[0], Book(*layer.bias)});
  }
}

void LayerGradients::AddZero(const LinearLayer& layer) {
  // No sums, which are written as 0.
  if (problem_.gradients.WantsInput(layer.weight)) sums_[layer.weight];
  if (problem_.gradients.WantsInput(layer.bias)) sums_[*layer.bias];
}

void LayerGradients::AddGain(uint32_t input, const RowSource& products) {
  if (!problem_.gradients.WantsInput(input)) return;
  columns_.push_back({products, problem_.inputs[input].shape[0], Book(input)});
}

// At least one, so that the sums of no rows are 0.
std::vector<RowSegment> LayerGradients::Segments(const RowSource& rows) const {
  const RowCount count = CountRows(problem_, rows);
  const int64_t all = count.batch * count.length;
  const int64_t step =
      std::max(kSegmentRows, (all + kMostSegments - 1) / kMostSegments);
  std::vector<RowSegment> segments = {{0, std::min(step, all)}};
  for (int64_t at = step; at < all; at += step) {
    segments.push_back({at, std::min(at + step, all)});
  }
  return segments;
}

std::vector<StepGroup> LayerGradients::MakePhases() const {
  std::vector<StepGroup> phases;
  const auto add = [&](const RowSource& gradient, const auto& make) {
    const std::vector<RowSegment> segments = Segments(gradient);
    phases.resize(std::max(phases.size(), segments.size()));
    for (size_t i = 0; i < segments.size(); ++i) {
      phases[i].Add(make(segments[i]));
    }
  };
  for (const WeightGradientOptions& options : weights_) {
    add(options.gradient, [&](const RowSegment& segment) {
      return MakeWeightGradientStep(problem_, options, segment);
    });
  }
  for (const ColumnSumOptions& options : columns_) {
    add(options.gradient, [&](const RowSegment& segment) {
      return MakeColumnSumStep(problem_, options, segment);
    });
  }
  if (sums_.empty()) return phases;
  const std::set<uint32_t> of_stages = InputsOfStages(problem_.spec);
  std::vector<WriteStep::Entry> entries;
  for (const auto& [input, sums] : sums_) {
    entries.push_back({input, problem_.inputs[input].shape.element_count(),
                       of_stages.contains(input), sums});
  }
  phases.emplace_back().Add(std::make_unique<WriteStep>(std::move(entries)));
  return phases;
}

bool WantsLayer(const GradientSelection& wanted,
                const std::optional<LinearLayer>& layer) {
  return layer.has_value() &&
         (wanted.WantsInput(layer->weight) || wanted.WantsInput(layer->bias));
}

std::set<uint32_t> InputsOfLayersAlone(const AttentionSpec& spec) {
  std::set<uint32_t> alone = NamedInputs(spec);
  for (const uint32_t input : InputsOfStages(spec)) alone.erase(input);
  return alone;
}

}  // namespace attn
