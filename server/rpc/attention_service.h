// attention.v1.AttentionService on gRPC's callback API: wiring only.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "attention/v1/attention.grpc.pb.h"
#include "server/rpc/attend_stream_reactor.h"
#include "server/rpc/call_job.h"
#include "server/rpc/caller.h"
#include "server/rpc/plan_handler.h"
#include "server/rpc/reply_watch.h"
#include "server/rpc/short_call.h"

namespace attn {

// All methods are raw: each checks the length of its message by itself, so
// that a refusal can name the flag, and those that compute never make a
// protobuf message of their tensors. Thread-safe.
class AttentionService final
    : public v1::AttentionService::WithRawCallbackMethod_Attend<
          v1::AttentionService::WithRawCallbackMethod_AttendStream<
              v1::AttentionService::WithRawCallbackMethod_Inspect<
                  v1::AttentionService::WithRawCallbackMethod_AttendBackward<
                      v1::AttentionService::WithRawCallbackMethod_Plan<
                          v1::AttentionService::
                              WithRawCallbackMethod_GetServerInfo<
                                  v1::AttentionService::Service>>>>>> {
 public:
  // `context`, `callers` and `replies` must outlive the gRPC server.
  AttentionService(const CallContext& context, const CallerReader& callers,
                   ReplyWatch& replies, const AttendStreamOptions& streams,
                   v1::GetServerInfoResponse info)
      : context_(context),
        callers_(callers),
        replies_(replies),
        stream_options_(streams),
        short_calls_{context.observer, context.clock, callers, replies,
                     context.max_message_bytes},
        plan_handler_(context.engine, context.layers),
        info_(std::move(info)) {}

  grpc::ServerUnaryReactor* Attend(grpc::CallbackServerContext* call,
                                   const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override;
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* AttendStream(
      grpc::CallbackServerContext* call) override;
  grpc::ServerUnaryReactor* Inspect(grpc::CallbackServerContext* call,
                                    const grpc::ByteBuffer* request,
                                    grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* AttendBackward(grpc::CallbackServerContext* call,
                                           const grpc::ByteBuffer* request,
                                           grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Plan(grpc::CallbackServerContext* call,
                                 const grpc::ByteBuffer* request,
                                 grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetServerInfo(grpc::CallbackServerContext* call,
                                          const grpc::ByteBuffer* request,
                                          grpc::ByteBuffer* response) override;

  // Ends the streams that are open, and those to come, with UNAVAILABLE: each
  // when its calls are answered.
  void EndStreams();

 private:
  // A method that the engine computes: CallJob of that class.
  template <typename Job>
  grpc::ServerUnaryReactor* RunJob(grpc::CallbackServerContext& call,
                                   const grpc::ByteBuffer& request,
                                   grpc::ByteBuffer& response);

  const CallContext& context_;
  const CallerReader& callers_;
  ReplyWatch& replies_;
  const AttendStreamOptions stream_options_;
  AttendStreams streams_;
  const ShortCallContext short_calls_;
  PlanHandler plan_handler_;
  const v1::GetServerInfoResponse info_;
};

}  // namespace attn
