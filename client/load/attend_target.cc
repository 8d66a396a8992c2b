#include "client/load/attend_target.h"

#include <utility>

#include "client/load/reference_output.h"
#include "client/load/response_times.h"

namespace attn {

absl::StatusOr<std::unique_ptr<AttendTarget>> AttendTarget::Create(
    const TargetOptions& options, const CallProfile& profile, int payloads) {
  auto made = MakePayloads(profile, payloads);
  if (!made.ok()) return made.status();
  std::unique_ptr<AttendTarget> target(
      new AttendTarget(options, *std::move(made)));
  if (absl::Status status = target->Connect(); !status.ok()) return status;
  if (options.verify_every > 0) {
    auto expected = ReferenceOutputs(profile, target->payloads_);
    if (!expected.ok()) return expected.status();
    target->verifier_ = std::make_unique<AnswerVerifier>(*std::move(expected));
  }
  return target;
}

absl::Status AttendTarget::Connect() {
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

absl::Status AttendTarget::Probe() {
  for (const RawChannel& channel : channels_) {
    const absl::StatusOr<grpc::ByteBuffer> response =
        channel.Call(kAttendMethod, payloads_.front().request,
                     {.deadline = options_.deadline});
    if (!response.ok()) return response.status();
  }
  return absl::OkStatus();
}

LoadCall AttendTarget::Call() {
  return [this](int64_t sequence, CallDone done) {
    Start(sequence, std::move(done));
  };
}

void AttendTarget::Start(int64_t sequence, CallDone done) {
  const auto number = static_cast<size_t>(sequence);
  const size_t payload = number % payloads_.size();
  channels_[number % channels_.size()].CallAsync(
      kAttendMethod, payloads_[payload].request,
      {.deadline = options_.deadline},
      [this, sequence, payload, done = std::move(done)](
          const absl::Status& status, const grpc::ByteBuffer& response) {
        CallOutcome outcome{.code = status.code(), .server = std::nullopt};
        if (status.ok()) {
          outcome.server = ReadServerTimes(response);
          if (IsSample(sequence)) verifier_->Offer(payload, response);
        }
        done(outcome);
      });
}

bool AttendTarget::IsSample(int64_t sequence) const {
  const int64_t round = sequence / static_cast<int64_t>(payloads_.size());
  return verifier_ != nullptr && round % options_.verify_every == 0;
}

Verification AttendTarget::FinishVerification() {
  return verifier_ == nullptr ? Verification{} : verifier_->Finish();
}

}  // namespace attn
