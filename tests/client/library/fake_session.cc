#include "tests/client/library/fake_session.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "proto/codec/error_details.h"
#include "proto/codec/tensor_codec.h"

namespace attn {
namespace {

bool IsBshd(const v1::Tensor& tensor) {
  return tensor.layout() == v1::TENSOR_LAYOUT_BSHD;
}

bool IsZero(const HostTensor& tensor) {
  for (int64_t i = 0; i < tensor.element_count(); ++i) {
    if (tensor.At(i) != 0) return false;
  }
  return true;
}

void Write(const HostTensor& tensor, bool bshd, v1::Tensor& message) {
  message = EncodeTensor(tensor.dtype(), tensor.shape(), bshd);
  message.set_data(tensor.data(), tensor.byte_count());
}

}  // namespace

absl::Status FakeError(absl::StatusCode code, const std::string& reason) {
  return WithReason(absl::Status(code, absl::StrCat("fake: ", reason)), reason);
}

absl::Status FakeSession::CheckEpoch(uint64_t epoch) const {
  if (epoch == epoch_) return absl::OkStatus();
  return FakeError(absl::StatusCode::kFailedPrecondition,
                   "SESSION_WRONG_EPOCH");
}

absl::Status FakeSession::Step(const v1::StepRequest& request, SeenStep& seen,
                               v1::StepResponse& response) {
  absl::Status status = CheckEpoch(request.epoch());
  if (!status.ok()) return status;
  seen.session_id = request.session_id();
  seen.epoch = request.epoch();
  seen.step = request.step();
  seen.position = request.position();
  seen.layers = {request.layers().begin(), request.layers().end()};
  if (seen.layers.empty()) seen.layers = {0};
  if (request.step() + 1 == next_step_ && !last_request_.empty()) {
    if (request.SerializeAsString() != last_request_) {
      return FakeError(absl::StatusCode::kFailedPrecondition,
                       "SESSION_STEP_REPLACED");
    }
    seen.again = true;
    response = last_response_;
    return absl::OkStatus();
  }
  if (request.step() != next_step_) {
    return FakeError(absl::StatusCode::kFailedPrecondition, "SESSION_STEP_GAP");
  }
  status = Append(request, seen, response);
  if (!status.ok()) return status;
  ++next_step_;
  rolled_back_to_.reset();
  response.set_step(request.step());
  last_request_ = request.SerializeAsString();
  last_response_ = response;
  return absl::OkStatus();
}

absl::Status FakeSession::Append(const v1::StepRequest& request, SeenStep& step,
                                 v1::StepResponse& response) {
  for (const int layer : step.layers) {
    const int64_t length = layers_.at(static_cast<size_t>(layer)).k.tokens();
    if (length == request.position()) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "position: got ", request.position(), ", expected ", length));
  }
  step.zero_query = true;
  for (size_t i = 0; i < step.layers.size(); ++i) {
    const auto index = static_cast<int>(i);
    PlainCache& layer = layers_.at(static_cast<size_t>(step.layers[i]));
    const HostTensor q = *HostTensor::Copy(request.q(index));
    const bool bshd = IsBshd(request.q(index));
    step.zero_query = step.zero_query && IsZero(q);
    step.tokens = q.shape()[bshd ? 1 : 2];
    layer.k.Append(*HostTensor::Copy(request.k(index)),
                   IsBshd(request.k(index)));
    layer.v.Append(*HostTensor::Copy(request.v(index)),
                   IsBshd(request.v(index)));
    Write(PlainSight(q, bshd, layer), bshd, *response.add_output());
  }
  return absl::OkStatus();
}

absl::StatusOr<FakeSession> FakeSession::Fork(
    const v1::ForkRequest& request) const {
  absl::Status status = CheckEpoch(request.epoch());
  if (!status.ok()) return status;
  FakeSession fork(static_cast<int>(layers_.size()));
  fork.layers_ = layers_;
  for (PlainCache& layer : fork.layers_) {
    if (request.has_position()) layer.Truncate(request.position());
  }
  return fork;
}

absl::Status FakeSession::Rollback(const v1::RollbackRequest& request,
                                   v1::RollbackResponse& response) {
  const bool again =
      request.epoch() + 1 == epoch_ && rolled_back_to_ == request.position();
  if (!again) {
    absl::Status status = CheckEpoch(request.epoch());
    if (!status.ok()) return status;
    int64_t longest = 0;
    for (const PlainCache& layer : layers_) {
      longest = std::max(longest, layer.k.tokens());
    }
    if (request.position() < 0 || request.position() > longest) {
      return FieldError("position", absl::StrCat(request.position()),
                        absl::StrCat("0 to ", longest));
    }
    for (PlainCache& layer : layers_) layer.Truncate(request.position());
    ++epoch_;
    last_request_.clear();
    rolled_back_to_ = request.position();
  }
  response.set_epoch(epoch_);
  response.set_step(next_step_);
  return absl::OkStatus();
}

void FakeSession::Describe(const std::string& id, v1::SessionInfo& info) const {
  info.set_session_id(id);
  info.set_epoch(epoch_);
  info.set_next_step(next_step_);
  for (const PlainCache& layer : layers_) info.add_lengths(layer.k.tokens());
}

}  // namespace attn
