// One AttendBackward call.
#pragma once

#include "proto/codec/backward_codec.h"
#include "server/rpc/call_job.h"
#include "server/rpc/gradient_builder.h"

namespace attn {

// Thread-safety as of CallJob.
class BackwardJob final : public CallJob {
 public:
  static constexpr char kMethod[] = "AttendBackward";

  BackwardJob(const CallContext& context, Caller caller, Reply reply)
      : CallJob(context, kMethod, std::move(caller), std::move(reply)) {}

 private:
  absl::StatusOr<WireCall*> Read(
      google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
      int64_t max_payload_bytes) override;
  absl::StatusOr<CallCost> Prepare(Engine& engine) override;
  void Allocate() override { gradients_ = response_.Allocate(); }
  void Submit(Engine& engine, const Cancellation& cancellation,
              EngineCallback done) override;
  grpc::ByteBuffer Encode(const CallReport& report) override;

  BackwardCall call_;
  std::shared_ptr<const Plan> plan_;
  GradientBuilder response_;
  InputGradients gradients_;
};

}  // namespace attn
