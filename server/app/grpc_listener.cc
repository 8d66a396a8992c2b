#include "server/app/grpc_listener.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "attention/v1/attention.grpc.pb.h"
#include "grpc/support/log.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"
#include "server/app/listen_address.h"

namespace attn {
namespace {

// A client may ping every 10 s also without calls; half of it forgives jitter.
constexpr int kMinPingIntervalMs = 5000;
// Below this gRPC cannot even shake hands.
constexpr int64_t kLeastQuota = int64_t{64} << 20;

absl::Status CannotListen(const std::string& address) {
  return absl::FailedPreconditionError(
      absl::StrCat("--grpc-address=", address,
                   ": cannot listen: ", WhyCannotListen(address)));
}

void Configure(const GrpcListenerOptions& options,
               grpc::ServerBuilder& builder) {
  grpc::ResourceQuota quota("attn");
  quota.Resize(static_cast<size_t>(std::max(options.quota_bytes, kLeastQuota)));
  builder.SetResourceQuota(quota);
  // The service compares lengths itself and names the flag; gRPC would not.
  constexpr int kLargest = std::numeric_limits<int>::max();
  builder.SetMaxReceiveMessageSize(kLargest);
  builder.SetMaxSendMessageSize(kLargest);
  // Otherwise a second server on the same port gets half of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
      kMinPingIntervalMs);
  // Threads of the reflection service, the only one that blocks.
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS,
                              1);
  builder.SetSyncServerOption(
      grpc::ServerBuilder::SyncServerOption::MIN_POLLERS, 1);
  builder.SetSyncServerOption(
      grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, 2);
}

}  // namespace

absl::StatusOr<GrpcListener> StartGrpcListener(
    const GrpcListenerOptions& options, grpc::Service& service) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  for (const std::string& address : options.addresses) {
    if (IsUnixAddress(address) && IsUnixSocketTaken(address)) {
      return CannotListen(address);
    }
  }
  grpc::ServerBuilder builder;
  Configure(options, builder);
  std::vector<int> ports(options.addresses.size(), 0);
  for (size_t i = 0; i < ports.size(); ++i) {
    builder.AddListeningPort(options.addresses[i],
                             grpc::InsecureServerCredentials(), &ports[i]);
  }
  builder.RegisterService(&service);
  GrpcListener listener;
  listener.server = builder.BuildAndStart();
  if (listener.server == nullptr) {
    const auto failed = std::find(ports.begin(), ports.end(), 0);
    return CannotListen(
        options.addresses[static_cast<size_t>(failed - ports.begin())]);
  }
  SetServing(*listener.server, false);
  for (size_t i = 0; i < ports.size(); ++i) {
    listener.addresses.push_back(WithPort(options.addresses[i], ports[i]));
  }
  return listener;
}

void SetServing(grpc::Server& server, bool serving) {
  grpc::HealthCheckServiceInterface* health = server.GetHealthCheckService();
  health->SetServingStatus("", serving);
  health->SetServingStatus(::attention::v1::AttentionService::service_full_name(), serving);
}

void QuietGrpc() {
  // Before any thread exists.
  if (std::getenv("GRPC_VERBOSITY") !=
      nullptr) {  // NOLINT(concurrency-mt-unsafe)
    return;
  }
  gpr_set_log_function([](gpr_log_func_args*) {});
}

}  // namespace attn
