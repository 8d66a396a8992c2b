// One Attend call, from the arrival of its bytes to its reply.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/engine.h"
#include "engine/runtime/cancellation.h"
#include "grpcpp/support/byte_buffer.h"
#include "proto/codec/attend_codec.h"
#include "server/batching/admission.h"
#include "server/batching/batcher.h"
#include "server/rpc/call_observer.h"
#include "server/rpc/response_builder.h"

namespace attn {

// What every job of a server shares. Borrowed; must outlive the jobs.
struct AttendContext {
  Engine& engine;
  Admission& admission;
  Batcher& batcher;
  CallObserver& observer;
  const Clock& clock;
  // Of a request and of a response.
  int64_t max_message_bytes = int64_t{256} << 20;
};

// Owns the request's memory, the response's memory and the place inside the
// gate. Run() once; Cancel() at any time after Run() began to return. The
// reply is made exactly once, on the caller's thread or on a worker; the job
// keeps itself alive until then, so it may race with Cancel() safely.
class AttendJob : public BatchItem,
                  public std::enable_shared_from_this<AttendJob> {
 public:
  using Reply = std::function<void(const absl::Status&, grpc::ByteBuffer)>;

  // `deadline` is on the context's clock.
  AttendJob(const AttendContext& context, absl::Time deadline, Reply reply);

  // Decodes, plans, books, and hands over to the batcher. Empties `request`.
  void Run(grpc::ByteBuffer& request);
  void Cancel();

  int64_t tokens() const override { return tokens_; }
  absl::Status Check() const override { return cancellation_.Check(); }
  void Start() override;
  void Refuse(absl::Status status) override;

 private:
  absl::Status Receive(grpc::ByteBuffer& request);
  absl::Status Decode(grpc::ByteBuffer& request);
  absl::Status Prepare();
  void EngineDone(CallReport report);
  void NoteReport(const CallReport& report);
  grpc::ByteBuffer Encode(const CallReport& report);
  void FillReport(const CallReport& report, v1::CallReport& message) const;
  void End(absl::Status status, grpc::ByteBuffer response);

  const AttendContext& context_;
  const Reply reply_;
  const absl::Time arrived_;
  Cancellation cancellation_;
  CallRecord record_;
  Admission::Permit permit_;
  AttendCall call_;
  std::shared_ptr<const Plan> plan_;
  ResponseBuilder response_;
  AttentionOutputs outputs_;
  int64_t tokens_ = 0;
  absl::Time scheduled_;
  absl::Time submitted_;
};

}  // namespace attn
