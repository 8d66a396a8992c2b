#include "server/rpc/step_job.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/cache/step_spec.h"
#include "engine/core/field_error.h"
#include "server/rpc/byte_buffer.h"
#include "server/rpc/byte_count.h"
#include "server/rpc/session_handlers.h"

namespace attn {
namespace {

// A larger answer is computed again if it is asked for again.
constexpr int64_t kMaxKeptBytes = int64_t{256} << 10;

absl::Status CheckExtents(const TensorView& tensor, absl::string_view name,
                          size_t index, int64_t heads, int64_t width) {
  if (tensor.shape[1] == heads && tensor.shape[3] == width) {
    return absl::OkStatus();
  }
  return FieldError(
      absl::StrCat(name, "[", index, "].shape"), tensor.shape.ToString(),
      absl::StrCat(heads, " heads of width ", width, " as in OpenSession"));
}

// The calls of one step's layers, on their way.
struct LayersUnderWay {
  std::mutex mutex;
  size_t left = 0;
  CallReport all;
  std::function<void(CallReport)> done;
};

void Add(CallReport report, CallReport& all) {
  if (all.status.ok()) all.status = report.status;
  all.queued = std::max(all.queued, report.queued);
  all.computed = std::max(all.computed, report.computed);
  all.nonfinite_q += report.nonfinite_q;
  all.nonfinite_k += report.nonfinite_k;
  all.nonfinite_v += report.nonfinite_v;
  all.nonfinite_outputs += report.nonfinite_outputs;
  all.f16_overflows += report.f16_overflows;
  all.fully_masked_rows += report.fully_masked_rows;
  // What describes a call's heads describes those of the first layer.
  if (all.row_statistics.empty()) {
    all.row_statistics = std::move(report.row_statistics);
  }
}

void LayerDone(LayersUnderWay& layers, CallReport report) {
  bool last = false;
  {
    const std::lock_guard lock(layers.mutex);
    Add(std::move(report), layers.all);
    last = --layers.left == 0;
  }
  if (last) layers.done(std::move(layers.all));
}

}  // namespace

absl::StatusOr<WireCall*> StepJob::Read(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
    int64_t max_payload_bytes) {
  auto call = envelope_ == Envelope::kNone
                  ? DecodeStepRequest(stream, size, max_payload_bytes)
                  : DecodeStepStreamRequest(stream, size, max_payload_bytes);
  if (!call.ok()) return call.status();
  call_ = *std::move(call);
  return &call_;
}

int64_t StepJob::tokens_of_step() const {
  return call_.layers.front().q.shape[2];
}

int64_t StepJob::Seen() const {
  return session_.settings().steps->window().seen();
}

KvSequence& StepJob::SequenceOf(size_t i) const {
  return session_.state().layers[static_cast<size_t>(call_.layers[i].layer)];
}

absl::StatusOr<CallCost> StepJob::Prepare(Engine& engine) {
  auto session =
      AcquireSession(*context().sessions, call_.session_id, tenant());
  if (!session.ok()) return session.status();
  session_ = *std::move(session);
  absl::Status status = CheckNumber();
  if (!status.ok()) return status;
  call_.spec = session_.settings().steps->whole();
  if (again_ && session_.state().last->message.has_value()) {
    AnswerAtOnce(
        std::any_cast<grpc::ByteBuffer>(session_.state().last->message));
    return CallCost{};
  }
  status = CheckLayers();
  if (status.ok()) status = CheckPosition();
  if (!status.ok()) return status;
  return PlanLayers(engine);
}

absl::Status StepJob::CheckNumber() {
  const SessionState& state = session_.state();
  SessionStore& store = *context().sessions;
  if (call_.epoch != state.epoch) {
    store.Count(SessionError::kWrongEpoch);
    return SessionWrongEpoch(call_.epoch, state.epoch);
  }
  if (call_.step == state.next_step) return absl::OkStatus();
  if (!state.last.has_value() || state.last->step != call_.step) {
    store.Count(SessionError::kStepGap);
    return SessionStepGap(call_.step, state.next_step);
  }
  if (state.last->digest != call_.digest) {
    store.Count(SessionError::kStepGap);
    return SessionStepReplaced(call_.step);
  }
  again_ = true;
  store.Count(SessionError::kStepReplayed);
  return absl::OkStatus();
}

absl::Status StepJob::CheckLayers() const {
  const SessionSettings& settings = session_.settings();
  const KvLayout& layout = settings.layout;
  for (size_t i = 0; i < call_.layers.size(); ++i) {
    const StepTensors& tensors = call_.layers[i];
    if (tensors.layer >= settings.layers) {
      return FieldError(absl::StrCat("layers[", i, "]"),
                        absl::StrCat(tensors.layer),
                        absl::StrCat("0 to ", settings.layers - 1));
    }
    for (const absl::Status& status :
         {CheckExtents(tensors.q, "q", i, settings.q_heads, settings.q_dim),
          CheckExtents(tensors.k, "k", i, layout.kv_heads, layout.k_dim),
          CheckExtents(tensors.v, "v", i, layout.kv_heads, layout.v_dim)}) {
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

absl::Status StepJob::CheckPosition() const {
  for (size_t i = 0; i < call_.layers.size(); ++i) {
    const int64_t length = SequenceOf(i).length();
    const int64_t before = again_ ? length - tokens_of_step() : length;
    if (before == call_.position) continue;
    context().sessions->Count(SessionError::kStepGap);
    return SessionPositionGap(call_.position, before, call_.layers[i].layer);
  }
  return absl::OkStatus();
}

absl::StatusOr<CallCost> StepJob::PlanLayers(Engine& engine) {
  const StepSpec& steps = *session_.settings().steps;
  const AttentionSpec spec = steps.At(call_.position);
  const int64_t keys = call_.position + tokens_of_step();
  absl::Status reached = steps.CheckReach(keys);
  if (!reached.ok()) return reached;
  AttendCall described;
  described.wanted.output = true;
  CallCost cost;
  cost.tokens = tokens_of_step();
  for (const StepTensors& tensors : call_.layers) {
    LayerCall& layer = layers_.emplace_back();
    layer.args = steps.Args(keys);
    layer.args.q = tensors.q;
    auto plan = engine.Plan(spec, layer.args, described.wanted.Selection(),
                            tensors.q.dtype);
    if (!plan.ok()) return plan.status();
    layer.plan = *std::move(plan);
    described.bshd = tensors.bshd;
    layer.response = ResponseBuilder(*layer.plan, described);
    cost.flops += layer.plan->flops;
    cost.message_bytes =
        SaturatingSum(cost.message_bytes, layer.response.message_bytes());
    cost.booked_bytes =
        SaturatingSum(cost.booked_bytes, layer.response.booked_bytes());
  }
  cost.plan = layers_.front().plan;
  call_.args = layers_.front().args;
  return cost;
}

absl::Status StepJob::Claim() {
  if (again_) return absl::OkStatus();
  std::vector<int> numbers;
  for (const StepTensors& tensors : call_.layers) {
    numbers.push_back(tensors.layer);
  }
  absl::Status status = CountKvMemory(
      session_.Reserve(numbers, tokens_of_step()), *context().sessions);
  claimed_ = status.ok();
  return status;
}

void StepJob::Allocate() {
  const PrepareKeys prepare = session_.settings().steps->preparation();
  for (LayerCall& layer : layers_) layer.outputs = layer.response.Allocate();
  for (size_t i = 0; i < layers_.size(); ++i) {
    KvSequence& sequence = SequenceOf(i);
    if (!again_) sequence.Append(call_.layers[i].k, call_.layers[i].v, prepare);
    layers_[i].args.kv_blocks = sequence.Describe();
  }
}

std::optional<ForwardCall> StepJob::AsForwardCall() {
  if (layers_.size() != 1) return std::nullopt;
  const LayerCall& layer = layers_.front();
  return ForwardCall{.plan = layer.plan,
                     .args = &layer.args,
                     .outputs = &layer.outputs,
                     .cancellation = nullptr,
                     .done = nullptr};
}

void StepJob::Submit(Engine& engine, const Cancellation& cancellation,
                     EngineCallback done) {
  auto under_way = std::make_shared<LayersUnderWay>();
  under_way->left = layers_.size();
  under_way->done = std::move(done);
  std::vector<ForwardCall> calls;
  for (const LayerCall& layer : layers_) {
    calls.push_back({.plan = layer.plan,
                     .args = &layer.args,
                     .outputs = &layer.outputs,
                     .cancellation = &cancellation,
                     .done = [under_way](CallReport report) {
                       LayerDone(*under_way, std::move(report));
                     }});
  }
  engine.SubmitTogether(std::move(calls));
}

grpc::ByteBuffer StepJob::Encode(const CallReport& report) {
  v1::StepResponse header;
  header.set_epoch(call_.epoch);
  header.set_step(call_.step);
  header.set_length(call_.position + tokens_of_step());
  FillReport(report, *header.mutable_report());
  header.set_request_id(header.report().request_id());
  std::vector<ResponseTensor> outputs;
  for (LayerCall& layer : layers_) {
    for (ResponseTensor& tensor : layer.response.TakeTensors()) {
      tensor.field = v1::StepResponse::kOutputFieldNumber;
      outputs.push_back(std::move(tensor));
    }
  }
  grpc::ByteBuffer response =
      ToByteBuffer(EncodeStepResponse(header, std::move(outputs)));
  if (!again_ && static_cast<int64_t>(response.Length()) <= kMaxKeptBytes) {
    kept_ = response;
  }
  return response;
}

void StepJob::Settle(const absl::Status& status) {
  if (!session_.held()) return;
  if (claimed_ && status.ok()) KeepStep();
  if (claimed_ && !status.ok()) DropTokens();
  session_.Release((claimed_ || again_) && status.ok());
}

void StepJob::KeepStep() {
  SessionState& state = session_.state();
  state.last = SessionAnswer{.step = call_.step, .digest = call_.digest};
  state.rolled_back_to.reset();
  state.next_step = call_.step + 1;
  if (kept_.has_value()) {
    const auto bytes = static_cast<int64_t>(kept_->Length());
    state.last->charge = session_.Charge(bytes);
    if (state.last->charge != nullptr) state.last->message = *std::move(kept_);
  }
  const KeyWindow& window = session_.settings().steps->window();
  if (!window.bounded || call_.position <= window.left) return;
  for (size_t i = 0; i < layers_.size(); ++i) {
    // What this step saw stays, as it may be asked for again.
    SequenceOf(i).Release(window.keep, call_.position - window.left);
  }
}

void StepJob::DropTokens() {
  for (size_t i = 0; i < layers_.size(); ++i) {
    // What was there before is there still: nothing was let go since.
    SequenceOf(i).Truncate(call_.position, Seen()).IgnoreError();
  }
}

}  // namespace attn
