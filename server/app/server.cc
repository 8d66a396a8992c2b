#include "server/app/server.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "grpcpp/grpcpp.h"
#include "server/app/http_port.h"
#include "server/app/listen_address.h"
#include "server/app/memory_settings.h"
#include "server/app/metric_labels.h"
#include "server/app/thread_warning.h"
#include "server/app/warm_up.h"
#include "server/batching/refusal.h"
#include "server/metrics/process_stats.h"

namespace attn {
namespace {

// How often a waiting Stop() looks whether it is to hurry.
constexpr absl::Duration kHurryLook = absl::Milliseconds(20);

// A condition variable's clock cannot count to infinity.
constexpr absl::Duration kLongestWait = absl::Hours(1);

// For replies that are on their way when nobody is inside any more.
// A call that gRPC took just before is still told UNAVAILABLE, and not cut off.
constexpr std::chrono::seconds kLastReplies(5);

int ComputeThreads(const ServerOptions& options, const CpuQuota& quota) {
  return options.compute_threads > 0 ? options.compute_threads : quota.threads;
}

EngineOptions MakeEngineOptions(const ServerOptions& options,
                                const CpuQuota& quota, const Clock& clock) {
  EngineOptions engine;
  engine.workers = ComputeThreads(options, quota);
  engine.worker_niceness = options.compute_niceness;
  engine.clock = &clock;
  return engine;
}

}  // namespace

Server::Server(const ServerOptions& options, std::unique_ptr<Access> access,
               const LineLog& log)
    : options_(options),
      log_(log),
      clock_(Clock::Monotonic()),
      quota_(ReadCpuQuota()),
      access_(std::move(access)),
      admission_({.max_concurrent_requests = options.max_concurrent_requests,
                  .max_inflight_bytes = options.max_inflight_bytes},
                 clock_),
      batcher_(BatchingOptions(), clock_),
      engine_(
          std::make_unique<Engine>(MakeEngineOptions(options, quota_, clock_))),
      callers_(clock_, options.default_timeout, access_->authenticator()),
      replies_(clock_, options.stream_send_grace) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(
    const ServerOptions& options, const LineLog& log,
    const std::function<bool()>& stop_asked) {
  absl::Status status = Validate(options);
  if (!status.ok()) return status;
  auto access = Access::Open(options, log);
  if (!access.ok()) return access.status();
  std::unique_ptr<Server> server(new Server(options, *std::move(access), log));
  status = server->OpenLayers();
  if (status.ok()) status = server->StartMetrics();
  if (status.ok()) status = server->StartServing();
  if (!status.ok()) return status;
  if (stop_asked && stop_asked()) return server;
  server->Open();
  server->LogStart();
  return server;
}

Server::~Server() {
  Hurry();
  Stop();
}

std::string Server::metrics_address() const {
  return options_.metrics_address.empty()
             ? ""
             : WithPort(options_.metrics_address, metrics_->port());
}

std::string Server::page_address() const {
  return http_ == nullptr ? "" : PageAddress(options_, *http_);
}

absl::Status Server::OpenLayers() {
  auto layers = LayerStore::Open(
      {.directory = options_.layer_dir, .max_bytes = options_.max_layer_bytes},
      [this](absl::string_view line) { log_.Error(line); });
  if (!layers.ok()) return layers.status();
  layers_ = *std::move(layers);
  auto sessions = SessionHost::Open(options_, clock_, *engine_, log_);
  if (!sessions.ok()) return sessions.status();
  sessions_ = *std::move(sessions);
  return absl::OkStatus();
}

absl::Status Server::StartMetrics() {
  std::string error;
  metrics_ = StartMetricsServer(options_.metrics_address, DescribeMetrics(),
                                Gauges(), &error);
  if (metrics_ == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--metrics-address=", options_.metrics_address,
        ": cannot listen: ", WhyCannotListen(options_.metrics_address)));
  }
  observer_ = std::make_unique<CallObserver>(
      CallObserverOptions{.log_requests = options_.log_requests,
                          .entropy_sample_rate = options_.entropy_sample_rate},
      metrics_->metrics(), log_);
  context_ = std::make_unique<CallContext>(
      CallContext{.engine = *engine_,
                  .admission = admission_,
                  .batcher = batcher_,
                  .observer = *observer_,
                  .clock = clock_,
                  .max_message_bytes = options_.max_message_bytes,
                  .layers = layers_.get(),
                  .sessions = &sessions_->store()});
  return absl::OkStatus();
}

void Server::MakeServices() {
  service_ = std::make_unique<AttentionService>(
      *context_, callers_, replies_,
      AttendStreamOptions{.max_calls = options_.max_stream_calls,
                          .default_timeout = options_.default_timeout,
                          .send_grace = options_.stream_send_grace},
      DescribeServer(Facts()));
  layer_context_ = std::make_unique<LayerServiceContext>(LayerServiceContext{
      .store = *layers_,
      .admission = admission_,
      .calls = {.observer = *observer_,
                .clock = clock_,
                .callers = callers_,
                .replies = replies_,
                .max_message_bytes = options_.max_message_bytes}});
  layer_service_ = std::make_unique<LayerService>(*layer_context_);
  sessions_->Serve(*context_, callers_, replies_);
  if (options_.open_inference) {
    inference_service_ = std::make_unique<InferenceService>(
        *context_, callers_, replies_,
        [this] { return serving_.load(std::memory_order_acquire); });
  }
}

absl::Status Server::StartServing() {
  MakeServices();
  std::vector<grpc::Service*> services = {service_.get(), layer_service_.get(),
                                          &sessions_->service()};
  std::vector<std::string> names = {v1::AttentionService::service_full_name(),
                                    v1::LayerService::service_full_name(),
                                    v1::SessionService::service_full_name()};
  if (inference_service_ != nullptr) {
    services.push_back(inference_service_.get());
    names.emplace_back(inference::GRPCInferenceService::service_full_name());
  }
  auto listener =
      StartGrpcListener({.addresses = options_.grpc_addresses,
                         .quota_bytes = TransportBytes(options_),
                         .max_concurrent_streams =
                             static_cast<int>(options_.max_concurrent_streams),
                         .min_ping_interval = options_.min_ping_interval,
                         .max_connection_age = options_.max_connection_age,
                         .keepalive_time = options_.keepalive_time,
                         .keepalive_timeout = options_.keepalive_timeout,
                         .reflection = ServesReflection(options_),
                         .health_names = std::move(names),
                         .certificates = access_->certificates()},
                        services);
  if (!listener.ok()) return listener.status();
  listener_ = *std::move(listener);
  auto http = StartHttpPort(options_, *access_, *listener_.server, [this] {
    return serving_.load(std::memory_order_acquire);
  });
  if (!http.ok()) return http.status();
  http_ = *std::move(http);
  log_.Info(absl::StrCat("listening on ",
                         absl::StrJoin(listener_.addresses, ", "),
                         ": NOT_SERVING until warm"));
  return WarmUp(*engine_);
}

void Server::TellServing(bool serving) {
  serving_.store(serving, std::memory_order_release);
  SetServing(listener_, serving);
}

void Server::Open() {
  opened_ = true;
  admission_.Open();
  TellServing(true);
  StartTrimming();
}

void Server::StartTrimming() {
  if (options_.idle_trim_delay <= absl::ZeroDuration()) return;
  trimmer_ = std::make_unique<IdleTrimmer>(
      options_.idle_trim_delay,
      [this]() -> ProcessLoad {
        return {.requests = admission_.requests(),
                .computed = engine_->busy_time(),
                .resident_bytes =
                    static_cast<int64_t>(ReadProcessStats().resident_bytes)};
      },
      [this] {
        sessions_->store().Trim();
        TrimMemory();
      });
}

void Server::LogStart() const {
  log_.Info(absl::StrCat("attn-server ", ATTN_VERSION, ": ", IsaName(),
                         ", oneDNN ", OneDnnVersion(), ", gRPC ",
                         grpc::Version()));
  log_.Info(absl::StrCat(engine_->workers(), " compute threads of ",
                         quota_.cores, " cores (", quota_.source, ")"));
  const std::string warning = ThreadWarning(options_.compute_threads, quota_);
  if (!warning.empty()) log_.Info(absl::StrCat("warning: ", warning));
  log_.Info(absl::StrCat(
      "limits: message ", options_.max_message_bytes, " bytes, in flight ",
      options_.max_inflight_bytes, " bytes, in gRPC ", TransportBytes(options_),
      " bytes, ", options_.max_concurrent_requests, " requests, queue ",
      options_.max_queue_size, " requests, batch ", options_.max_batch_tokens,
      " tokens, default timeout ",
      absl::FormatDuration(options_.default_timeout)));
  access_->LogStart();
  if (!options_.layer_dir.empty()) {
    log_.Info(absl::StrCat("layers: ", layers_->bytes(), " bytes in ",
                           options_.layer_dir));
  }
  if (!options_.metrics_address.empty()) {
    log_.Info(absl::StrCat("metrics: http://", metrics_address(), "/metrics"));
  }
  if (http_ != nullptr) {
    log_.Info(absl::StrCat("page: ", page_address()));
  }
  log_.Info(
      absl::StrCat("SERVING on ", absl::StrJoin(listener_.addresses, ", ")));
}

MetricsInfo Server::DescribeMetrics() const {
  MetricsInfo info;
  info.version = ATTN_VERSION;
  info.isa = IsaName();
  info.onednn_version = OneDnnVersion();
  info.grpc_version = grpc::Version();
  info.cpu_quota_cores = quota_.cores;
  info.compute_threads = engine_->workers();
  info.queue_capacity = static_cast<double>(options_.max_queue_size);
  info.inflight_bytes_capacity =
      static_cast<double>(options_.max_inflight_bytes);
  info.row_variants = AllVariantNames();
  info.initial_variants = CommonVariantNames();
  info.initial_variants.emplace_back(kNoVariant);
  info.methods = MethodsWithVariants(options_.open_inference);
  info.codes = StatusCodeNames();
  return info;
}

GaugeSources Server::Gauges() const {
  return {
      .queue_depth = [this] { return static_cast<double>(batcher_.depth()); },
      .queue_oldest_age_seconds =
          [this] { return absl::ToDoubleSeconds(batcher_.oldest_age()); },
      .inflight_bytes =
          [this] { return static_cast<double>(admission_.bytes()); },
      .compute_busy_seconds =
          [this] { return absl::ToDoubleSeconds(engine_->busy_time()); },
      .kv_sessions = [this] { return sessions_->values(); }};
}

ServerFacts Server::Facts() const {
  ServerFacts facts;
  facts.quota = quota_;
  facts.compute_threads = engine_->workers();
  facts.max_isa = options_.max_isa;
  facts.limits.set_max_message_bytes(options_.max_message_bytes);
  facts.limits.set_max_inflight_bytes(options_.max_inflight_bytes);
  facts.limits.set_max_concurrent_requests(options_.max_concurrent_requests);
  facts.limits.set_max_queue_size(options_.max_queue_size);
  facts.limits.set_max_stream_calls(options_.max_stream_calls);
  facts.limits.set_default_timeout_ms(
      absl::ToInt64Milliseconds(options_.default_timeout));
  return facts;
}

BatcherOptions Server::BatchingOptions() {
  return {.max_queue_size = options_.max_queue_size,
          .max_batch_tokens = options_.max_batch_tokens,
          .parallelism = ComputeThreads(options_, quota_),
          .max_queue_delay = options_.max_queue_delay,
          .priority_ageing = options_.priority_ageing,
          .on_batch =
              [this](const BatchCount& b) {
                metrics_->metrics().BatchFormed(b.requests, b.tokens, b.ready);
              },
          .start_together = &CallJob::StartTogether};
}

void Server::Stop() {
  if (std::exchange(stopped_, true)) return;
  if (listener_.server == nullptr) return;
  // Nobody was let in, and nobody was told to come.
  if (!opened_) Hurry();
  TellServing(false);
  trimmer_.reset();
  log_.Info(absl::StrCat("stopping: NOT_SERVING; requests are taken for ",
                         absl::FormatDuration(options_.drain_delay), " more"));
  WaitForDrainDelay();
  const absl::Time deadline = clock_.Now() + options_.drain_timeout;
  admission_.Close();
  // The HTTP server takes two seconds to close: beside the rest.
  std::thread metrics_stop([this] { metrics_->StopListening(); });
  const bool drained = WaitForThoseInside(deadline);
  batcher_.Close();
  if (!drained) {
    batcher_.RefuseWaiting(
        Refuse(Refusal::kDraining, "the server is stopping"));
  }
  service_->EndStreams();
  sessions_->service().EndStreams();
  if (http_ != nullptr) {
    http_->Stop(drained ? absl::FromChrono(kLastReplies)
                        : absl::ZeroDuration());
    http_.reset();
  }
  // Then cancels what still runs: each leaves between two tiles.
  const auto now = std::chrono::system_clock::now();
  listener_.server->Shutdown(drained ? now + kLastReplies : now);
  listener_.server.reset();
  metrics_stop.join();
  batcher_.Stop();
  // No call has one any more.
  sessions_->SpillAll();
  engine_.reset();
  log_.Info(drained ? "stopped; every request inside was served"
                    : "stopped; requests inside were cancelled");
}

void Server::Hurry() {
  MutexLock lock(mutex_);
  hurried_.store(true, std::memory_order_release);
  hurry_.NotifyAll();
}

void Server::WaitForDrainDelay() {
  const absl::Time end = clock_.Now() + options_.drain_delay;
  MutexLock lock(mutex_);
  while (!hurried()) {
    const absl::Duration left = end - clock_.Now();
    if (left <= absl::ZeroDuration()) return;
    hurry_.WaitFor(mutex_,
                   absl::ToChronoNanoseconds(std::min(left, kLongestWait)));
  }
}

bool Server::WaitForThoseInside(absl::Time deadline) {
  while (true) {
    const absl::Duration left = deadline - clock_.Now();
    const bool last = hurried() || left <= absl::ZeroDuration();
    const absl::Duration wait =
        last ? absl::ZeroDuration() : std::min(left, kHurryLook);
    if (admission_.WaitUntilEmpty(wait)) return true;
    if (last) return false;
  }
}

}  // namespace attn
