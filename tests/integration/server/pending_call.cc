#include "tests/integration/server/pending_call.h"

#include "grpcpp/support/proto_buffer_reader.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

// A guard against a test that hangs.
constexpr std::chrono::minutes kLongestCall(2);

}  // namespace

grpc::ByteBuffer ToRequest(const google::protobuf::Message& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

PendingCall::PendingCall(const std::shared_ptr<grpc::Channel>& channel,
                         const std::string& method,
                         const grpc::ByteBuffer& request)
    : stub_(channel), method_(method), request_(request) {}

PendingCall::~PendingCall() { Wait(); }

void PendingCall::Start() {
  stub_.UnaryCall(&context_, method_, grpc::StubOptions(), &request_,
                  &response_,
                  [this](const grpc::Status& status) { Ended(status); });
}

bool PendingCall::WaitFor(std::chrono::nanoseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  MutexLock lock(mutex_);
  while (ends_ == 0) {
    const auto left = end - std::chrono::steady_clock::now();
    if (left <= std::chrono::nanoseconds::zero()) return false;
    ended_.WaitFor(mutex_, left);
  }
  return true;
}

const grpc::Status& PendingCall::Wait() {
  if (!WaitFor(kLongestCall)) {
    ADD_FAILURE() << method_ << ": neither an answer nor an error came";
    // The client alone is enough for this to be the end.
    Cancel();
  }
  MutexLock lock(mutex_);
  while (ends_ == 0) ended_.Wait(mutex_);
  return status_;
}

bool PendingCall::Parse(google::protobuf::Message& response) {
  grpc::ProtoBufferReader reader(&response_);
  return reader.status().ok() && response.ParseFromZeroCopyStream(&reader);
}

int PendingCall::ends() {
  MutexLock lock(mutex_);
  return ends_;
}

// The caller may be gone as soon as the lock is free.
void PendingCall::Ended(const grpc::Status& status) {
  MutexLock lock(mutex_);
  ++ends_;
  status_ = status;
  ended_.NotifyAll();
}

}  // namespace attn
