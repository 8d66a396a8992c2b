// A bare gRPC server: takes bytes and gives bytes back, by the same API that
// attn-server uses. What a call costs if nothing is computed.
//
//   attn-echo-server ADDRESS RESPONSE_BYTES
//
// Each answer is the request's first RESPONSE_BYTES bytes.
#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/grpcpp.h"

namespace attn {
namespace {

grpc::ByteBuffer Head(const grpc::ByteBuffer& message, size_t size) {
  std::vector<grpc::Slice> slices;
  if (!message.Dump(&slices).ok()) return {};
  std::vector<grpc::Slice> head;
  for (const grpc::Slice& slice : slices) {
    if (size == 0) break;
    const size_t taken = std::min(size, slice.size());
    head.push_back(taken == slice.size() ? slice : slice.sub(0, taken));
    size -= taken;
  }
  return {head.data(), head.size()};
}

// One call. Deletes itself.
class EchoReactor : public grpc::ServerGenericBidiReactor {
 public:
  explicit EchoReactor(size_t response_bytes)
      : response_bytes_(response_bytes) {
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      Finish(grpc::Status(grpc::StatusCode::INTERNAL, "no request"));
      return;
    }
    response_ = Head(request_, response_bytes_);
    StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
  }
  void OnDone() override { delete this; }

 private:
  const size_t response_bytes_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer response_;
};

class EchoService : public grpc::CallbackGenericService {
 public:
  explicit EchoService(size_t response_bytes)
      : response_bytes_(response_bytes) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext*) override {
    return new EchoReactor(response_bytes_);
  }

 private:
  const size_t response_bytes_;
};

int Serve(const char* address, size_t response_bytes) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  EchoService service(response_bytes);
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.SetMaxReceiveMessageSize(-1);
  builder.RegisterCallbackGenericService(&service);
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
  if (argc != 3) {
    std::fputs("usage: attn-echo-server ADDRESS RESPONSE_BYTES\n", stderr);
    return 2;
  }
  return attn::Serve(argv[1], std::strtoull(argv[2], nullptr, 10));
}
