#include "server/rpc/session_service.h"

#include "server/batching/refusal.h"
#include "server/rpc/byte_buffer.h"
#include "server/rpc/call_reactor.h"
#include "server/rpc/message_size.h"
#include "server/rpc/session_handlers.h"
#include "server/rpc/step_job.h"

namespace attn {
namespace {

// A method that is answered where it came.
template <typename Request, typename Answer>
grpc::ServerUnaryReactor* AnswerShort(const SessionServiceContext& context,
                                      const char* method, Answer answer,
                                      grpc::CallbackServerContext& call,
                                      const grpc::ByteBuffer& bytes,
                                      grpc::ByteBuffer& response) {
  const ShortAnswer parsed =
      [&](grpc::ByteBuffer& sent,
          ShortCall& scope) -> absl::StatusOr<grpc::ByteBuffer> {
    Request request;
    if (!ParseMessage(sent, request)) {
      return MalformedMessage(request.GetDescriptor()->name());
    }
    auto message =
        answer(request, SessionAsk{.store = *context.calls.sessions,
                                   .engine = context.calls.engine,
                                   .tenant = scope.caller().tenant.name,
                                   .owner = context.owner,
                                   .idle_timeout = context.idle_timeout});
    if (!message.ok()) return message.status();
    return ToByteBuffer(*message);
  };
  return ServeShort(context.short_calls, method, parsed, call, bytes, response);
}

}  // namespace

SessionService::Unary* SessionService::OpenSession(Call* call,
                                                   const Bytes* request,
                                                   Bytes* response) {
  return AnswerShort<v1::OpenSessionRequest>(
      context_, "OpenSession", OpenSessionOf, *call, *request, *response);
}

SessionService::Unary* SessionService::Step(Call* call, const Bytes* request,
                                            Bytes* response) {
  return RunCall<StepJob>(context_.calls, context_.callers, context_.replies,
                          *call, *request, *response);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>*
SessionService::StepStream(Call* call) {
  return streams_.Serve(context_.calls, context_.callers, context_.replies,
                        *call);
}

SessionService::Unary* SessionService::Fork(Call* call, const Bytes* request,
                                            Bytes* response) {
  return AnswerShort<v1::ForkRequest>(context_, "Fork", ForkOf, *call, *request,
                                      *response);
}

SessionService::Unary* SessionService::Rollback(Call* call,
                                                const Bytes* request,
                                                Bytes* response) {
  return AnswerShort<v1::RollbackRequest>(context_, "Rollback", RollbackOf,
                                          *call, *request, *response);
}

SessionService::Unary* SessionService::CloseSession(Call* call,
                                                    const Bytes* request,
                                                    Bytes* response) {
  return AnswerShort<v1::CloseSessionRequest>(
      context_, "CloseSession", CloseSessionOf, *call, *request, *response);
}

SessionService::Unary* SessionService::GetSession(Call* call,
                                                  const Bytes* request,
                                                  Bytes* response) {
  return AnswerShort<v1::GetSessionRequest>(
      context_, "GetSession", GetSessionOf, *call, *request, *response);
}

SessionService::Unary* SessionService::ListSessions(Call* call,
                                                    const Bytes* request,
                                                    Bytes* response) {
  return AnswerShort<v1::ListSessionsRequest>(
      context_, "ListSessions", ListSessionsOf, *call, *request, *response);
}

void SessionService::EndStreams() {
  streams_.EndAll(Refuse(Refusal::kDraining, "the server is stopping"));
}

}  // namespace attn
