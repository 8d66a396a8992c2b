#include "server/rpc/inspect_job.h"

#include <algorithm>
#include <new>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/core/row_norm.h"
#include "engine/runtime/out_of_memory.h"
#include "server/rpc/byte_buffer.h"
#include "server/rpc/byte_count.h"
#include "server/rpc/call_warnings.h"
#include "server/rpc/inspect_window.h"
#include "server/rpc/statistics_message.h"

namespace attn {
namespace {

// Report, tags and lengths of a response, generously.
constexpr int64_t kHeaderBytes = 4096;
// Of a temperature, beside its heads.
constexpr int64_t kPointBytes = 32;

bool HasScores(const AttentionSpec& spec) {
  return !std::holds_alternative<LinearNormalizer>(spec.normalizer);
}

// For what a run of the engine does not give back.
OutputSelection OnlyStatistics() {
  OutputSelection selection;
  selection.output = false;
  selection.statistics = true;
  return selection;
}

// Ragged rows, [rows, H, D], as [1, H, rows, D].
TensorView OneSequence(const TensorView& tensor) {
  if (tensor.shape.rank() != 3) return tensor;
  TensorView view = tensor;
  view.shape = {1, tensor.shape[1], tensor.shape[0], tensor.shape[2]};
  view.strides = {0, tensor.strides[1], tensor.strides[0], tensor.strides[2]};
  return view;
}

}  // namespace

absl::StatusOr<WireCall*> InspectJob::Read(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
    int64_t max_payload_bytes) {
  auto call = DecodeInspectRequest(stream, size, max_payload_bytes);
  if (!call.ok()) return call.status();
  call_ = *std::move(call);
  return &call_;
}

absl::StatusOr<CallCost> InspectJob::Prepare(Engine& engine) {
  absl::Status status = PrepareScores();
  if (!status.ok()) return status;
  OutputSelection selection = OnlyStatistics();
  scores_.Select(selection);
  auto plan =
      engine.Plan(call_.spec, call_.args, selection, call_.args.q.dtype);
  if (!plan.ok()) return plan.status();
  plan_ = *std::move(plan);
  if (scores_.part_count() > 0) {
    // By the same kernel, so that it does not matter where a part ends.
    selection.statistics = false;
    plan = engine.Plan(call_.spec, call_.args, selection, call_.args.q.dtype,
                       plan_->kernel);
    if (!plan.ok()) return plan.status();
    part_plan_ = *std::move(plan);
  }
  status = PrepareSweep(engine);
  if (!status.ok()) return status;
  return Cost();
}

absl::Status InspectJob::PrepareScores() {
  const InspectQuestion& question = call_.question;
  const bool has_scores = HasScores(call_.spec);
  if (!has_scores && !question.sweep_temperatures.empty()) {
    return FieldError("sweep_temperatures[0]",
                      absl::StrCat(question.sweep_temperatures[0]),
                      "none: linear attention forms no scores");
  }
  if (question.views.any() && !has_scores) {
    return FieldError("views", "views of scores",
                      "none: linear attention forms no scores");
  }
  const auto problem =
      MakeProblem(call_.spec, call_.args, {}, call_.args.q.dtype, "");
  if (!problem.ok()) return problem.status();
  InspectedScores::Options options;
  options.shown = question.views;
  options.compare_heads = has_scores;
  options.dtype = problem->dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  auto window = ResolveWindow(question.window, problem->shape);
  if (!window.ok()) return window.status();
  options.window = *window;
  if (question.tiles) {
    const auto tiling = DecodeTiling(*question.tiles);
    if (!tiling.ok()) return tiling.status();
    options.tiling = *tiling;
  }
  scores_ = InspectedScores(options);
  return absl::OkStatus();
}

absl::Status InspectJob::PrepareSweep(Engine& engine) {
  AttentionSpec spec = call_.spec;
  for (const double temperature : call_.question.sweep_temperatures) {
    spec.temperatures = {temperature};
    // By the call's kernel, so that a temperature's numbers are those of a call
    // that has it.
    auto plan = engine.Plan(spec, call_.args, OnlyStatistics(),
                            call_.args.q.dtype, plan_->kernel);
    if (!plan.ok()) return plan.status();
    sweep_plans_.push_back(*std::move(plan));
  }
  return absl::OkStatus();
}

CallCost InspectJob::Cost() const {
  const AttentionShape& shape = plan_->problem.shape;
  const int64_t heads = SaturatingProduct(shape.batch, shape.q_heads);
  const int64_t rows = SaturatingProduct(heads, shape.q_length);
  const int64_t points = static_cast<int64_t>(sweep_plans_.size());
  CallCost cost;
  cost.plan = plan_;
  cost.flops = plan_->flops;
  // Each part takes its share of a run.
  if (part_plan_) cost.flops += part_plan_->flops;
  int64_t scratch = 0;
  for (const auto& plan : sweep_plans_) {
    cost.flops += plan->flops;
    scratch = std::max(scratch,
                       SaturatingCast(plan->execution->call_scratch_bytes()));
  }
  scratch =
      std::max(scratch, SaturatingCast(plan_->execution->call_scratch_bytes()));
  const int64_t head_bytes =
      SaturatingSum(SaturatingProduct(SaturatingProduct(heads, points + 1),
                                      kHeadStatisticsBytes),
                    points * kPointBytes);
  const int64_t row_bytes = SaturatingProduct(rows, kRowStatisticsBytes);
  cost.message_bytes =
      SaturatingSum(SaturatingSum(kHeaderBytes, head_bytes),
                    SaturatingSum(row_bytes, scores_.shown_bytes()));
  // The rows of the call stay while those of a temperature are there.
  const int64_t statistics =
      SaturatingProduct(rows, 2 * static_cast<int64_t>(sizeof(RowStatistics)));
  cost.booked_bytes = SaturatingSum(
      SaturatingSum(SaturatingSum(head_bytes, row_bytes), statistics),
      SaturatingSum(
          scores_.booked_bytes(),
          SaturatingSum(
              scratch,
              SaturatingCast(plan_->execution->worker_scratch_bytes()))));
  return cost;
}

void InspectJob::Submit(Engine& engine, const Cancellation& cancellation,
                        EngineCallback done) {
  engine.Submit(plan_, call_.args, outputs_, cancellation,
                [this, &engine, &cancellation,
                 done = std::move(done)](CallReport report) mutable {
                  report_ = std::move(report);
                  SeeParts(engine, cancellation, std::move(done));
                });
}

void InspectJob::SeeParts(Engine& engine, const Cancellation& cancellation,
                          EngineCallback done) {
  if (!report_.status.ok() || parts_ == scores_.part_count()) {
    Sweep(engine, cancellation, std::move(done));
    return;
  }
  engine.Submit(part_plan_, call_.args, scores_.Part(parts_), cancellation,
                [this, &engine, &cancellation,
                 done = std::move(done)](const CallReport& report) mutable {
                  AddRun(report);
                  if (report.status.ok()) scores_.PoolPart(parts_++);
                  SeeParts(engine, cancellation, std::move(done));
                });
}

void InspectJob::Sweep(Engine& engine, const Cancellation& cancellation,
                       EngineCallback done) {
  if (!report_.status.ok() || points_.size() == sweep_plans_.size()) {
    done(std::move(report_));
    return;
  }
  engine.Submit(sweep_plans_[points_.size()], call_.args, {}, cancellation,
                [this, &engine, &cancellation,
                 done = std::move(done)](const CallReport& report) mutable {
                  AddPoint(report);
                  Sweep(engine, cancellation, std::move(done));
                });
}

void InspectJob::AddRun(const CallReport& report) {
  report_.status = report.status;
  report_.computed += report.queued + report.computed;
}

void InspectJob::AddPoint(const CallReport& report) {
  AddRun(report);
  if (!report.status.ok()) return;
  // Nobody catches what an engine's callback throws.
  try {
    points_.push_back(PointOf(report));
  } catch (const std::bad_alloc&) {
    report_.status = OutOfMemory();
  }
}

std::vector<HeadStatistics> InspectJob::PointOf(
    const CallReport& report) const {
  return SummarizeHeads(report.row_statistics, plan_->problem.shape);
}

grpc::ByteBuffer InspectJob::Encode(const CallReport& report) {
  const AttentionShape& shape = plan_->problem.shape;
  const DType real =
      plan_->problem.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  v1::InspectResponse header;
  const std::vector<HeadStatistics> heads =
      SummarizeHeads(report.row_statistics, shape);
  FillHeads(heads, shape, *header.mutable_head_statistics());
  FillRows(report.row_statistics, shape, real,
           *header.mutable_row_statistics());
  for (size_t i = 0; i < points_.size(); ++i) {
    v1::TemperaturePoint& point = *header.add_sweep();
    point.set_temperature(call_.question.sweep_temperatures[i]);
    FillHeads(points_[i], shape, *point.mutable_head_statistics());
  }
  AddWarnings(heads, *header.mutable_report());
  std::vector<ResponseTensor> tensors = scores_.Take();
  FillReport(report, *header.mutable_report());
  return ToByteBuffer(EncodeResponse(header, std::move(tensors)));
}

void InspectJob::AddWarnings(absl::Span<const HeadStatistics> heads,
                             v1::CallReport& report) const {
  const Problem& problem = plan_->problem;
  std::vector<v1::Warning> warnings = HeadWarnings(heads, problem.shape);
  if (const auto weights = scores_.Weights()) {
    if (auto alike = HeadsAlikeWarning(*weights, heads)) {
      warnings.push_back(*std::move(alike));
    }
  }
  // The rows that layers make are not kept.
  if (!call_.spec.projections && IsFloat(call_.args.q.dtype) &&
      IsFloat(call_.args.k.dtype)) {
    const InputNorms norms{
        MeanRowNorm(OneSequence(call_.args.q), call_.args.q_lengths),
        MeanRowNorm(OneSequence(call_.args.k), call_.args.kv_lengths)};
    if (auto small = SmallLogitsWarning(*plan_, heads, norms)) {
      warnings.push_back(*std::move(small));
    }
  }
  for (v1::Warning& warning : warnings) {
    *report.add_warnings() = std::move(warning);
  }
}

}  // namespace attn
