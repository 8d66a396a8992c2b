// inference.GRPCInferenceService on gRPC's callback API: wiring only.
#pragma once

#include <functional>

#include "inference/open_inference.grpc.pb.h"
#include "server/rpc/call_context.h"
#include "server/rpc/caller.h"
#include "server/rpc/reply_watch.h"
#include "server/rpc/short_call.h"

namespace attn {

// All methods are raw, as AttentionService's are. Those that say whether the
// server lives and is ready are as the health service: for everybody, and in no
// log line and no metric. Thread-safe.
class InferenceService final
    : public inference::GRPCInferenceService::WithRawCallbackMethod_ServerLive<
          inference::GRPCInferenceService::WithRawCallbackMethod_ServerReady<
              inference::GRPCInferenceService::WithRawCallbackMethod_ModelReady<
                  inference::GRPCInferenceService::
                      WithRawCallbackMethod_ServerMetadata<
                          inference::GRPCInferenceService::
                              WithRawCallbackMethod_ModelMetadata<
                                  inference::GRPCInferenceService::
                                      WithRawCallbackMethod_ModelInfer<
                                          inference::GRPCInferenceService::
                                              WithRawCallbackMethod_RepositoryIndex<
                                                  inference::
                                                      GRPCInferenceService::
                                                          Service>>>>>>> {
 public:
  // What the three references are of must outlive the gRPC server. `serving`
  // says what the health service does; thread-safe.
  InferenceService(const CallContext& context, const CallerReader& callers,
                   ReplyWatch& replies, std::function<bool()> serving);

  grpc::ServerUnaryReactor* ServerLive(grpc::CallbackServerContext* call,
                                       const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ServerReady(grpc::CallbackServerContext* call,
                                        const grpc::ByteBuffer* request,
                                        grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ModelReady(grpc::CallbackServerContext* call,
                                       const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ServerMetadata(grpc::CallbackServerContext* call,
                                           const grpc::ByteBuffer* request,
                                           grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ModelMetadata(grpc::CallbackServerContext* call,
                                          const grpc::ByteBuffer* request,
                                          grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ModelInfer(grpc::CallbackServerContext* call,
                                       const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* RepositoryIndex(
      grpc::CallbackServerContext* call, const grpc::ByteBuffer* request,
      grpc::ByteBuffer* response) override;

 private:
  using Probe = std::function<absl::StatusOr<grpc::ByteBuffer>(
      grpc::ByteBuffer& request)>;

  // The same for everybody, and told to nobody.
  grpc::ServerUnaryReactor* RunProbe(const Probe& answer,
                                     grpc::CallbackServerContext& call,
                                     const grpc::ByteBuffer& request,
                                     grpc::ByteBuffer& response);

  const CallContext& context_;
  const CallerReader& callers_;
  ReplyWatch& replies_;
  const std::function<bool()> serving_;
  const ShortCallContext short_calls_;
};

}  // namespace attn
