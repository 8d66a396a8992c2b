// One Step of a session: rows are appended, then attended over.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "proto/codec/session_codec.h"
#include "server/rpc/call_job.h"
#include "server/rpc/response_builder.h"
#include "server/sessions/session_store.h"

namespace attn {

// Thread-safety as of CallJob. The session is pinned from Prepare() to
// Settle(), which keeps what was appended or takes it back.
class StepJob final : public CallJob {
 public:
  static constexpr char kMethod[] = "Step";

  // The message that a request is: StepRequest, or StepStreamRequest. The
  // response is a StepResponse in any case.
  enum class Envelope : uint8_t { kNone, kStream };

  // `context` has sessions.
  StepJob(const CallContext& context, Caller caller, Reply reply,
          Envelope envelope = Envelope::kNone)
      : CallJob(context, envelope == Envelope::kNone ? kMethod : "StepStream",
                std::move(caller), std::move(reply)),
        envelope_(envelope) {}

 protected:
  absl::StatusOr<WireCall*> Read(
      google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
      int64_t max_payload_bytes) override;
  absl::StatusOr<CallCost> Prepare(Engine& engine) override;
  absl::Status Claim() override;
  void Allocate() override;
  std::optional<ForwardCall> AsForwardCall() override;
  void Submit(Engine& engine, const Cancellation& cancellation,
              EngineCallback done) override;
  grpc::ByteBuffer Encode(const CallReport& report) override;
  void Settle(const absl::Status& status) override;

 private:
  // The call of one layer.
  struct LayerCall {
    AttentionArgs args;
    AttentionOutputs outputs;
    std::shared_ptr<const Plan> plan;
    ResponseBuilder response;
  };

  // FAILED_PRECONDITION unless it is the session's next step, or the last one
  // again; sets again_.
  absl::Status CheckNumber();
  absl::Status CheckLayers() const;
  // That each layer has the tokens that the step goes on from.
  absl::Status CheckPosition() const;
  absl::StatusOr<CallCost> PlanLayers(Engine& engine);
  void KeepStep();
  // Takes back what Claim() and Allocate() added.
  void DropTokens();
  int64_t tokens_of_step() const;
  // Tokens in front of a position that Truncate() must find; 0: all.
  int64_t Seen() const;
  KvSequence& SequenceOf(size_t i) const;

  const Envelope envelope_;
  StepCall call_;
  SessionStore::Pin session_;
  std::vector<LayerCall> layers_;
  // The session has made this step: its tokens are there, and stay.
  bool again_ = false;
  bool claimed_ = false;
  // For the session to keep, if it is not too large.
  std::optional<grpc::ByteBuffer> kept_;
};

}  // namespace attn
