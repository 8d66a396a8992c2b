// One Inspect call.
#pragma once

#include <memory>
#include <vector>

#include "engine/core/head_statistics.h"
#include "proto/codec/inspect_codec.h"
#include "server/rpc/call_job.h"
#include "server/rpc/inspect_views.h"

namespace attn {

// The call itself runs first, with statistics and the window's scores; then,
// for a window that is computed in parts, one run for each, of no more than its
// rows; then one with statistics alone for each temperature of the sweep. Each
// run is started by the end of the one before. Thread-safety as of CallJob.
class InspectJob : public CallJob {
 public:
  static constexpr char kMethod[] = "Inspect";

  InspectJob(const CallContext& context, Caller caller, Reply reply)
      : CallJob(context, kMethod, std::move(caller), std::move(reply)) {}

 protected:
  // What is kept of a temperature's run.
  virtual std::vector<HeadStatistics> PointOf(const CallReport& report) const;

 private:
  absl::StatusOr<WireCall*> Read(
      google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
      int64_t max_payload_bytes) override;
  absl::StatusOr<CallCost> Prepare(Engine& engine) override;
  void Allocate() override { outputs_ = scores_.Allocate(); }
  void Submit(Engine& engine, const Cancellation& cancellation,
              EngineCallback done) override;
  grpc::ByteBuffer Encode(const CallReport& report) override;

  absl::Status PrepareScores();
  absl::Status PrepareSweep(Engine& engine);
  CallCost Cost() const;
  // Runs the rest of the parts and the sweep, then calls `done` with report_.
  void SeeParts(Engine& engine, const Cancellation& cancellation,
                EngineCallback done);
  // Runs the rest of the sweep, then calls `done` with report_.
  void Sweep(Engine& engine, const Cancellation& cancellation,
             EngineCallback done);
  // Notes that another run has come to its end.
  void AddRun(const CallReport& report);
  // Notes what a run of the sweep gave.
  void AddPoint(const CallReport& report);
  void AddWarnings(absl::Span<const HeadStatistics> heads,
                   v1::CallReport& report) const;

  InspectCall call_;
  std::shared_ptr<const Plan> plan_;
  // Of parts alone; null if there are none.
  std::shared_ptr<const Plan> part_plan_;
  std::vector<std::shared_ptr<const Plan>> sweep_plans_;
  InspectedScores scores_;
  AttentionOutputs outputs_;
  CallReport report_;
  // How many have been computed and pooled.
  int64_t parts_ = 0;
  // One for each temperature that has been computed.
  std::vector<std::vector<HeadStatistics>> points_;
};

}  // namespace attn
