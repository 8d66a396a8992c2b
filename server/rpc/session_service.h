// attention.v1.SessionService on gRPC's callback API.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "attention/v1/session.grpc.pb.h"
#include "proto/codec/schema.h"
#include "server/rpc/call_context.h"
#include "server/rpc/caller.h"
#include "server/rpc/reply_watch.h"
#include "server/rpc/short_call.h"
#include "server/rpc/step_stream.h"

namespace attn {

// Borrowed; must outlive the gRPC server.
struct SessionServiceContext {
  // Has sessions.
  const CallContext& calls;
  const CallerReader& callers;
  ReplyWatch& replies;
  ShortCallContext short_calls;
  // Where steps must go; empty: wherever the session was opened.
  std::string owner;
  // Of a session that asks for none, and the most that one may ask for.
  absl::Duration idle_timeout;
};

// Thread-safe.
class SessionService final
    : public v1::SessionService::WithRawCallbackMethod_OpenSession<
          v1::SessionService::WithRawCallbackMethod_Step<
              v1::SessionService::WithRawCallbackMethod_StepStream<
                  v1::SessionService::WithRawCallbackMethod_Fork<
                      v1::SessionService::WithRawCallbackMethod_Rollback<
                          v1::SessionService::WithRawCallbackMethod_CloseSession<
                              v1::SessionService::
                                  WithRawCallbackMethod_GetSession<
                                      v1::SessionService::
                                          WithRawCallbackMethod_ListSessions<
                                              v1::SessionService::
                                                  Service>>>>>>>> {
 public:
  using Call = grpc::CallbackServerContext;
  using Bytes = grpc::ByteBuffer;
  using Unary = grpc::ServerUnaryReactor;

  explicit SessionService(const SessionServiceContext& context)
      : context_(context) {}

  Unary* OpenSession(Call* call, const Bytes* request,
                     Bytes* response) override;
  Unary* Step(Call* call, const Bytes* request, Bytes* response) override;
  grpc::ServerBidiReactor<Bytes, Bytes>* StepStream(Call* call) override;
  Unary* Fork(Call* call, const Bytes* request, Bytes* response) override;
  Unary* Rollback(Call* call, const Bytes* request, Bytes* response) override;
  Unary* CloseSession(Call* call, const Bytes* request,
                      Bytes* response) override;
  Unary* GetSession(Call* call, const Bytes* request, Bytes* response) override;
  Unary* ListSessions(Call* call, const Bytes* request,
                      Bytes* response) override;

  // Ends the streams that are open, and those to come, with UNAVAILABLE: each
  // when its step is answered.
  void EndStreams();

 private:
  const SessionServiceContext& context_;
  StepStreams streams_;
};

}  // namespace attn
