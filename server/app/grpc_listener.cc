#include "server/app/grpc_listener.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpc/support/log.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/impl/server_builder_option.h"
#include "grpcpp/resource_quota.h"
#include "server/app/listen_address.h"
#include "server/app/tls_credentials.h"

namespace attn {
namespace {

// Each stream of reflection keeps a thread; what comes beyond is refused. No
// other thread of gRPC's counts.
constexpr int kReflectionThreads = 16;

// gRPC gives its reflection to every server of the process, and has no other
// way to take it away again.
class WithoutReflection final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments* /*arguments*/) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>*
                         plugins) override {
    using Reflection = grpc::reflection::ProtoServerReflectionPlugin;
    std::erase_if(*plugins, [](const auto& plugin) {
      return dynamic_cast<const Reflection*>(plugin.get()) != nullptr;
    });
  }
};

absl::Status CannotListen(const std::string& address) {
  return absl::FailedPreconditionError(
      absl::StrCat("--grpc-address=", address,
                   ": cannot listen: ", WhyCannotListen(address)));
}

void Configure(const GrpcListenerOptions& options,
               grpc::ServerBuilder& builder) {
  grpc::ResourceQuota quota("attn");
  quota.Resize(static_cast<size_t>(options.quota_bytes));
  quota.SetMaxThreads(kReflectionThreads);
  builder.SetResourceQuota(quota);
  // The service compares lengths itself and names the flag; gRPC would not.
  constexpr int kLargest = std::numeric_limits<int>::max();
  builder.SetMaxReceiveMessageSize(kLargest);
  builder.SetMaxSendMessageSize(kLargest);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             options.max_concurrent_streams);
  // Otherwise a second server on the same port gets half of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
      static_cast<int>(absl::ToInt64Milliseconds(options.min_ping_interval)));
  builder.AddChannelArgument(
      GRPC_ARG_KEEPALIVE_TIME_MS,
      static_cast<int>(absl::ToInt64Milliseconds(options.keepalive_time)));
  builder.AddChannelArgument(
      GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
      static_cast<int>(absl::ToInt64Milliseconds(options.keepalive_timeout)));
  if (options.max_connection_age > absl::ZeroDuration()) {
    builder.AddChannelArgument(
        GRPC_ARG_MAX_CONNECTION_AGE_MS,
        static_cast<int>(std::clamp<int64_t>(
            absl::ToInt64Milliseconds(options.max_connection_age), 1,
            std::numeric_limits<int>::max())));
  }
  // To a client that takes no data there is none to send between two.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Threads of the reflection service, the only one that blocks.
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS,
                              1);
  builder.SetSyncServerOption(
      grpc::ServerBuilder::SyncServerOption::MIN_POLLERS, 1);
  builder.SetSyncServerOption(
      grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, 2);
  if (!options.reflection) {
    builder.SetOption(std::make_unique<WithoutReflection>());
  }
}

// One listening socket.
struct ListeningPort {
  // As asked for.
  std::string address;
  // One socket: a name with several addresses is several ports under TLS.
  std::string socket;
  std::shared_ptr<grpc::ServerCredentials> credentials;
  // 0: could not be bound.
  int port = 0;
};

std::vector<ListeningPort> PortsOf(const GrpcListenerOptions& options) {
  std::vector<ListeningPort> ports;
  for (const std::string& address : options.addresses) {
    if (options.certificates == nullptr || IsUnixAddress(address)) {
      ports.push_back({address, address, grpc::InsecureServerCredentials()});
      continue;
    }
    std::vector<std::string> sockets = NumericAddresses(address);
    // Fails to be bound, and is told of then.
    if (sockets.empty()) sockets = {address};
    for (std::string& socket : sockets) {
      ports.push_back({address, std::move(socket),
                       MakeTlsCredentials(*options.certificates)});
    }
  }
  return ports;
}

}  // namespace

absl::StatusOr<GrpcListener> StartGrpcListener(
    const GrpcListenerOptions& options,
    const std::vector<grpc::Service*>& services) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  for (const std::string& address : options.addresses) {
    if (IsUnixAddress(address) && IsUnixSocketTaken(address)) {
      return CannotListen(address);
    }
  }
  grpc::ServerBuilder builder;
  Configure(options, builder);
  std::vector<ListeningPort> ports = PortsOf(options);
  for (ListeningPort& each : ports) {
    builder.AddListeningPort(each.socket, each.credentials, &each.port);
  }
  for (grpc::Service* service : services) builder.RegisterService(service);
  GrpcListener listener;
  listener.server = builder.BuildAndStart();
  if (listener.server == nullptr) {
    const auto failed =
        std::find_if(ports.begin(), ports.end(),
                     [](const ListeningPort& each) { return each.port == 0; });
    if (failed == ports.end()) {
      return absl::InternalError("gRPC does not start the server");
    }
    return CannotListen(failed->address);
  }
  listener.health_names = options.health_names;
  SetServing(listener, false);
  for (const ListeningPort& each : ports) {
    listener.credentials.push_back(each.credentials);
    std::string bound = WithPort(each.address, each.port);
    if (listener.addresses.empty() || listener.addresses.back() != bound) {
      listener.addresses.push_back(std::move(bound));
    }
  }
  return listener;
}

void SetServing(const GrpcListener& listener, bool serving) {
  grpc::HealthCheckServiceInterface* health =
      listener.server->GetHealthCheckService();
  health->SetServingStatus("", serving);
  for (const std::string& name : listener.health_names) {
    health->SetServingStatus(name, serving);
  }
}

void QuietGrpc() {
  // Before any thread exists.
  const char* asked_for =
      std::getenv("GRPC_VERBOSITY");  // NOLINT(concurrency-mt-unsafe)
  if (asked_for == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
}

}  // namespace attn
