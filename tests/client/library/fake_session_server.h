// A server of sessions that fails as it is told.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/library/call_route.h"
#include "grpcpp/server.h"
#include "tests/client/library/fake_session.h"

namespace attn {

// Keeps FakeSessions. Thread-safe.
class FakeSessionServer {
 public:
  explicit FakeSessionServer(const std::string& address = "127.0.0.1:0");
  ~FakeSessionServer();
  FakeSessionServer(const FakeSessionServer&) = delete;
  FakeSessionServer& operator=(const FakeSessionServer&) = delete;

  const std::string& address() const { return address_; }
  // What OpenSession names as the owner.
  void Advertise(const std::string& owner);

  // Ends it at once, with what it knows.
  void Kill();
  // Forgets all sessions; calls about them have this reason from then on.
  void Forget(const std::string& reason);
  // The next `times` steps, rollbacks and forks are done, and end with this all
  // the same.
  void LoseAnswers(int times, const absl::Status& status);
  // No session is opened any more: RESOURCE_EXHAUSTED.
  void RefuseSessions();
  // Calls that come from now on are not answered, until it is killed.
  void Hang();
  // The next `times` calls of any kind are not made and end with this.
  void Refuse(int times, const absl::Status& status);
  // The so many-th step from now on is made and is the last thing it does.
  void DieAfterSteps(int steps);

  // Those that were made, or answered again.
  std::vector<SeenStep> steps() const;
  // What calls about a session, and streams of steps, told a proxy.
  std::vector<CallRoute> routes() const;
  int sessions() const;
  // Of all kinds, those that were refused too.
  int calls() const;

 private:
  class Service;

  std::unique_ptr<Service> service_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace attn
