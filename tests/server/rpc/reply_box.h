// What a job without a transport replies.
#pragma once

#include "absl/status/status.h"
#include "engine/runtime/mutex.h"
#include "google/protobuf/message_lite.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/rpc/byte_buffer.h"
#include "server/rpc/call_job.h"

namespace attn {

// The reply to one job. Thread-safe.
class ReplyBox {
 public:
  CallJob::Reply Callback() {
    return [this](const absl::Status& status, grpc::ByteBuffer& response) {
      MutexLock lock(mutex_);
      ++count_;
      status_ = status;
      response_.Swap(&response);
      replied_.NotifyAll();
    };
  }

  absl::Status Wait() {
    MutexLock lock(mutex_);
    while (count_ == 0) replied_.Wait(mutex_);
    return status_;
  }
  int count() {
    MutexLock lock(mutex_);
    return count_;
  }
  bool Parse(google::protobuf::MessageLite& response) {
    MutexLock lock(mutex_);
    return ParseMessage(response_, response);
  }

 private:
  Mutex mutex_;
  CondVar replied_;
  int count_ ATTN_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ATTN_GUARDED_BY(mutex_);
  grpc::ByteBuffer response_ ATTN_GUARDED_BY(mutex_);
};

}  // namespace attn
