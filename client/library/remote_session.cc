#include "client/library/remote_session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/library/call_status.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

// How often one call may go on elsewhere: a step that brings down whoever makes
// it must not be carried on to every server.
constexpr int kMovesOfCall = 3;
constexpr int kStepAxes = 4;
constexpr int kRowAxis = 2;

absl::Status WithMore(const absl::Status& status, absl::string_view more) {
  return WithMessage(status, absl::StrCat(status.message(), "; ", more));
}

absl::Status CheckShapes(const StepTensors& step, size_t index) {
  const auto check = [&](const char* name,
                         const TensorView& view) -> absl::Status {
    if (view.shape.rank() == kStepAxes && view.shape[0] == 1 &&
        view.shape[kRowAxis] == step.q.shape[kRowAxis]) {
      return absl::OkStatus();
    }
    return FieldError(absl::StrCat(name, "[", index, "].shape"),
                      view.shape.ToString(),
                      "[1, heads, tokens, dim], with as many tokens as q[0]");
  };
  if (step.q.shape.rank() != kStepAxes) {
    return FieldError(absl::StrCat("q[", index, "].shape"),
                      step.q.shape.ToString(), "[1, heads, tokens, dim]");
  }
  absl::Status status = check("q", step.q);
  if (status.ok()) status = check("k", step.k);
  if (status.ok()) status = check("v", step.v);
  return status;
}

absl::StatusOr<std::vector<HostTensor>> OutputsOfStep(
    const StepResult& result, const std::vector<StepTensors>& layers) {
  std::vector<HostTensor> outputs;
  for (const ResponseTensor& tensor : result.tensors) {
    if (tensor.field != v1::StepResponse::kOutputFieldNumber) continue;
    outputs.push_back(HostTensor::Copy(
        TensorView::Dense(tensor.data.data(), tensor.dtype, tensor.shape)));
  }
  if (outputs.size() == layers.size()) return outputs;
  return absl::InternalError(absl::StrCat("the server answered a step of ",
                                          layers.size(), " layers with ",
                                          outputs.size(), " outputs"));
}

absl::Status CheckOptions(const NewSession& session,
                          const RemoteSessionOptions& options) {
  if (options.addresses.empty()) {
    return FieldError("addresses", "none", "one at least");
  }
  if (options.client.deadline <= absl::ZeroDuration()) {
    return FieldError("deadline", absl::FormatDuration(options.client.deadline),
                      "> 0");
  }
  if (options.max_replay_bytes < 0) {
    return FieldError("max_replay_bytes",
                      absl::StrCat(options.max_replay_bytes), "0 or more");
  }
  if (session.layers < 1) {
    return FieldError("layers", absl::StrCat(session.layers), "1 or more");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RemoteSession> RemoteSession::Open(
    const NewSession& session, const RemoteSessionOptions& options,
    const CallOptions& call) {
  if (absl::Status status = CheckOptions(session, options); !status.ok()) {
    return status;
  }
  const absl::Duration deadline = call.deadline > absl::ZeroDuration()
                                      ? call.deadline
                                      : options.client.deadline;
  SessionPlaces places(options, EncodeOpenSession(session));
  ReplayHistory history(session.layers, options.max_replay_bytes);
  auto place =
      places.Open(history, absl::ZeroDuration(), absl::Now() + deadline);
  if (!place.ok()) return place.status();
  return RemoteSession(std::move(places), *std::move(place), std::move(history),
                       options.patience, options.client.deadline);
}

absl::StatusOr<std::vector<HostTensor>> RemoteSession::Step(
    const std::vector<StepTensors>& layers, const CallOptions& call) {
  if (absl::Status status = CheckOpen(); !status.ok()) return status;
  auto message = MessageOf(layers);
  if (!message.ok()) return message.status();
  const absl::Time end = EndOf(call);
  const auto result = Surviving(end, [&] { return StepHere(*message, end); });
  auto outputs = result.ok()
                     ? OutputsOfStep(*result, layers)
                     : absl::StatusOr<std::vector<HostTensor>>(result.status());
  if (!outputs.ok()) {
    // What is refused by its number was not made.
    if (!absl::IsFailedPrecondition(outputs.status())) {
      doubts_.StepFailed(message->position);
    }
    return outputs;
  }
  doubts_.StepAnswered();
  ++place_.next_step;
  for (const StepTensors& layer : layers) history_.Append(layer);
  return outputs;
}

absl::Status RemoteSession::Rollback(int64_t position,
                                     const CallOptions& call) {
  if (absl::Status status = CheckOpen(); !status.ok()) return status;
  if (position < 0 || position > history_.length()) {
    return FieldError("position", absl::StrCat(position),
                      absl::StrCat("0 to ", history_.length()));
  }
  const absl::Time end = EndOf(call);
  const absl::Status status = RollBackHere(position, end);
  if (status.ok()) {
    history_.Truncate(position);
    return status;
  }
  if (!IsSessionLost(status)) return status;
  // A new session is given no more than that.
  ReplayHistory kept = history_.Share();
  kept.Truncate(position);
  absl::Status moved = Move(status, kept, end);
  if (moved.ok()) history_ = std::move(kept);
  return moved;
}

absl::StatusOr<RemoteSession> RemoteSession::Fork(
    std::optional<int64_t> position, const CallOptions& call) {
  if (absl::Status status = CheckOpen(); !status.ok()) return status;
  const int64_t kept = position.value_or(history_.length());
  if (kept < 0 || kept > history_.length()) {
    return FieldError("position", absl::StrCat(kept),
                      absl::StrCat("0 to ", history_.length()));
  }
  const absl::Time end = EndOf(call);
  return Surviving(end, [&] { return ForkHere(kept, end); });
}

absl::Status RemoteSession::Close(const CallOptions& call) {
  if (std::exchange(closed_, true)) return absl::OkStatus();
  history_ = ReplayHistory(history_.layers(), history_.max_bytes());
  return place_.client.Close(place_.id, RestUntil(EndOf(call))).status();
}

absl::Status RemoteSession::CheckOpen() const {
  if (!closed_) return absl::OkStatus();
  return absl::FailedPreconditionError("the session was closed");
}

absl::StatusOr<StepMessage> RemoteSession::MessageOf(
    const std::vector<StepTensors>& layers) const {
  if (layers.empty()) return FieldError("layers", "none", "one at least");
  for (size_t i = 0; i < layers.size(); ++i) {
    const int layer = layers[i].layer;
    const std::string field = absl::StrCat("layers[", i, "]");
    if (layer < 0 || layer >= this->layers()) {
      return FieldError(field, absl::StrCat(layer),
                        absl::StrCat("0 to ", this->layers() - 1));
    }
    if (length(layer) != length(layers[0].layer)) {
      return FieldError(
          field, absl::StrCat(layer, ", which has ", length(layer), " tokens"),
          absl::StrCat(length(layers[0].layer), ", as layer ", layers[0].layer,
                       " has"));
    }
    if (absl::Status status = CheckShapes(layers[i], i); !status.ok()) {
      return status;
    }
  }
  StepMessage message;
  message.position = length(layers[0].layer);
  message.layers = layers;
  return message;
}

template <typename Call>
auto RemoteSession::Surviving(absl::Time end, const Call& call)
    -> decltype(call()) {
  for (int moves = 0;; ++moves) {
    auto result = call();
    if (!IsSessionLost(result.status()) || moves == kMovesOfCall) {
      return result;
    }
    absl::Status moved = Move(result.status(), history_, end);
    if (!moved.ok()) return moved;
  }
}

absl::StatusOr<StepResult> RemoteSession::StepHere(StepMessage& message,
                                                   absl::Time end) {
  const auto send = [&] {
    message.session_id = place_.id;
    message.epoch = place_.epoch;
    message.step = place_.next_step;
    return place_.client.Step(message, RestUntil(end));
  };
  if (doubts_.must_restore()) {
    absl::Status status = doubts_.Restore(history_, places_, end, place_);
    if (!status.ok()) return status;
  }
  auto result = send();
  if (!absl::IsFailedPrecondition(result.status()) || !doubts_.has_step()) {
    return result;
  }
  absl::Status status = doubts_.Restore(history_, places_, end, place_);
  if (status.ok()) return send();
  if (!absl::IsFailedPrecondition(status)) return status;
  return WithMore(result.status(), status.message());
}

absl::Status RemoteSession::RollBackHere(int64_t position, absl::Time end) {
  if (position > doubts_.agreed().value_or(position)) {
    absl::Status status = doubts_.Restore(history_, places_, end, place_);
    if (!status.ok()) return status;
  }
  absl::Status status = doubts_.RollBack(position, end, place_);
  if (status.ok()) doubts_ = {};
  return status;
}

absl::StatusOr<RemoteSession> RemoteSession::ForkHere(int64_t position,
                                                      absl::Time end) {
  if (doubts_.must_restore()) {
    absl::Status status = doubts_.Restore(history_, places_, end, place_);
    if (!status.ok()) return status;
  }
  const auto response =
      place_.client.Fork(place_.id, place_.epoch, position, RestUntil(end));
  if (!response.ok()) return response.status();
  ReplayHistory history = history_.Share();
  history.Truncate(position);
  auto client = places_.OwnerOf(response->owner(), place_.client);
  if (!client.ok()) return client.status();
  SessionPlace place{.client = *std::move(client),
                     .id = response->session_id(),
                     .epoch = response->epoch()};
  RemoteSession fork(places_, std::move(place), std::move(history), patience_,
                     deadline_);
  absl::Status same = fork.CheckLengths(response->session());
  if (same.ok()) return fork;
  fork.Close(RestUntil(end)).IgnoreError();
  if (!doubts_.has_step()) return same;
  same = doubts_.Restore(history_, places_, end, place_);
  if (!same.ok()) return same;
  return ForkHere(position, end);
}

absl::Status RemoteSession::CheckLengths(const v1::SessionInfo& there) const {
  for (int layer = 0; layer < there.lengths_size(); ++layer) {
    const int64_t here = layer < layers() ? length(layer) : 0;
    if (there.lengths(layer) == here) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("layer ", layer, " of the server's session has ",
                     there.lengths(layer), " tokens, and here ", here));
  }
  return absl::OkStatus();
}

absl::Status RemoteSession::Move(const absl::Status& lost,
                                 const ReplayHistory& history, absl::Time end) {
  if (!history.complete()) {
    return WithMore(
        lost, absl::StrCat("its tokens cannot be sent again, as they have more "
                           "than max_replay_bytes=",
                           history.max_bytes(), " of k and v"));
  }
  auto place = places_.Open(history, patience_, end);
  if (!place.ok()) {
    return WithMore(lost, absl::StrCat("no other server took the session: ",
                                       place.status().message()));
  }
  place_ = *std::move(place);
  doubts_ = {};
  ++moves_;
  return absl::OkStatus();
}

absl::Time RemoteSession::EndOf(const CallOptions& call) const {
  return absl::Now() +
         (call.deadline > absl::ZeroDuration() ? call.deadline : deadline_);
}

}  // namespace attn
