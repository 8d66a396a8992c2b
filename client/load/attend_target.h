// Attend calls on a real server, as the load run wants them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/library/raw_call.h"
#include "client/load/answer_verifier.h"
#include "client/load/load_run.h"
#include "client/load/payload.h"

namespace attn {

struct TargetOptions {
  std::string address = "127.0.0.1:8001";
  // Calls take turns on them.
  int connections = 1;
  // Of each call, from its actual send.
  absl::Duration deadline = absl::Seconds(60);
  // Every so many rounds through the payloads, all answers of one round are
  // verified. 0: none are.
  int verify_every = 100;
  ClientSecurity security{};
};

// Thread-safe.
class AttendTarget {
 public:
  // Makes the expected answers, unless none are verified; does not wait for
  // the server.
  static absl::StatusOr<std::unique_ptr<AttendTarget>> Create(
      const TargetOptions& options, const CallProfile& profile, int payloads);

  // One call on each connection, one after the other: so that a run starts
  // only if the server is there and takes the call.
  absl::Status Probe();

  // The target must outlive the last call.
  LoadCall Call();

  // Waits until all samples have been looked at.
  Verification FinishVerification();

 private:
  AttendTarget(const TargetOptions& options, std::vector<LoadPayload> payloads)
      : options_(options), payloads_(std::move(payloads)) {}

  absl::Status Connect();
  void Start(int64_t sequence, CallDone done);
  bool IsSample(int64_t sequence) const;

  const TargetOptions options_;
  const std::vector<LoadPayload> payloads_;
  std::vector<RawChannel> channels_;
  std::unique_ptr<AnswerVerifier> verifier_;
};

}  // namespace attn
