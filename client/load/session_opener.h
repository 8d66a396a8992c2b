// Opens the sessions of a class, gives them their first tokens, closes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/library/raw_call.h"
#include "client/load/load_timer.h"
#include "client/load/session_calls.h"
#include "client/load/session_tally.h"
#include "client/load/session_tokens.h"
#include "client/load/step_path.h"

namespace attn {

// Of the sessions that are open at the same time, one after the other is in
// this place. Thread-compatible.
struct LoadPlace {
  size_t number = 0;
  const RawChannel* channel = nullptr;
  // Empty: none is open.
  std::string id;
  uint64_t epoch = 0;
  uint64_t next_step = 0;
  int64_t position = 0;
  // After the first tokens.
  int64_t steps_made = 0;
  std::unique_ptr<StepPath> path;

  // Without tensors.
  StepMessage NextStep() const;
};

// Whether a step that failed so would fail again: the session is not there, or
// has not what it should.
bool IsSessionLoss(const absl::Status& status);

// Nothing waits: what is to follow is called once, on a thread of gRPC's or
// before the function returns. Thread-safe for different places.
class SessionOpener {
 public:
  // OK, or why no session is open.
  using Continue = std::function<void(const absl::Status& status)>;
  using Finished = std::function<void()>;

  // `tokens` must outlive it. `deadline`: of each call and step.
  SessionOpener(const CallProfile& profile, const SessionTokens& tokens,
                absl::Duration deadline);

  // A run begins; `timer` must outlive it.
  void Begin(LoadTimer& timer, const std::stop_token& stop);
  // From now on sessions are forks of that one, which has the shared tokens, as
  // long as it is there; then they are opened anew.
  void Share(const LoadPlace& place);

  // Opens a session in `place`, which has none, with so many first tokens.
  // CANCELLED if the run is being stopped meanwhile.
  void Prepare(LoadPlace& place, int64_t tokens, Continue next);
  // Closes its session, if there is one: none is in the place then, whatever
  // became of it.
  void Close(LoadPlace& place, Finished next);

  // Prepare() is not to go on.
  void Stop();
  bool Stopping();
  // What was measured since Begin(), without steps.
  SessionTally TakeTally();

 private:
  void OpenNew(LoadPlace& place, int64_t tokens, Continue next);
  void ForkShared(LoadPlace& place, int64_t tokens, Continue next);
  void NextFork();
  void Opened(LoadPlace& place, int64_t tokens, int64_t begun,
              absl::StatusOr<SessionName> name, const Continue& next);
  void Prefill(LoadPlace& place, int64_t tokens, Continue next);

  const CallProfile profile_;
  const SessionTokens& tokens_;
  const absl::Duration deadline_;
  const grpc::ByteBuffer open_request_;
  LoadTimer* timer_ = nullptr;

  std::mutex mutex_;
  std::stop_token stop_;
  bool ending_ = false;
  // Null if none is shared.
  const LoadPlace* shared_ = nullptr;
  // A session takes part in one call at a time: forks are made one by one.
  std::deque<std::function<void()>> forks_;
  bool forking_ = false;
  SessionTally tally_;
};

}  // namespace attn
