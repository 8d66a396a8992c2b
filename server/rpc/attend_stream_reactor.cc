#include "server/rpc/attend_stream_reactor.h"

#include <utility>
#include <vector>

#include "server/rpc/reply_status.h"

namespace attn {
namespace {

using Bidi = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;

// Deletes itself when gRPC is done with it. The calls outlive it if a job or a
// timer still knows them; they do not touch it once they have ended the stream.
class Reactor final : public Bidi, private StreamTransport {
 public:
  Reactor(const CallContext& context, const AttendStreamOptions& options,
          Caller caller, grpc::CallbackServerContext& call,
          AttendStreamCalls::Identify identify)
      : call_(call),
        calls_(std::make_shared<AttendStreamCalls>(
            context, options, std::move(caller), Transport(),
            std::move(identify))) {}

  const std::shared_ptr<AttendStreamCalls>& calls() const { return calls_; }

  void OnReadDone(bool ok) override {
    // The last event may delete this.
    const auto calls = calls_;
    if (ok) {
      calls->Received(received_);
    } else {
      calls->ReceivedLast();
    }
  }
  void OnWriteDone(bool ok) override {
    const auto calls = calls_;
    if (ok) {
      calls->Sent();
    } else {
      calls->NotSent();
    }
  }
  void OnCancel() override {
    const auto calls = calls_;
    calls->Gone();
  }
  void OnDone() override { delete this; }

 private:
  StreamTransport& Transport() { return *this; }
  void Receive() override { StartRead(&received_); }
  void Send(const grpc::ByteBuffer& message) override { StartWrite(&message); }
  void End(const absl::Status& status) override {
    Finish(ToReplyStatus(status));
  }
  // Finish() would wait behind what the client does not take.
  void Cut() override { call_.TryCancel(); }

  grpc::CallbackServerContext& call_;
  grpc::ByteBuffer received_;
  const std::shared_ptr<AttendStreamCalls> calls_;
};

}  // namespace

Bidi* AttendStreams::Serve(const CallContext& context,
                           const AttendStreamOptions& options,
                           const CallerReader& callers,
                           grpc::CallbackServerContext& call) {
  Caller caller = callers.ReadStream(call);
  auto* reactor = [&] {
    MutexLock lock(mutex_);
    streams_.remove_if([](const auto& stream) { return stream.expired(); });
    if (!end_status_.ok()) caller.status.Update(end_status_);
    auto* made = new Reactor(context, options, std::move(caller), call,
                             callers.IdentifyLater(call));
    streams_.push_back(made->calls());
    return made;
  }();
  // gRPC deletes nothing before the handler has returned the reactor.
  reactor->calls()->Begin();
  return reactor;
}

void AttendStreams::EndAll(const absl::Status& status) {
  std::vector<std::shared_ptr<AttendStreamCalls>> open;
  {
    MutexLock lock(mutex_);
    end_status_ = status;
    for (const auto& stream : streams_) {
      if (auto calls = stream.lock()) open.push_back(std::move(calls));
    }
  }
  for (const auto& calls : open) calls->EndWith(status);
}

}  // namespace attn
