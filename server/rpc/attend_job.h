// One Attend call.
#pragma once

#include <memory>
#include <utility>

#include "proto/codec/attend_codec.h"
#include "server/rpc/call_job.h"
#include "server/rpc/response_builder.h"

namespace attn {

// Thread-safety as of CallJob.
class AttendJob : public CallJob {
 public:
  static constexpr char kMethod[] = "Attend";

  AttendJob(const CallContext& context, Caller caller, Reply reply)
      : AttendJob(context, kMethod, std::move(caller), std::move(reply)) {}

 protected:
  AttendJob(const CallContext& context, const char* method, Caller caller,
            Reply reply)
      : CallJob(context, method, std::move(caller), std::move(reply)) {}

  absl::StatusOr<WireCall*> Read(
      google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
      int64_t max_payload_bytes) override;
  absl::StatusOr<CallCost> Prepare(Engine& engine) override;
  void Allocate() override { outputs_ = response_.Allocate(); }
  std::optional<ForwardCall> AsForwardCall() override;
  void Submit(Engine& engine, const Cancellation& cancellation,
              EngineCallback done) override;
  grpc::ByteBuffer Encode(const CallReport& report) override;
  const char* LargerCallsHint() const override {
    return "; AttendStream takes larger calls in chunks";
  }

  // The response but for its tensors.
  v1::AttendResponse MakeHeader(const CallReport& report);

  AttendCall call_;
  std::shared_ptr<const Plan> plan_;
  ResponseBuilder response_;
  AttentionOutputs outputs_;
};

}  // namespace attn
