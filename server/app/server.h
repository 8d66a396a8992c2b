// A whole server: engine, gate, queue, gRPC, metrics.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "engine/runtime/cpu_quota.h"
#include "engine/runtime/mutex.h"
#include "server/app/access.h"
#include "server/app/grpc_listener.h"
#include "server/app/idle_trimmer.h"
#include "server/app/options.h"
#include "server/app/session_host.h"
#include "server/batching/admission.h"
#include "server/batching/batcher.h"
#include "server/http/http_front.h"
#include "server/inference/inference_service.h"
#include "server/layers/layer_store.h"
#include "server/metrics/metrics_server.h"
#include "server/rpc/attention_service.h"
#include "server/rpc/layer_service.h"
#include "server/rpc/line_log.h"
#include "server/rpc/reply_watch.h"
#include "server/rpc/server_info.h"

namespace attn {

// Several may live in one process, on ports of their own. Thread-safe.
class Server {
 public:
  // Serves when it returns. INVALID_ARGUMENT or FAILED_PRECONDITION, one line,
  // names the flag that does not fit or the address that cannot be bound.
  // `log` must outlive the server. Until it is warm it answers NOT_SERVING and
  // UNAVAILABLE; if `stop_asked` is true then, it stays so: Stop() it.
  static absl::StatusOr<std::unique_ptr<Server>> Start(
      const ServerOptions& options, const LineLog& log,
      const std::function<bool()>& stop_asked = nullptr);
  // Stops in a hurry if Stop() was not called.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // As asked for, with the ports that were really bound.
  const std::vector<std::string>& grpc_addresses() const {
    return listener_.addresses;
  }
  // Empty if metrics are not served.
  std::string metrics_address() const;
  // Where the page is, "http://host:port/"; empty if it is not served.
  std::string page_address() const;

  // Stops without losing a request that is inside: health says NOT_SERVING,
  // the drain delay passes, the gate closes, those inside end, gRPC shuts down,
  // the workers join. Blocks until then. Once.
  void Stop();
  // Makes a Stop() that runs, or will run, skip the waiting and cancel those
  // inside. Never blocks for long.
  void Hurry();

 private:
  Server(const ServerOptions& options, std::unique_ptr<Access> access,
         const LineLog& log);

  absl::Status OpenLayers();
  absl::Status StartMetrics();
  absl::Status StartServing();
  void MakeServices();
  // Tells the health service, and all that asks as it is asked.
  void TellServing(bool serving);
  void Open();
  void StartTrimming();
  void LogStart() const;
  MetricsInfo DescribeMetrics() const;
  GaugeSources Gauges() const;
  ServerFacts Facts() const;
  BatcherOptions BatchingOptions();
  void WaitForDrainDelay();
  bool WaitForThoseInside(absl::Time deadline);
  bool hurried() const { return hurried_.load(std::memory_order_acquire); }

  const ServerOptions options_;
  const LineLog& log_;
  const Clock& clock_;
  const CpuQuota quota_;
  const std::unique_ptr<Access> access_;
  Admission admission_;
  Batcher batcher_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<LayerStore> layers_;
  std::unique_ptr<SessionHost> sessions_;
  std::unique_ptr<MetricsServer> metrics_;
  std::unique_ptr<CallObserver> observer_;
  CallerReader callers_;
  ReplyWatch replies_;
  std::unique_ptr<CallContext> context_;
  std::unique_ptr<AttentionService> service_;
  std::unique_ptr<LayerServiceContext> layer_context_;
  std::unique_ptr<LayerService> layer_service_;
  // Null: it is not served.
  std::unique_ptr<InferenceService> inference_service_;
  GrpcListener listener_;
  // Null: it is not served. Calls the listener's server.
  std::unique_ptr<HttpFront> http_;
  std::unique_ptr<IdleTrimmer> trimmer_;
  std::atomic<bool> hurried_{false};
  // What the health service says.
  std::atomic<bool> serving_{false};
  Mutex mutex_;
  CondVar hurry_;
  bool opened_ = false;
  bool stopped_ = false;
};

}  // namespace attn
