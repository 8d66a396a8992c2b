// A call that its caller does not wait for, to give it up at any moment.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "engine/runtime/mutex.h"
#include "google/protobuf/message.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace attn {

inline constexpr char kAttendPath[] = "/attention.v1.AttentionService/Attend";
inline constexpr char kAttendBackwardPath[] =
    "/attention.v1.AttentionService/AttendBackward";
inline constexpr char kInspectPath[] = "/attention.v1.AttentionService/Inspect";

grpc::ByteBuffer ToRequest(const google::protobuf::Message& message);

// One unary call of bytes, which are shared and not copied. Thread-safe once it
// has started.
class PendingCall {
 public:
  PendingCall(const std::shared_ptr<grpc::Channel>& channel,
              const std::string& method, const grpc::ByteBuffer& request);
  // Waits for its end.
  ~PendingCall();
  PendingCall(const PendingCall&) = delete;
  PendingCall& operator=(const PendingCall&) = delete;

  // Before Start().
  grpc::ClientContext& context() { return context_; }
  void Start();

  void Cancel() { context_.TryCancel(); }
  // True: it has ended.
  bool WaitFor(std::chrono::nanoseconds patience);
  // The test fails if there is none within two minutes.
  const grpc::Status& Wait();
  // What came back; after Wait().
  bool Parse(google::protobuf::Message& response);
  // How often the client was told that it ended.
  int ends();

 private:
  void Ended(const grpc::Status& status);

  grpc::GenericStub stub_;
  const std::string method_;
  const grpc::ByteBuffer request_;
  grpc::ClientContext context_;
  grpc::ByteBuffer response_;
  Mutex mutex_;
  CondVar ended_;
  int ends_ ATTN_GUARDED_BY(mutex_) = 0;
  grpc::Status status_ ATTN_GUARDED_BY(mutex_);
};

}  // namespace attn
