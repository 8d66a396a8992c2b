// A server with certificates and tokens in a scratch folder, and callers of it.
#pragma once

#include <memory>
#include <string>

#include "engine/runtime/mutex.h"
#include "grpcpp/grpcpp.h"
#include "tests/client/testing/scratch_folder.h"
#include "tests/integration/server/running_server.h"
#include "tests/server/security/test_certificates.h"

namespace attn {

// What a caller trusts and shows.
struct TestCaller {
  // PEM; empty: no TLS.
  std::string ca{};
  TestIdentity identity{};
  // The whole metadata `authorization`; empty: none.
  std::string authorization{};
};

inline std::string Bearer(const std::string& token) {
  return "Bearer " + token;
}

// Thread-safe but for Start().
class SecureServer {
 public:
  SecureServer() : authority_("test CA"), log_(LogFormat::kText, Sink()) {}

  // TestOptions() that look at their files all the time.
  static ServerOptions Options();
  // Files of a certificate of that name.
  void WriteCertificate(const TestIdentity& identity) const;
  // Replaces a file as a whole, as a careful administrator does.
  std::string WriteFile(const std::string& name, const std::string& text) const;
  // Adds --tls-cert and --tls-key, and --tls-client-ca if `mutual`.
  void UseTls(ServerOptions& options, bool mutual = false) const;
  void UseTokens(ServerOptions& options, const std::string& text) const;

  absl::Status TryStart(const ServerOptions& options);
  // Dies if it does not start.
  void Start(const ServerOptions& options);

  const Server& server() const { return *server_; }
  const TestAuthority& authority() const { return authority_; }
  const ScratchFolder& folder() const { return folder_; }
  const std::string& address(size_t i = 0) const {
    return server_->grpc_addresses()[i];
  }
  // Waits until so many are counted for that reason, and gives the count: a
  // call is counted after its reply. Needs a metrics address.
  double RejectionsReaching(const std::string& reason, double least) const;

  // Every line so far.
  std::string Log() const;
  // Waits until the log has `text` after its first `from` bytes; where the log
  // ended then.
  size_t WaitForLog(const std::string& text, size_t from = 0) const;

  // A connection of its own.
  std::shared_ptr<grpc::Channel> Connect(const TestCaller& caller,
                                         size_t address = 0) const;
  // One small call over a connection of its own.
  grpc::Status Attend(const TestCaller& caller, size_t address = 0) const;

 private:
  LineLog::Sink Sink();

  const ScratchFolder folder_;
  const TestAuthority authority_;
  mutable Mutex mutex_;
  std::string lines_ ATTN_GUARDED_BY(mutex_);
  const LineLog log_;
  std::unique_ptr<Server> server_;
};

// A small call on `channel`. `peer`, if not null, gets the common name of the
// server's certificate.
grpc::Status AttendOn(const std::shared_ptr<grpc::Channel>& channel,
                      const std::string& authorization,
                      std::string* peer = nullptr);

}  // namespace attn
