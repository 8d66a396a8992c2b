// Calls on a real server, as the load run wants them.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/library/raw_call.h"
#include "client/load/answer_verifier.h"
#include "client/load/call_class.h"
#include "client/load/load_run.h"
#include "client/load/load_timer.h"
#include "client/load/payload.h"
#include "client/load/session_fleet.h"

namespace attn {

struct TargetOptions {
  std::string address = "127.0.0.1:8001";
  // Calls take turns on them.
  int connections = 1;
  // Of calls whose class names none, from the actual send.
  absl::Duration deadline = absl::Seconds(60);
  // Of every so many rounds through a class's payloads the first: all its
  // answers are verified. 0: none are.
  int verify_every = 100;
  ClientSecurity security{};
};

// Nothing is tried twice: a failure is a result. Thread-safe.
class ServerTarget {
 public:
  // Makes the payloads and the expected answers, unless none are verified; does
  // not wait for the server. Errors name the class where there are several.
  static absl::StatusOr<std::unique_ptr<ServerTarget>> Create(
      const TargetOptions& options, const std::vector<CallClass>& classes);

  // One call of each class, but for those of sessions, on each connection, one
  // after the other: so that a run starts only if the server is there and takes
  // the calls.
  absl::Status Probe();

  // Opens the sessions of the classes that have any, and gives them their first
  // tokens, before a run; an error, also because `stop` was requested, leaves
  // none open. `timer` must outlive the run.
  absl::Status Begin(const LoadOptions& options, LoadTimer& timer,
                     const std::stop_token& stop);
  // The target must outlive the last call.
  LoadCall Call();
  // Closes them after it. One for each class, absent without sessions.
  std::vector<std::optional<SessionTally>> End();

  // Waits until all samples have been looked at. For each class, what was found
  // since the last time.
  std::vector<Verification> FinishVerification();

 private:
  // A class, ready to be sent.
  struct ReadyClass {
    // Calls so far: a rare class too goes through its payloads.
    std::atomic<int64_t> calls = 0;
    std::string name;
    const char* method = nullptr;
    absl::Duration deadline;
    std::vector<LoadPayload> payloads;
    // Null if its answers are not verified.
    std::unique_ptr<AnswerVerifier> verifier;
    // Null if it is not of sessions.
    std::unique_ptr<SessionFleet> fleet;
  };

  explicit ServerTarget(const TargetOptions& options) : options_(options) {}

  absl::Status Connect();
  absl::Status Add(const CallClass& call_class);
  void Start(const LoadRequest& request, CallDone done);
  bool IsSample(const ReadyClass& ready, int64_t call) const;
  // Says which class it was.
  absl::Status Named(const std::string& name, const absl::Status& status) const;

  const TargetOptions options_;
  bool mixed_ = false;
  std::deque<ReadyClass> classes_;  // Which do not move.
  std::vector<RawChannel> channels_;
};

}  // namespace attn
