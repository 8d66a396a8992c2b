#include "client/load/session_calls.h"

#include <utility>

#include "attention/v1/session.pb.h"
#include "client/library/session_client.h"
#include "grpcpp/support/proto_buffer_reader.h"

namespace attn::session_calls {
namespace {

// Parses the answer to one call. `tell` is given it, or why there is none.
template <typename Response>
void CallAndParse(
    const RawChannel& channel, const char* method,
    const grpc::ByteBuffer& request, absl::Duration deadline,
    std::function<void(const absl::Status&, const Response&)> tell) {
  channel.CallAsync(
      method, request, {.deadline = deadline, .repeat = Repeat::kAlways},
      [channel, tell = std::move(tell)](const absl::Status& status,
                                        const grpc::ByteBuffer& bytes) {
        Response response;
        if (!status.ok() || bytes.Length() == 0) {
          tell(status, response);
          return;
        }
        grpc::ByteBuffer copy = bytes;  // The reader wants it mutable.
        grpc::ProtoBufferReader reader(&copy);
        const bool parsed =
            reader.status().ok() && response.ParseFromZeroCopyStream(&reader);
        tell(parsed ? absl::OkStatus()
                    : absl::InternalError("the response is malformed"),
             response);
      });
}

template <typename Response>
void CallForName(const RawChannel& channel, const char* method,
                 const grpc::ByteBuffer& request, absl::Duration deadline,
                 NameDone done) {
  CallAndParse<Response>(
      channel, method, request, deadline,
      [done = std::move(done)](const absl::Status& status,
                               const Response& response) {
        if (!status.ok()) {
          done(status);
        } else if (response.session_id().empty()) {
          done(absl::InternalError("the response names no session"));
        } else {
          done(SessionName{.id = response.session_id(),
                           .epoch = response.epoch()});
        }
      });
}

}  // namespace

void Open(const RawChannel& channel, const grpc::ByteBuffer& request,
          absl::Duration deadline, NameDone done) {
  CallForName<v1::OpenSessionResponse>(channel, kOpenSessionMethod, request,
                                       deadline, std::move(done));
}

void Fork(const RawChannel& channel, const SessionName& of,
          absl::Duration deadline, NameDone done) {
  v1::ForkRequest request;
  request.set_session_id(of.id);
  request.set_epoch(of.epoch);
  CallForName<v1::ForkResponse>(channel, kForkMethod, Serialize(request),
                                deadline, std::move(done));
}

void Close(const RawChannel& channel, const std::string& id,
           absl::Duration deadline, CloseDone done) {
  v1::CloseSessionRequest request;
  request.set_session_id(id);
  CallAndParse<v1::CloseSessionResponse>(
      channel, kCloseSessionMethod, Serialize(request), deadline,
      [done = std::move(done)](const absl::Status& status,
                               const v1::CloseSessionResponse& response) {
        if (status.ok()) {
          done(response.closed());
        } else {
          done(status);
        }
      });
}

}  // namespace attn::session_calls
