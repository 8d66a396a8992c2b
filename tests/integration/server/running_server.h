// A real server in this process, and a generated stub to talk to it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "attention/v1/attention.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "server/app/server.h"

namespace attn {

namespace wire = ::attention::v1;

// A port of its own, no metrics (their server takes two seconds to close), no
// drain delay.
ServerOptions TestOptions();
ServerOptions TestOptionsWithMetrics();

// Asks every 2 ms, for a minute. False: it did not come true.
bool Becomes(const std::function<bool()>& is_so);

class RunningServer {
 public:
  // Dies if the server does not start. Its log is silent.
  explicit RunningServer(const ServerOptions& options = TestOptions());
  // Its log goes to `sink`, which must outlive it.
  RunningServer(const ServerOptions& options, LineLog::Sink sink);

  Server& server() { return *server_; }
  const std::string& address() const { return server_->grpc_addresses()[0]; }
  std::shared_ptr<grpc::Channel> Connect() const { return Connect(address()); }
  static std::shared_ptr<grpc::Channel> Connect(const std::string& address);
  wire::AttentionService::Stub& stub() { return *stub_; }

  grpc::Status Attend(const wire::AttendRequest& request,
                      wire::AttendResponse* response);
  // The page that a scraper gets.
  std::string Metrics() const;
  // -1: there is no such series.
  double MetricValue(const std::string& series) const;
  // Waits, up to a minute, until it is at least `least`, and gives it: a call
  // is counted after its reply is on its way.
  double MetricReaching(const std::string& series, double least) const;
  // As MetricReaching, until it is `value`.
  double MetricBecoming(const std::string& series, double value) const;
  // Stops it, as SIGTERM does.
  void Stop() { server_->Stop(); }

 private:
  LineLog log_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<wire::AttentionService::Stub> stub_;
};

struct TestShape {
  int64_t batch = 1;
  int64_t q_heads = 2;
  int64_t kv_heads = 2;
  int64_t q_length = 5;
  int64_t kv_length = 7;
  int64_t dim = 8;
};

// Values in [-1, 1), the same for the same seed.
std::vector<float> RandomFloats(int64_t count, uint32_t seed);
wire::Tensor FloatTensor(const std::vector<int64_t>& shape,
                         const std::vector<float>& values);
wire::AttendRequest RandomRequest(const TestShape& shape, uint32_t seed);
// A request that keeps a worker busy for seconds: cancel it.
wire::AttendRequest SlowRequest();
std::vector<float> Floats(const wire::Tensor& tensor);

}  // namespace attn
