#include "client/library/callback_threads.h"

#include <memory>

#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"

namespace attn {
namespace {

// A channel to nowhere, which has been called: it counts among those that use
// the threads. Its call fails at once.
class Keeper {
 public:
  Keeper() {
    stub_.UnaryCall(&context_, "/", grpc::StubOptions(), &request_, &response_,
                    [](const grpc::Status& /*refused*/) {});
  }

 private:
  // Without credentials a channel cannot connect.
  grpc::GenericStub stub_{grpc::CreateChannel("", nullptr)};
  grpc::ClientContext context_;
  const grpc::Slice nothing_;
  grpc::ByteBuffer request_{&nothing_, 1};
  grpc::ByteBuffer response_;
};

}  // namespace

void KeepCallbackThreads() {
  // Never destroyed: that is what it is for.
  static const auto* const keeper = new Keeper;
  static_cast<void>(keeper);
}

}  // namespace attn
