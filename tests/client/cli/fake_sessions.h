// A service of sessions that computes nothing: what it is asked can be looked
// at, and each output is its q.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/synchronization/mutex.h"
#include "attention/v1/session.grpc.pb.h"
#include "grpcpp/server.h"
#include "proto/codec/schema.h"

namespace attn {

// Listens on loopback at a free port. Steps, epochs and positions are checked
// as the schema says; pages of a list have one session. Thread-safe.
class FakeSessions final : public v1::SessionService::Service {
 public:
  FakeSessions();
  ~FakeSessions() override;

  const std::string& address() const { return address_; }
  // The last of each.
  v1::OpenSessionRequest opened() const;
  v1::StepRequest stepped() const;
  // Calls of GetSession.
  int gets() const;

  grpc::Status OpenSession(grpc::ServerContext* context,
                           const v1::OpenSessionRequest* request,
                           v1::OpenSessionResponse* response) override;
  grpc::Status Step(grpc::ServerContext* context,
                    const v1::StepRequest* request,
                    v1::StepResponse* response) override;
  grpc::Status Fork(grpc::ServerContext* context,
                    const v1::ForkRequest* request,
                    v1::ForkResponse* response) override;
  grpc::Status Rollback(grpc::ServerContext* context,
                        const v1::RollbackRequest* request,
                        v1::RollbackResponse* response) override;
  grpc::Status CloseSession(grpc::ServerContext* context,
                            const v1::CloseSessionRequest* request,
                            v1::CloseSessionResponse* response) override;
  grpc::Status GetSession(grpc::ServerContext* context,
                          const v1::GetSessionRequest* request,
                          v1::GetSessionResponse* response) override;
  grpc::Status ListSessions(grpc::ServerContext* context,
                            const v1::ListSessionsRequest* request,
                            v1::ListSessionsResponse* response) override;

 private:
  // Null, with the status that says so in `status`.
  v1::SessionInfo* Find(const std::string& id, grpc::Status& status);
  v1::SessionInfo& Add(v1::SessionInfo session);

  mutable absl::Mutex mutex_;
  std::map<std::string, v1::SessionInfo> sessions_;
  uint64_t next_id_ = 1;
  v1::OpenSessionRequest opened_;
  v1::StepRequest stepped_;
  int gets_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

}  // namespace attn
