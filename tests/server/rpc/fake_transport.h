// What a stream's calls see of gRPC, and messages to give them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attention/v1/attention.pb.h"
#include "engine/runtime/mutex.h"
#include "gtest/gtest.h"
#include "server/rpc/byte_buffer.h"
#include "server/rpc/stream_transport.h"

namespace attn {

// Holds the stream to what it may ask of a transport. Thread-safe.
class FakeTransport final : public StreamTransport {
 public:
  void Receive() override {
    MutexLock lock(mutex_);
    EXPECT_FALSE(receiving_ || end_.has_value());
    receiving_ = true;
    changed_.NotifyAll();
  }
  void Send(const grpc::ByteBuffer& message) override {
    MutexLock lock(mutex_);
    EXPECT_FALSE(sending_ || end_.has_value());
    sending_ = true;
    grpc::ByteBuffer copy = message;
    EXPECT_TRUE(ParseMessage(copy, sent_.emplace_back()));
    changed_.NotifyAll();
  }
  void Cut() override {
    MutexLock lock(mutex_);
    EXPECT_FALSE(end_.has_value());
    cut_ = true;
    changed_.NotifyAll();
  }
  void End(const absl::Status& status) override {
    MutexLock lock(mutex_);
    EXPECT_FALSE(sending_ || end_.has_value());
    end_ = status;
    changed_.NotifyAll();
  }

  // Waits until a message is wanted. False: the stream has ended.
  bool WaitForReceive() {
    MutexLock lock(mutex_);
    while (!receiving_ && !end_.has_value()) changed_.Wait(mutex_);
    if (!receiving_) return false;
    receiving_ = false;
    return true;
  }
  // Waits for a message to send; the last one. Nothing: the stream has ended.
  std::optional<v1::AttendStreamResponse> WaitForSend() {
    MutexLock lock(mutex_);
    while (!sending_ && !end_.has_value()) changed_.Wait(mutex_);
    if (!sending_) return std::nullopt;
    sending_ = false;
    return sent_.back();
  }
  absl::Status WaitForEnd() {
    MutexLock lock(mutex_);
    while (!end_.has_value()) changed_.Wait(mutex_);
    return *end_;
  }
  void WaitForCut() {
    MutexLock lock(mutex_);
    while (!cut_) changed_.Wait(mutex_);
  }
  bool wants_message() {
    MutexLock lock(mutex_);
    return receiving_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool receiving_ ATTN_GUARDED_BY(mutex_) = false;
  bool sending_ ATTN_GUARDED_BY(mutex_) = false;
  bool cut_ ATTN_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> end_ ATTN_GUARDED_BY(mutex_);
  std::vector<v1::AttendStreamResponse> sent_ ATTN_GUARDED_BY(mutex_);
};

inline constexpr int64_t kStreamDim = 8;

inline v1::Tensor Ones(int64_t length) {
  const std::vector<float> values(static_cast<size_t>(length * kStreamDim), 1);
  v1::Tensor tensor;
  tensor.set_dtype(v1::DATA_TYPE_F32);
  for (const int64_t extent : {int64_t{1}, int64_t{1}, length, kStreamDim}) {
    tensor.add_shape(extent);
  }
  tensor.set_data(std::string(reinterpret_cast<const char*>(values.data()),
                              values.size() * sizeof(float)));
  return tensor;
}

inline v1::AttendStreamRequest Whole(uint64_t call, int64_t length) {
  v1::AttendStreamRequest message;
  message.set_call(call);
  for (v1::Tensor* tensor : {message.mutable_request()->mutable_q(),
                             message.mutable_request()->mutable_k(),
                             message.mutable_request()->mutable_v()}) {
    *tensor = Ones(length);
  }
  return message;
}

// q comes in a chunk.
inline v1::AttendStreamRequest Header(uint64_t call, int64_t length) {
  v1::AttendStreamRequest message;
  message.set_call(call);
  *message.mutable_header() = Whole(call, length).request();
  message.mutable_header()->mutable_q()->clear_data();
  return message;
}

inline v1::AttendStreamRequest Chunk(uint64_t call, int64_t length) {
  v1::AttendStreamRequest message;
  message.set_call(call);
  message.mutable_chunk()->set_tensor(v1::TENSOR_SLOT_Q);
  message.mutable_chunk()->set_data(Ones(length).data());
  return message;
}

inline v1::AttendStreamRequest Cancel(uint64_t call) {
  v1::AttendStreamRequest message;
  message.set_call(call);
  message.mutable_cancel();
  return message;
}

}  // namespace attn
