#include "tests/testing/engine_call.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <future>
#include <utility>

#include "engine/core/aligned_buffer.h"
#include "engine/runtime/arena.h"
#include "engine/runtime/worker_pool.h"
#include "gtest/gtest.h"
#include "tests/testing/small_float.h"

namespace attn::testing {
namespace {

double Read(const std::byte* from, DType dtype) {
  const auto as = [from](auto value) {
    std::memcpy(&value, from, sizeof(value));
    return value;
  };
  switch (dtype) {
    case DType::kF16:
      return oracle::Decode(as(uint16_t{}), oracle::kBinary16);
    case DType::kBF16:
      return oracle::Decode(as(uint16_t{}), oracle::kBFloat16);
    case DType::kF64:
      return as(double{});
    default:
      return static_cast<double>(as(float{}));
  }
}

void Write(double value, DType dtype, std::byte* to) {
  const auto put = [to](auto bits) { std::memcpy(to, &bits, sizeof(bits)); };
  switch (dtype) {
    case DType::kF16:
      return put(oracle::Encode(value, oracle::kBinary16));
    case DType::kBF16:
      return put(oracle::Encode(value, oracle::kBFloat16));
    case DType::kF64:
      return put(value);
    case DType::kBool:
      return put(static_cast<uint8_t>(value != 0));
    default:
      return put(static_cast<float>(value));
  }
}

bool SameBitsOf(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(), [](double x, double y) {
        if (std::isnan(x)) return std::isnan(y);
        return std::bit_cast<uint64_t>(x) == std::bit_cast<uint64_t>(y);
      });
}

// The row statistics that are numbers, one after the other.
std::vector<double> Flatten(const std::vector<RowStatistics>& rows) {
  std::vector<double> all;
  for (const RowStatistics& row : rows) {
    all.insert(all.end(), {row.lse, row.entropy, row.peak_weight,
                           static_cast<double>(row.top_key),
                           static_cast<double>(row.visible_keys), row.logit_min,
                           row.logit_max, row.logit_mean, row.logit_std,
                           row.contribution});
  }
  return all;
}

// Memory for the outputs of one run, all bits set: NaN in every type.
class OutputMemory {
 public:
  OutputMemory(const AttentionShape& s, const CallOptions& options) {
    const DType wide = options.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
    const Shape scores{s.batch, s.q_heads, s.q_length, s.kv_length};
    outputs_.output = options.layout == Layout::kBshd
                          ? New(options.output_dtype,
                                {s.batch, s.q_length, s.q_heads, s.v_dim})
                                .SwapAxes(1, 2)
                          : New(options.output_dtype,
                                {s.batch, s.q_heads, s.q_length, s.v_dim});
    outputs_.lse = New(wide, {s.batch, s.q_heads, s.q_length});
    if (!options.scores) return;
    outputs_.logits = New(wide, scores);
    outputs_.masked_logits = New(wide, scores);
    outputs_.weights = New(wide, scores);
  }

  const AttentionOutputs& outputs() const { return outputs_; }

  void ReadInto(Outcome& outcome) const {
    outcome.output = Values(outputs_.output);
    outcome.lse = Values(outputs_.lse);
    outcome.logits = Values(outputs_.logits);
    outcome.masked_logits = Values(outputs_.masked_logits);
    outcome.weights = Values(outputs_.weights);
  }

 private:
  MutableTensorView New(DType dtype, const Shape& shape) {
    const size_t bytes =
        static_cast<size_t>(shape.element_count()) * SizeOf(dtype);
    memory_.emplace_back(bytes);
    std::memset(memory_.back().data(), 0xFF, bytes);
    return MutableTensorView::Dense(memory_.back().data(), dtype, shape);
  }

  // In the order of the axes, whatever the strides.
  static std::vector<double> Values(const MutableTensorView& tensor) {
    std::vector<double> values;
    if (!tensor.wanted()) return values;
    const int rank = tensor.shape.rank();
    for (int64_t i = 0; i < tensor.shape.element_count(); ++i) {
      int64_t rest = i;
      int64_t offset = 0;
      for (int axis = rank - 1; axis >= 0; --axis) {
        offset += rest % tensor.shape[axis] *
                  tensor.strides[static_cast<size_t>(axis)];
        rest /= tensor.shape[axis];
      }
      values.push_back(Read(
          tensor.data + offset * static_cast<int64_t>(SizeOf(tensor.dtype)),
          tensor.dtype));
    }
    return values;
  }

  std::vector<AlignedBuffer> memory_;
  AttentionOutputs outputs_;
};

AttentionSpec SpecOf(const oracle::Case& call) {
  AttentionSpec spec;
  spec.score = DotScore{.scale = call.scale, .learned_scale = {}};
  spec.softcap = call.softcap;
  spec.temperatures = call.temperatures;
  uint32_t input = 0;
  for (size_t i = 0; i < call.dense_biases.size(); ++i) {
    spec.biases.emplace_back(DenseBias{input++});
  }
  for (const std::vector<double>& slopes : call.alibi_biases) {
    spec.biases.emplace_back(AlibiBias{slopes});
  }
  for (const oracle::Band& band : call.bands) {
    const Alignment alignment =
        band.bottom_right ? Alignment::kBottomRight : Alignment::kTopLeft;
    if (!band.left && band.right == 0) {
      spec.masks.emplace_back(CausalMask{alignment});
    } else {
      spec.masks.emplace_back(WindowMask{band.left, band.right, alignment});
    }
  }
  for (size_t i = 0; i < call.dense_masks.size(); ++i) {
    spec.masks.emplace_back(DenseMask{input++});
  }
  return spec;
}

// Runs every job, the last of a phase first, with scratch that reads as NaN.
void RunAllJobs(const Execution& execution, const KernelCall& call,
                Arena& arena) {
  const size_t bytes = execution.worker_scratch_bytes();
  for (int phase = 0; phase < execution.phase_count(); ++phase) {
    for (int64_t job = execution.job_count(phase) - 1; job >= 0; --job) {
      arena.Reserve(bytes);
      if (bytes > 0) std::memset(arena.Allocate<char>(bytes), 0xFF, bytes);
      arena.Reset();
      execution.RunJob(call, phase, job, arena);
    }
  }
}

// A function as the one job of a task.
class FunctionTask final : public TileTask {
 public:
  using Function = std::function<void(Arena&)>;

  explicit FunctionTask(Function function) : function_(std::move(function)) {}

  int phase_count() const override { return 1; }
  int64_t job_count(int /*phase*/) const override { return 1; }
  size_t scratch_bytes() const override { return 0; }
  const Cancellation& cancellation() const override { return never_; }
  void Begin() override {}
  void RunJob(int /*phase*/, int64_t /*job*/, Arena& arena) override {
    function_(arena);
  }
  void Done(absl::Status /*status*/) override { done_.set_value(); }
  std::future<void> finished() { return done_.get_future(); }

 private:
  Function function_;
  Cancellation never_{Clock::Monotonic(), absl::InfiniteFuture()};
  std::promise<void> done_;
};

// Runs on a pool's worker, because only there OpenMP is held to one thread, on
// which oneDNN's bits depend.
void OnWorker(FunctionTask::Function function) {
  static WorkerPool& pool = *MakeWorkerPool(1, Clock::Monotonic()).release();
  auto task = std::make_unique<FunctionTask>(std::move(function));
  std::future<void> finished = task->finished();
  pool.Submit(std::move(task));
  finished.wait();
}

Shape ShapeOf(const std::vector<int64_t>& dims) {
  auto shape = Shape::Create(dims, sizeof(double), "case");
  return *std::move(shape);
}

}  // namespace

bool Outcome::SameBits(const Outcome& other) const {
  return SameBitsOf(output, other.output) && SameBitsOf(logits, other.logits) &&
         SameBitsOf(masked_logits, other.masked_logits) &&
         SameBitsOf(weights, other.weights) && SameBitsOf(lse, other.lse) &&
         SameBitsOf(Flatten(rows), Flatten(other.rows));
}

void RoundTo(DType dtype, oracle::Case& call) {
  std::byte bits[sizeof(double)];
  for (std::vector<double>* values : {&call.q, &call.k, &call.v}) {
    for (double& value : *values) {
      Write(value, dtype, bits);
      value = Read(bits, dtype);
    }
  }
}

EngineCall::EngineCall(const oracle::Case& call, const CallOptions& options)
    : options_(options),
      shape_{call.batch,     call.q_heads, call.kv_heads, call.q_length,
             call.kv_length, call.qk_dim,  call.qk_dim,   call.v_dim},
      spec_(SpecOf(call)) {
  const AttentionShape& s = shape_;
  args_.q = StoreHeads(call.q, {s.batch, s.q_heads, s.q_length, s.q_dim});
  args_.k = StoreHeads(call.k, {s.batch, s.kv_heads, s.kv_length, s.k_dim});
  args_.v = StoreHeads(call.v, {s.batch, s.kv_heads, s.kv_length, s.v_dim});
  const DType bias = options.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  for (const oracle::Tensor& tensor : call.dense_biases) {
    args_.inputs.push_back(Store(tensor.data, ShapeOf(tensor.shape), bias));
  }
  for (const oracle::Tensor& tensor : call.dense_masks) {
    args_.inputs.push_back(
        Store(tensor.data, ShapeOf(tensor.shape), DType::kBool));
  }
  args_.q_lengths = call.q_lengths;
  args_.kv_lengths = call.kv_lengths;
}

TensorView EngineCall::Store(const std::vector<double>& values, Shape shape,
                             DType dtype) {
  const size_t width = SizeOf(dtype);
  // One element more, so that data is never null.
  storage_.push_back(std::make_unique<Bytes>((values.size() + 1) * width));
  std::byte* to = storage_.back()->data();
  for (size_t i = 0; i < values.size(); ++i) {
    Write(values[i], dtype, to + i * width);
  }
  return TensorView::Dense(to, dtype, std::move(shape));
}

TensorView EngineCall::StoreHeads(const std::vector<double>& values,
                                  const Shape& shape) {
  if (options_.layout == Layout::kBhsd) {
    return Store(values, shape, options_.dtype);
  }
  const int axis = options_.layout == Layout::kBshd ? 1 : 3;
  // The stored order of axes: 2 changes places with `axis`.
  int64_t dims[4] = {shape[0], shape[1], shape[2], shape[3]};
  std::swap(dims[2], dims[axis]);
  const Shape stored{dims[0], dims[1], dims[2], dims[3]};
  const TensorView view =
      TensorView::Dense(nullptr, options_.dtype, stored).SwapAxes(2, axis);
  std::vector<double> moved(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    int64_t offset = 0;
    for (int a = 3; a >= 0; --a) {
      offset += rest % shape[a] * view.strides[static_cast<size_t>(a)];
      rest /= shape[a];
    }
    moved[static_cast<size_t>(offset)] = values[i];
  }
  return Store(moved, stored, options_.dtype).SwapAxes(2, axis);
}

OutputSelection EngineCall::Selection() const {
  return {.output = true,
          .logits = options_.scores,
          .masked_logits = options_.scores,
          .weights = options_.scores,
          .statistics = options_.statistics};
}

absl::StatusOr<Problem> EngineCall::MakeProblem() const {
  return attn::MakeProblem(spec_, args_, Selection(), options_.output_dtype,
                           "");
}

Outcome EngineCall::RunBackwards(const Kernel& kernel) const {
  const absl::StatusOr<Problem> problem = MakeProblem();
  EXPECT_TRUE(problem.ok()) << problem.status();
  Outcome outcome;
  if (!problem.ok()) return outcome;
  const std::unique_ptr<const Execution> execution = kernel.Prepare(*problem);

  const OutputMemory memory(shape_, options_);
  outcome.rows.resize(
      static_cast<size_t>(shape_.batch * shape_.q_heads * shape_.q_length));
  AlignedBuffer scratch(execution->call_scratch_bytes());
  std::memset(scratch.data(), 0xFF, scratch.size());
  CallCounters counters;
  KernelCall call;
  call.problem = &*problem;
  call.args = &args_;
  call.outputs = memory.outputs();
  call.row_statistics = outcome.rows.data();
  call.scratch = scratch.data();
  call.counters = &counters;
  const std::unique_ptr<const CallState> state = execution->Begin(call);
  call.state = state.get();

  OnWorker([&](Arena& arena) { RunAllJobs(*execution, call, arena); });
  memory.ReadInto(outcome);
  outcome.nonfinite_q = counters.nonfinite_q;
  outcome.nonfinite_k = counters.nonfinite_k;
  outcome.nonfinite_v = counters.nonfinite_v;
  outcome.nonfinite_outputs = counters.nonfinite_outputs;
  return outcome;
}

template <typename RunPlan>
Outcome EngineCall::RunWith(Engine& engine, const std::string& kernel,
                            RunPlan run) const {
  const auto plan =
      engine.Plan(spec_, args_, Selection(), options_.output_dtype, kernel);
  EXPECT_TRUE(plan.ok()) << plan.status();
  Outcome outcome;
  if (!plan.ok()) return outcome;
  const OutputMemory memory(shape_, options_);
  CallReport report = run(*plan, memory.outputs());
  EXPECT_TRUE(report.status.ok()) << report.status;
  memory.ReadInto(outcome);
  outcome.rows = std::move(report.row_statistics);
  outcome.nonfinite_q = report.nonfinite_q;
  outcome.nonfinite_k = report.nonfinite_k;
  outcome.nonfinite_v = report.nonfinite_v;
  outcome.nonfinite_outputs = report.nonfinite_outputs;
  return outcome;
}

Outcome EngineCall::Run(Engine& engine, const std::string& kernel) const {
  const Cancellation never(Clock::Monotonic(), absl::InfiniteFuture());
  return RunWith(engine, kernel, [&](const auto& plan, const auto& outputs) {
    std::promise<CallReport> report;
    engine.Submit(plan, args_, outputs, never,
                  [&](CallReport r) { report.set_value(std::move(r)); });
    return report.get_future().get();
  });
}

Outcome EngineCall::RunAndWait(Engine& engine,
                               const std::string& kernel) const {
  return RunWith(engine, kernel, [&](const auto& plan, const auto& outputs) {
    return engine.Run(plan, args_, outputs);
  });
}

}  // namespace attn::testing
