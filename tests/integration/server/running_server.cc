#include "tests/integration/server/running_server.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <random>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "server/app/listen_address.h"
#include "tests/server/metrics/scrape.h"

namespace attn {
ServerOptions TestOptions() {
  ServerOptions options;
  options.grpc_addresses = {"127.0.0.1:0"};
  options.metrics_address = "";
  options.compute_threads = 2;
  options.drain_delay = absl::ZeroDuration();
  return options;
}

ServerOptions TestOptionsWithMetrics() {
  ServerOptions options = TestOptions();
  options.metrics_address = "127.0.0.1:0";
  return options;
}

bool Becomes(const std::function<bool()>& is_so) {
  const absl::Time patience = absl::Now() + absl::Seconds(60);
  while (!is_so()) {
    if (absl::Now() >= patience) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

RunningServer::RunningServer(const ServerOptions& options)
    : RunningServer(options, [](const std::string&) {}) {}

RunningServer::RunningServer(const ServerOptions& options, LineLog::Sink sink)
    : log_(LogFormat::kText, std::move(sink)) {
  QuietGrpc();
  auto server = Server::Start(options, log_);
  if (!server.ok()) {
    std::cerr << server.status() << "\n";
    std::abort();
  }
  server_ = *std::move(server);
  stub_ = wire::AttentionService::NewStub(Connect());
}

std::shared_ptr<grpc::Channel> RunningServer::Connect(
    const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  // A connection of its own for each channel.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                   arguments);
}

grpc::Status RunningServer::Attend(const wire::AttendRequest& request,
                                   wire::AttendResponse* response) {
  grpc::ClientContext context;
  return stub_->Attend(&context, request, response);
}

std::string RunningServer::Metrics() const {
  return Scrape(SplitHostPort(server_->metrics_address())->port);
}

double RunningServer::MetricValue(const std::string& series) const {
  return ValueOf(Metrics(), series);
}

double RunningServer::MetricReaching(const std::string& series,
                                     double least) const {
  double now = 0;
  Becomes([&] { return (now = MetricValue(series)) >= least; });
  return now;
}

double RunningServer::MetricBecoming(const std::string& series,
                                     double value) const {
  double now = 0;
  Becomes([&] { return (now = MetricValue(series)) == value; });
  return now;
}

std::vector<float> RandomFloats(int64_t count, uint32_t seed) {
  std::minstd_rand random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = uniform(random);
  return values;
}

wire::Tensor FloatTensor(const std::vector<int64_t>& shape,
                         const std::vector<float>& values) {
  wire::Tensor tensor;
  tensor.set_dtype(wire::DATA_TYPE_F32);
  for (const int64_t extent : shape) tensor.add_shape(extent);
  tensor.mutable_data()->assign(reinterpret_cast<const char*>(values.data()),
                                values.size() * sizeof(float));
  return tensor;
}

wire::AttendRequest RandomRequest(const TestShape& s, uint32_t seed) {
  wire::AttendRequest request;
  const int64_t q_count = s.batch * s.q_heads * s.q_length * s.dim;
  const int64_t kv_count = s.batch * s.kv_heads * s.kv_length * s.dim;
  *request.mutable_q() = FloatTensor({s.batch, s.q_heads, s.q_length, s.dim},
                                     RandomFloats(q_count, seed));
  *request.mutable_k() = FloatTensor({s.batch, s.kv_heads, s.kv_length, s.dim},
                                     RandomFloats(kv_count, seed + 1));
  *request.mutable_v() = FloatTensor({s.batch, s.kv_heads, s.kv_length, s.dim},
                                     RandomFloats(kv_count, seed + 2));
  return request;
}

wire::AttendRequest SlowRequest() {
  wire::AttendRequest request = RandomRequest({.q_heads = 8,
                                               .kv_heads = 8,
                                               .q_length = 2048,
                                               .kv_length = 2048,
                                               .dim = 64},
                                              1);
  request.set_kernel("reference");
  return request;
}

std::vector<float> Floats(const wire::Tensor& tensor) {
  std::vector<float> values(tensor.data().size() / sizeof(float));
  std::memcpy(values.data(), tensor.data().data(), tensor.data().size());
  return values;
}

}  // namespace attn
