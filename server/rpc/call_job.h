// One call that the engine computes, from the arrival of its bytes to its
// reply: what all such methods have in common.
//
// A method derives from CallJob and says how its message is read, what it
// plans, what the engine is to run and what the response is: Read, Prepare,
// Claim, Allocate, Submit, Encode, each at most once and only if all before
// went well.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/engine.h"
#include "engine/runtime/cancellation.h"
#include "google/protobuf/io/zero_copy_stream.h"
#include "grpcpp/support/byte_buffer.h"
#include "proto/codec/call_codec.h"
#include "server/batching/admission.h"
#include "server/batching/batcher.h"
#include "server/rpc/call_context.h"
#include "server/rpc/call_cost.h"
#include "server/rpc/call_record.h"
#include "server/rpc/caller.h"

namespace attn {

// Owns the place inside the gate, a subclass the messages' memory. Run() once;
// Cancel() at any time after Run() began to return; Report() once, after the
// reply, which is made exactly once, on the caller's thread or on a worker: the
// job keeps itself alive until then, so that it may race with Cancel().
class CallJob : public BatchItem, public std::enable_shared_from_this<CallJob> {
 public:
  // Takes the response out of the buffer; it is empty if the status is not OK.
  using Reply = std::function<void(const absl::Status& status,
                                   grpc::ByteBuffer& response)>;

  // Decodes, plans, books, hands over to the batcher. Empties `request`.
  void Run(grpc::ByteBuffer& request);
  void Cancel();
  // Tells metrics and log of the call, which takes as long as a small call.
  void Report();
  // After the reply, before Report(): the client was told `status` instead.
  void NoteLost(const absl::Status& status);

  // Run() in two steps, for a request whose payloads come after it. Open() does
  // all that needs none; false: it has replied. Then Complete(), with payloads
  // where Read() wanted them, or Abandon().
  bool Open(grpc::ByteBuffer& request);
  void Complete();
  void Abandon(const absl::Status& status) { Fail(status); }

  int64_t tokens() const override { return tokens_; }
  bool immediate() const override { return immediate_; }
  Priority priority() const override { return priority_; }
  absl::Time deadline() const override { return cancellation_.deadline(); }
  absl::Status Check() const override { return cancellation_.Check(); }
  void Start() override;
  void Refuse(absl::Status status) override;
  // Starts a batch of what has waited; all of them are CallJobs.
  static void StartTogether(const BatchItems& items, const BatchCount& batch);

 protected:
  using EngineCallback = std::function<void(CallReport report)>;

  CallJob(const CallContext& context, const char* method, Caller caller,
          Reply reply);

  // Reads the request of `size` bytes. The call lives as long as the job.
  virtual absl::StatusOr<WireCall*> Read(
      google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
      int64_t max_payload_bytes) = 0;
  // Plans; takes no memory yet.
  virtual absl::StatusOr<CallCost> Prepare(Engine& engine) = 0;
  // Takes what others may have to make room for: nothing else can refuse it.
  virtual absl::Status Claim() { return absl::OkStatus(); }
  // Takes the memory that was booked.
  virtual void Allocate() = 0;
  // The one forward call that the job is, if it is no more than that.
  virtual std::optional<ForwardCall> AsForwardCall() { return std::nullopt; }
  // Runs the plan, or several, and calls `done` once, on a worker, at the end.
  virtual void Submit(Engine& engine, const Cancellation& cancellation,
                      EngineCallback done) = 0;
  // The response, with a report by FillReport().
  virtual grpc::ByteBuffer Encode(const CallReport& report) = 0;
  // Once, before the reply is made: what the call changed holds, or is undone.
  virtual void Settle(const absl::Status& /*status*/) {}

  // In Prepare(): this is the response, and nothing is to be computed.
  void AnswerAtOnce(grpc::ByteBuffer response) {
    answer_ = std::move(response);
  }
  const std::string& tenant() const { return caller_.tenant.name; }

  // An error about the call, in the terms of its message.
  virtual absl::Status NameFields(const absl::Status& status) const;
  // Lets the call take no longer than that from its arrival, in Read().
  void LimitTime(absl::Duration limit);
  // Books more than the request's own bytes, in Read().
  absl::Status BookMore(int64_t bytes) { return permit_.Grow(bytes); }
  // Beside the opened request and what Encode() returns.
  void CountReceived(int64_t bytes) { record_.received_bytes += bytes; }
  void CountSent(int64_t bytes) { record_.sent_bytes += bytes; }
  const CallContext& context() const { return context_; }
  // What an error about a message that is too long says of other ways.
  virtual const char* LargerCallsHint() const { return ""; }
  // Adds to `message`. Late in Encode(): time after it is not in the timings.
  void FillReport(const CallReport& report, v1::CallReport& message);

 private:
  absl::Status Receive(grpc::ByteBuffer& request);
  absl::Status Decode(grpc::ByteBuffer& request);
  absl::Status Book();
  EngineCallback WhenDone();
  std::optional<ForwardCall> TakeForwardCall();
  void EngineDone(CallReport report);
  void NoteReport(const CallReport& report);
  absl::Duration SinceCompute() const;
  void End(const absl::Status& status, grpc::ByteBuffer& response);
  void Fail(const absl::Status& status);

  const CallContext& context_;
  const Caller caller_;
  const Reply reply_;
  const absl::Time arrived_;
  Cancellation cancellation_;
  CallRecord record_;
  // Of a call that was computed, for Report().
  std::vector<RowStatistics> rows_;
  // Set when all that Report() reads is there.
  std::atomic<bool> replied_{false};
  Admission::Permit permit_;
  std::optional<grpc::ByteBuffer> answer_;
  const WireCall* message_ = nullptr;
  std::shared_ptr<const Plan> plan_;
  int64_t tokens_ = 0;
  bool immediate_ = false;
  Priority priority_ = Priority::kNormal;
  BatchCount batch_;
  absl::Time scheduled_;
  absl::Time submitted_;
};

}  // namespace attn
