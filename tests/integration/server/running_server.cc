#include "tests/integration/server/running_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <random>
#include <sstream>

#include "server/app/listen_address.h"

namespace attn {
namespace {

std::string HttpGet(int port, const std::string& path) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<uint16_t>(port));
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string page;
  if (connect(fd, reinterpret_cast<sockaddr*>(&name), sizeof(name)) == 0) {
    const std::string request =
        "GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    char buffer[65536];
    ssize_t got = write(fd, request.data(), request.size());
    while ((got = read(fd, buffer, sizeof(buffer))) > 0) {
      page.append(buffer, static_cast<size_t>(got));
    }
  }
  close(fd);
  return page;
}

}  // namespace

ServerOptions TestOptions() {
  ServerOptions options;
  options.grpc_addresses = {"127.0.0.1:0"};
  options.metrics_address = "127.0.0.1:0";
  options.compute_threads = 2;
  options.drain_delay = absl::ZeroDuration();
  return options;
}

RunningServer::RunningServer(const ServerOptions& options)
    : log_(LogFormat::kText, [](const std::string&) {}) {
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
  return HttpGet(SplitHostPort(server_->metrics_address())->port, "/metrics");
}

double RunningServer::MetricValue(const std::string& series) const {
  std::istringstream lines(Metrics());
  std::string line;
  while (std::getline(lines, line)) {
    if (line.rfind(series + " ", 0) == 0) {
      return std::stod(line.substr(series.size()));
    }
  }
  return -1;
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
