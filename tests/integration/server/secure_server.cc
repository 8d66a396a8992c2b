#include "tests/integration/server/secure_server.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "gtest/gtest.h"
#include "server/app/listen_address.h"
#include "tests/server/metrics/scrape.h"

namespace attn {
namespace {

// A guard against hanging, not a measurement.
constexpr std::chrono::seconds kLongest(60);

void Prepare(grpc::ClientContext& context, const std::string& authorization) {
  context.set_deadline(std::chrono::system_clock::now() + kLongest);
  if (!authorization.empty()) {
    context.AddMetadata("authorization", authorization);
  }
}

std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(
    const TestCaller& caller) {
  if (caller.ca.empty()) return grpc::InsecureChannelCredentials();
  return grpc::SslCredentials({.pem_root_certs = caller.ca,
                               .pem_private_key = caller.identity.key,
                               .pem_cert_chain = caller.identity.chain});
}

}  // namespace

ServerOptions SecureServer::Options() {
  ServerOptions options = TestOptions();
  options.tls_reload = absl::Milliseconds(5);
  return options;
}

std::string SecureServer::WriteFile(const std::string& name,
                                    const std::string& text) const {
  const std::string next = folder_.Write(name + ".next", text);
  std::string path = folder_.File(name);
  std::rename(next.c_str(), path.c_str());
  return path;
}

void SecureServer::WriteCertificate(const TestIdentity& identity) const {
  WriteFile("cert.pem", identity.chain);
  WriteFile("key.pem", identity.key);
}

void SecureServer::UseTls(ServerOptions& options, bool mutual) const {
  WriteCertificate(authority_.IssueServer("first"));
  options.tls_cert = folder_.File("cert.pem");
  options.tls_key = folder_.File("key.pem");
  if (mutual) options.tls_client_ca = WriteFile("ca.pem", authority_.pem());
}

void SecureServer::UseTokens(ServerOptions& options,
                             const std::string& text) const {
  options.auth_token_file = WriteFile("tokens", text);
}

absl::Status SecureServer::TryStart(const ServerOptions& options) {
  QuietGrpc();
  auto server = Server::Start(options, log_);
  if (!server.ok()) return server.status();
  server_ = *std::move(server);
  return absl::OkStatus();
}

void SecureServer::Start(const ServerOptions& options) {
  const absl::Status status = TryStart(options);
  if (status.ok()) return;
  std::cerr << status << "\n";
  std::abort();
}

double SecureServer::RejectionsReaching(const std::string& reason,
                                        double least) const {
  const std::string series =
      "attn_requests_rejected_total{reason=\"" + reason + "\"}";
  const int port = SplitHostPort(server_->metrics_address())->port;
  double value = 0;
  Becomes([&] { return (value = ValueOf(Scrape(port), series)) >= least; });
  return value;
}

std::string SecureServer::Log() const {
  MutexLock lock(mutex_);
  return lines_;
}

size_t SecureServer::WaitForLog(const std::string& text, size_t from) const {
  size_t found = std::string::npos;
  if (Becomes([&] {
        return (found = Log().find(text, from)) != std::string::npos;
      })) {
    return found + text.size();
  }
  ADD_FAILURE() << "\"" << text << "\" does not come; what came:\n" << Log();
  return from;
}

LineLog::Sink SecureServer::Sink() {
  return [this](const std::string& line) {
    MutexLock lock(mutex_);
    lines_ += line;
  };
}

std::shared_ptr<grpc::Channel> SecureServer::Connect(const TestCaller& caller,
                                                     size_t number) const {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address(number), CredentialsOf(caller),
                                   arguments);
}

grpc::Status SecureServer::Attend(const TestCaller& caller,
                                  size_t number) const {
  return AttendOn(Connect(caller, number), caller.authorization);
}

grpc::Status AttendOn(const std::shared_ptr<grpc::Channel>& channel,
                      const std::string& authorization, std::string* peer) {
  grpc::ClientContext context;
  Prepare(context, authorization);
  wire::AttendResponse response;
  const grpc::Status status = wire::AttentionService::NewStub(channel)->Attend(
      &context, RandomRequest({}, 1), &response);
  if (peer != nullptr) {
    for (const grpc::string_ref& name :
         context.auth_context()->FindPropertyValues("x509_common_name")) {
      peer->assign(name.data(), name.size());
    }
  }
  return status;
}

}  // namespace attn
