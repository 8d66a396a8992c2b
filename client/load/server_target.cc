#include "client/load/server_target.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/library/call_status.h"
#include "client/load/reference_output.h"
#include "client/load/response_times.h"

namespace attn {

absl::StatusOr<std::unique_ptr<ServerTarget>> ServerTarget::Create(
    const TargetOptions& options, const std::vector<CallClass>& classes) {
  std::unique_ptr<ServerTarget> target(new ServerTarget(options));
  target->mixed_ = classes.size() > 1;
  for (const CallClass& call_class : classes) {
    absl::Status status = target->Add(call_class);
    if (!status.ok()) return target->Named(call_class.name, status);
  }
  if (absl::Status status = target->Connect(); !status.ok()) return status;
  return target;
}

absl::Status ServerTarget::Named(const std::string& name,
                                 const absl::Status& status) const {
  // That nobody is there has nothing to do with the class.
  if (!mixed_ || IsUnreachable(status)) return status;
  return {status.code(), absl::StrCat("class ", name, ": ", status.message())};
}

absl::Status ServerTarget::Add(const CallClass& call_class) {
  ReadyClass& ready = classes_.emplace_back();
  ready.name = call_class.name;
  ready.deadline = call_class.deadline > absl::ZeroDuration()
                       ? call_class.deadline
                       : options_.deadline;
  if (call_class.call.kind == CallKind::kSession) {
    auto fleet = SessionFleet::Create(
        call_class,
        {.deadline = ready.deadline, .verify_every = options_.verify_every});
    if (!fleet.ok()) return fleet.status();
    ready.fleet = *std::move(fleet);
    return absl::OkStatus();
  }
  auto payloads = MakePayloads(call_class.call, call_class.payloads);
  if (!payloads.ok()) return payloads.status();
  const bool attends = call_class.call.kind == CallKind::kAttend;
  ready.method = attends ? kAttendMethod : kInspectMethod;
  ready.payloads = *std::move(payloads);
  if (attends && options_.verify_every > 0) {
    auto expected = ReferenceOutputs(call_class.call, ready.payloads);
    if (!expected.ok()) return expected.status();
    ready.verifier = std::make_unique<AnswerVerifier>(*std::move(expected));
  }
  return absl::OkStatus();
}

absl::Status ServerTarget::Connect() {
  for (int i = 0; i < options_.connections; ++i) {
    ChannelOptions options;
    options.address = options_.address;
    // Numbered from 1: without a number, connections are shared.
    options.connection = i + 1;
    options.security = options_.security;
    absl::StatusOr<RawChannel> channel = RawChannel::Create(options);
    if (!channel.ok()) return channel.status();
    channels_.push_back(*std::move(channel));
  }
  return absl::OkStatus();
}

absl::Status ServerTarget::Probe() {
  for (const RawChannel& channel : channels_) {
    for (const ReadyClass& ready : classes_) {
      if (ready.fleet != nullptr) continue;
      const absl::StatusOr<grpc::ByteBuffer> response =
          channel.Call(ready.method, ready.payloads.front().request,
                       {.deadline = ready.deadline});
      if (!response.ok()) return Named(ready.name, response.status());
    }
  }
  return absl::OkStatus();
}

absl::Status ServerTarget::Begin(const LoadOptions& options, LoadTimer& timer,
                                 const std::stop_token& stop) {
  const FleetRun run{
      .channels = channels_, .in_turn = options.open(), .timer = timer};
  for (size_t i = 0; i < classes_.size(); ++i) {
    if (classes_[i].fleet == nullptr) continue;
    absl::Status status = classes_[i].fleet->Begin(run, stop);
    if (status.ok()) continue;
    for (size_t begun = 0; begun < i; ++begun) {
      if (classes_[begun].fleet != nullptr) classes_[begun].fleet->End();
    }
    return Named(classes_[i].name, status);
  }
  return absl::OkStatus();
}

std::vector<std::optional<SessionTally>> ServerTarget::End() {
  std::vector<std::optional<SessionTally>> tallies;
  for (const ReadyClass& ready : classes_) {
    std::optional<SessionTally>& tally = tallies.emplace_back();
    if (ready.fleet != nullptr) tally = ready.fleet->End();
  }
  return tallies;
}

LoadCall ServerTarget::Call() {
  return [this](const LoadRequest& request, CallDone done) {
    Start(request, std::move(done));
  };
}

void ServerTarget::Start(const LoadRequest& request, CallDone done) {
  ReadyClass& ready = classes_[request.call_class];
  if (ready.fleet != nullptr) {
    ready.fleet->Step(request, std::move(done));
    return;
  }
  const int64_t call = ready.calls.fetch_add(1, std::memory_order_relaxed);
  const size_t payload = static_cast<size_t>(call) % ready.payloads.size();
  const auto channel = static_cast<size_t>(request.sequence) % channels_.size();
  channels_[channel].CallAsync(
      ready.method, ready.payloads[payload].request,
      {.deadline = ready.deadline},
      [this, &ready, payload, call, done = std::move(done)](
          const absl::Status& status, const grpc::ByteBuffer& response) {
        CallOutcome outcome{.code = status.code()};
        if (status.ok()) {
          outcome.server = ReadServerTimes(response);
          if (IsSample(ready, call)) {
            ready.verifier->Offer(payload, response);
          }
        } else {
          outcome.message = std::string(status.message());
          outcome.reason = ErrorReasonOf(status);
        }
        done(outcome);
      });
}

bool ServerTarget::IsSample(const ReadyClass& ready, int64_t call) const {
  if (ready.verifier == nullptr) return false;
  const int64_t round = call / static_cast<int64_t>(ready.payloads.size());
  return round % options_.verify_every == 0;
}

std::vector<Verification> ServerTarget::FinishVerification() {
  std::vector<Verification> found;
  for (const ReadyClass& ready : classes_) {
    found.push_back(ready.fleet != nullptr ? ready.fleet->FinishVerification()
                    : ready.verifier == nullptr ? Verification{}
                                                : ready.verifier->Finish());
  }
  return found;
}

}  // namespace attn
