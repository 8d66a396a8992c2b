#include "tests/integration/server/raw_rpc.h"

#include <future>
#include <vector>

#include "grpcpp/generic/generic_stub.h"

namespace attn {
namespace {

grpc::ByteBuffer ToBuffer(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

std::string ToString(grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (!buffer.Valid() || !buffer.Dump(&slices).ok()) return bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

// Waits for the next event of a queue that serves one call.
bool Next(grpc::CompletionQueue& queue) {
  void* tag = nullptr;
  bool ok = false;
  return queue.Next(&tag, &ok) && ok;
}

// A protobuf field of a short string: a tag byte, a length byte, the text.
std::string StringField(int number, const std::string& text) {
  std::string field;
  field += static_cast<char>(number << 3 | 2);
  field += static_cast<char>(text.size());
  return field + text;
}

}  // namespace

grpc::Status RawUnary(const std::shared_ptr<grpc::Channel>& channel,
                      const std::string& method, const std::string& request,
                      std::string* response) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  const grpc::ByteBuffer sent = ToBuffer(request);
  grpc::ByteBuffer received;
  std::promise<grpc::Status> done;
  stub.UnaryCall(
      &context, method, grpc::StubOptions(), &sent, &received,
      [&done](const grpc::Status& status) { done.set_value(status); });
  grpc::Status status = done.get_future().get();
  *response = ToString(received);
  return status;
}

grpc::Status RawExchange(const std::shared_ptr<grpc::Channel>& channel,
                         const std::string& method, const std::string& request,
                         std::string* response) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(&context, method, &queue);
  grpc::ByteBuffer received;
  grpc::Status status;
  call->StartCall(nullptr);
  if (Next(queue)) {
    call->WriteLast(ToBuffer(request), grpc::WriteOptions(), nullptr);
    if (Next(queue)) {
      call->Read(&received, nullptr);
      Next(queue);
    }
  }
  call->Finish(&status, nullptr);
  Next(queue);
  *response = ToString(received);
  return status;
}

std::string HealthOf(const std::shared_ptr<grpc::Channel>& channel,
                     const std::string& service) {
  std::string response;
  const grpc::Status status = RawUnary(channel, "/grpc.health.v1.Health/Check",
                                       StringField(1, service), &response);
  if (!status.ok()) return status.error_message();
  // HealthCheckResponse { ServingStatus status = 1; } SERVING = 1.
  if (response == std::string("\x08\x01")) return "SERVING";
  return response == std::string("\x08\x02") ? "NOT_SERVING" : "UNKNOWN";
}

}  // namespace attn
