// A bare gRPC server: takes bytes and gives bytes back, by the same raw
// callback method as attn-server. What a call costs if nothing is read and
// nothing is computed.
//
//   attn-echo-server RESPONSE_BYTES ADDRESS...
//
// Answers AttentionService.Attend with the request's first RESPONSE_BYTES
// bytes, by reference, and with zeros beyond them.
#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "attention/v1/attention.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"
#include "tests/bench/keep_memory.h"

namespace attn {
namespace {

namespace v1 = ::attention::v1;

class EchoService final
    : public v1::AttentionService::WithRawCallbackMethod_Attend<
          v1::AttentionService::Service> {
 public:
  explicit EchoService(size_t response_bytes)
      : response_bytes_(response_bytes), zeros_(response_bytes) {}

  grpc::ServerUnaryReactor* Attend(grpc::CallbackServerContext* call,
                                   const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override {
    *response = Answer(*request);
    grpc::ServerUnaryReactor* reactor = call->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 private:
  grpc::ByteBuffer Answer(const grpc::ByteBuffer& request) const {
    std::vector<grpc::Slice> slices;
    if (!request.Dump(&slices).ok()) return {};
    std::vector<grpc::Slice> head;
    size_t missing = response_bytes_;
    for (const grpc::Slice& slice : slices) {
      if (missing == 0) break;
      const size_t taken = std::min(missing, slice.size());
      head.push_back(taken == slice.size() ? slice : slice.sub(0, taken));
      missing -= taken;
    }
    if (missing > 0) {
      head.emplace_back(zeros_.data(), missing, grpc::Slice::STATIC_SLICE);
    }
    return {head.data(), head.size()};
  }

  const size_t response_bytes_;
  const std::vector<char> zeros_;
};

int Serve(size_t response_bytes, const std::vector<std::string>& addresses) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  EchoService service(response_bytes);
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  for (const std::string& address : addresses) {
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  }
  builder.SetMaxReceiveMessageSize(-1);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  int signal = 0;
  sigwait(&signals, &signal);
  server->Shutdown();
  return 0;
}

}  // namespace
}  // namespace attn

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: attn-echo-server RESPONSE_BYTES ADDRESS...\n", stderr);
    return 2;
  }
  attn::KeepFreedMemory();
  return attn::Serve(std::strtoull(argv[1], nullptr, 10),
                     std::vector<std::string>(argv + 2, argv + argc));
}
