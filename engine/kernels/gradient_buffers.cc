#include "engine/kernels/gradient_buffers.h"

#include <algorithm>

#include "engine/kernels/gradient_rows.h"

namespace attn {
namespace {

// The spec's numbers follow the parameters: scale, softcap, temperatures.
constexpr int64_t kScale = 0;
constexpr int64_t kSoftcap = 1;
constexpr int64_t kFirstTemperature = 2;

}  // namespace

GradientBuffers::GradientBuffers(const Problem& problem,
                                 size_t slot_extra_bytes, int64_t lanes)
    : offsets_(problem.inputs.size(), kNotWanted),
      counts_(problem.inputs.size(), 0),
      temperatures_(static_cast<int64_t>(problem.spec.temperatures.size())),
      planes_(problem.shape.batch * problem.shape.kv_heads * lanes) {
  for (const uint32_t input : problem.gradients.inputs) {
    offsets_[input] = parameters_;
    counts_[input] = problem.inputs[input].shape.element_count();
    parameters_ += counts_[input];
  }
  const int64_t elements = parameters_ + kFirstTemperature + temperatures_;
  const size_t slot_bytes =
      Arena::Padded(static_cast<size_t>(elements) * sizeof(double));
  slot_elements_ = static_cast<int64_t>(slot_bytes / sizeof(double));
  const auto affordable =
      static_cast<int64_t>(kMaxBytes / (slot_bytes + slot_extra_bytes));
  slots_ = std::max<int64_t>(std::min(planes_, affordable), 1);
}

size_t GradientBuffers::bytes() const {
  return static_cast<size_t>(slots_ * slot_elements_) * sizeof(double);
}

double* GradientBuffers::SlotAt(std::byte* memory, int64_t slot) const {
  return reinterpret_cast<double*>(memory) + slot * slot_elements_;
}

void GradientBuffers::Clear(std::byte* memory, int64_t slot) const {
  std::fill_n(SlotAt(memory, slot), slot_elements_, 0.0);
}

GradientSink GradientBuffers::SinkOf(std::byte* memory, int64_t slot) const {
  std::vector<double*> buffers;
  buffers.reserve(offsets_.size());
  for (const int64_t offset : offsets_) {
    buffers.push_back(offset == kNotWanted ? nullptr
                                           : SlotAt(memory, slot) + offset);
  }
  return GradientSink(std::move(buffers));
}

void GradientBuffers::Add(std::byte* memory, int64_t slot, int64_t head,
                          const StageGradients& stages) const {
  double* numbers = SlotAt(memory, slot) + parameters_;
  numbers[kScale] += stages.scale;
  numbers[kSoftcap] += stages.softcap;
  if (temperatures_ == 0) return;
  numbers[kFirstTemperature + (temperatures_ == 1 ? 0 : head)] +=
      stages.temperature;
}

int64_t GradientBuffers::merge_jobs() const {
  return 1 + (parameters_ + kMergeElements - 1) / kMergeElements;
}

double GradientBuffers::Sum(const std::byte* memory, int64_t element) const {
  const auto* values = reinterpret_cast<const double*>(memory) + element;
  double sum = 0;
  for (int64_t slot = 0; slot < slots_; ++slot) {
    sum += values[slot * slot_elements_];
  }
  return sum;
}

void GradientBuffers::MergeNumbers(const KernelCall& call,
                                   const std::byte* memory) const {
  ScalarGradients& numbers = *call.scalar_gradients;
  numbers.scale = Sum(memory, parameters_ + kScale);
  numbers.softcap = Sum(memory, parameters_ + kSoftcap);
  numbers.temperatures.clear();
  for (int64_t i = 0; i < temperatures_; ++i) {
    numbers.temperatures.push_back(
        Sum(memory, parameters_ + kFirstTemperature + i));
  }
}

// Job 0 has the numbers, the others a stretch of the parameters each.
void GradientBuffers::Merge(const KernelCall& call, const std::byte* memory,
                            int64_t job) const {
  if (job == 0) return MergeNumbers(call, memory);
  const int64_t begin = (job - 1) * kMergeElements;
  const int64_t end = std::min(begin + kMergeElements, parameters_);
  for (size_t input = 0; input < offsets_.size(); ++input) {
    if (offsets_[input] == kNotWanted) continue;
    const int64_t first = std::max(begin, offsets_[input]);
    const int64_t last = std::min(end, offsets_[input] + counts_[input]);
    for (int64_t i = first; i < last; ++i) {
      const double sum = Sum(memory, i);
      StoreFlat(call.gradients.inputs[input], i - offsets_[input], 1, &sum);
    }
  }
}

}  // namespace attn
