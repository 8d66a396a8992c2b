// The sessions of one class of a load, all open at the same time.
//
// Each is of a place: a session that was lost, or has made its steps, is closed
// and another is opened in its place. A step is asked for by a request of the
// run: in an open loop by each place in its turn, so that a session that is
// stuck keeps its own requests waiting; in a closed loop by the place that has
// been ready the longest.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <stop_token>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/library/raw_call.h"
#include "client/load/answer_agreement.h"
#include "client/load/call_class.h"
#include "client/load/load_run.h"
#include "client/load/load_timer.h"
#include "client/load/session_opener.h"
#include "client/load/session_tally.h"
#include "client/load/session_tokens.h"

namespace attn {

struct FleetOptions {
  // Of each call and step.
  absl::Duration deadline = absl::Seconds(60);
  // Of every so many rounds through the payloads one is compared; 0: none.
  int verify_every = 100;
};

// What a run does with its sessions.
struct FleetRun {
  // Sessions take turns on them.
  const std::vector<RawChannel>& channels;
  // Whether each place has its own requests: an open loop.
  bool in_turn = false;
  // Outlives the run.
  LoadTimer& timer;
};

// Begin(), then any number of Step(), then End(), over and over. Thread-safe;
// Begin() and End() are of one thread, and no step is under way beside them.
class SessionFleet {
 public:
  // INVALID_ARGUMENT if the class's tensors have no legal size.
  static absl::StatusOr<std::unique_ptr<SessionFleet>> Create(
      const CallClass& call_class, const FleetOptions& options);
  ~SessionFleet();

  // Opens all and gives each its first tokens. An error, also because `stop`
  // was requested, closes again what was opened.
  absl::Status Begin(const FleetRun& run, const std::stop_token& stop);
  // One step of one session, as LoadCall. A request that finds no session ready
  // waits for one, which counts in its latency.
  void Step(const LoadRequest& request, CallDone done);
  // Closes all, whatever became of them, and waits for that. What was measured
  // since Begin().
  SessionTally End();

  Verification FinishVerification() { return agreement_.Finish(); }

 private:
  // A request that a step is to be made for.
  struct Wish {
    LoadRequest request;
    CallDone done;
    // When it was meant to be sent, or, in a closed loop, was.
    int64_t begun = 0;
  };
  struct FleetPlace : LoadPlace {
    // Guarded by the lock. The rest is of the chain that has the place.
    bool busy = false;
    std::deque<Wish> wishes;
  };

  SessionFleet(const CallClass& call_class, const FleetOptions& options,
               SessionTokens tokens);

  // A place is of one chain of these at a time; each goes on, at once or on a
  // thread of gRPC's, with the next, and the last is Release().
  void Serve(FleetPlace& place, Wish wish);
  void MakeStep(FleetPlace& place, Wish wish);
  void StepEnded(FleetPlace& place, const Wish& wish,
                 const absl::StatusOr<StepResult>& result);
  void Renew(FleetPlace& place);
  void Release(FleetPlace& place);

  absl::Status PrepareAll();
  void CloseAll();
  void Answered(FleetPlace& place, const StepResult& result, const Wish& wish,
                int64_t now);

  const CallClass class_;
  const FleetOptions options_;
  const SessionTokens tokens_;
  SessionOpener opener_;
  AnswerAgreement agreement_;
  LoadTimer* timer_ = nullptr;
  bool in_turn_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<FleetPlace>> places_;
  // Has what the others share; null if they do not.
  std::unique_ptr<FleetPlace> shared_;
  // Places that a chain has.
  int busy_ = 0;
  // Of an open loop: requests so far. Of a closed one: who is ready, and who
  // waits.
  int64_t turn_ = 0;
  std::deque<FleetPlace*> ready_;
  std::deque<Wish> wishes_;
  SessionTally tally_;
};

}  // namespace attn
