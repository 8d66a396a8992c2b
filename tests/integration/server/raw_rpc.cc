#include "tests/integration/server/raw_rpc.h"

#include <future>
#include <vector>

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

// A protobuf field of a short string: a tag byte, a length byte, the text.
std::string StringField(int number, const std::string& text) {
  std::string field;
  field += static_cast<char>(number << 3 | 2);
  field += static_cast<char>(text.size());
  return field + text;
}

}  // namespace

OpenCall::OpenCall(const std::shared_ptr<grpc::Channel>& channel,
                   const std::string& method)
    : stub_(channel), call_(stub_.PrepareCall(&context_, method, &queue_)) {
  call_->StartCall(nullptr);
  started_ = Step();
}

OpenCall::~OpenCall() {
  if (finished_) return;
  context_.TryCancel();
  Finish();
}

bool OpenCall::Write(const std::string& message, bool last) {
  if (!started_) return false;
  if (last) {
    call_->WriteLast(ToBuffer(message), grpc::WriteOptions(), nullptr);
  } else {
    call_->Write(ToBuffer(message), nullptr);
  }
  return Step();
}

bool OpenCall::Read(std::string* message) {
  if (!started_) return false;
  grpc::ByteBuffer received;
  call_->Read(&received, nullptr);
  const bool ok = Step();
  *message = ToString(received);
  return ok;
}

grpc::Status OpenCall::Finish() {
  finished_ = true;
  grpc::Status status;
  call_->Finish(&status, nullptr);
  Step();
  return status;
}

bool OpenCall::Step() {
  void* tag = nullptr;
  bool ok = false;
  return queue_.Next(&tag, &ok) && ok;
}

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
  OpenCall call(channel, method);
  response->clear();
  if (call.Write(request, /*last=*/true)) call.Read(response);
  return call.Finish();
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

std::string ListServicesRequest() { return StringField(7, ""); }

grpc::Status ListServices(const std::shared_ptr<grpc::Channel>& channel,
                          std::string* response) {
  return RawExchange(channel, kReflectionPath, ListServicesRequest(), response);
}

}  // namespace attn
