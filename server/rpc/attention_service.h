// attention.v1.AttentionService on gRPC's callback API: wiring only.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "attention/v1/attention.grpc.pb.h"
#include "engine/runtime/clock.h"
#include "server/rpc/attend_job.h"
#include "server/rpc/call_observer.h"
#include "server/rpc/plan_handler.h"

namespace attn {

struct AttentionServiceOptions {
  // For a client that sets no deadline.
  absl::Duration default_timeout = absl::Seconds(60);
};

// All methods are raw: each checks the length of its message by itself, so
// that a refusal can name the flag, and Attend never makes a protobuf message
// of its tensors. Thread-safe.
class AttentionService final
    : public v1::AttentionService::WithRawCallbackMethod_Attend<
          v1::AttentionService::WithRawCallbackMethod_Plan<
              v1::AttentionService::WithRawCallbackMethod_GetServerInfo<
                  v1::AttentionService::Service>>> {
 public:
  // `context` must outlive the gRPC server.
  AttentionService(AttentionServiceOptions options,
                   const AttendContext& context, v1::GetServerInfoResponse info)
      : options_(options),
        context_(context),
        plan_handler_(context.engine),
        info_(std::move(info)) {}

  grpc::ServerUnaryReactor* Attend(grpc::CallbackServerContext* call,
                                   const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Plan(grpc::CallbackServerContext* call,
                                 const grpc::ByteBuffer* request,
                                 grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetServerInfo(grpc::CallbackServerContext* call,
                                          const grpc::ByteBuffer* request,
                                          grpc::ByteBuffer* response) override;

 private:
  using Answer = std::function<absl::StatusOr<grpc::ByteBuffer>(
      grpc::ByteBuffer& request, CallRecord& record)>;

  absl::Time DeadlineOf(const grpc::CallbackServerContext& call) const;
  // Runs a short method to its end on this thread.
  absl::Status RunShort(const char* method, const Answer& answer,
                        const grpc::ByteBuffer& request,
                        grpc::ByteBuffer& response);

  const AttentionServiceOptions options_;
  const AttendContext& context_;
  PlanHandler plan_handler_;
  const v1::GetServerInfoResponse info_;
};

}  // namespace attn
