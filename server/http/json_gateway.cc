#include "server/http/json_gateway.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "boost/asio/post.hpp"
#include "boost/asio/thread_pool.hpp"
#include "engine/runtime/mutex.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"
#include "proto/codec/owned_slice.h"
#include "proto/codec/status_codec.h"
#include "server/http/body_budget.h"
#include "server/http/gateway_metadata.h"
#include "server/http/gateway_route.h"
#include "server/http/http_error.h"
#include "server/rpc/memory_guard.h"

namespace attn {
namespace {

constexpr int kCodingThreads = 2;

// What a request is refused for before its body is looked at.
std::optional<HttpResponse> CheckRoute(const HttpRequest& request,
                                       const GatewayRoute*& route) {
  const std::vector<const GatewayRoute*> routes = RoutesOf(request.path);
  if (routes.empty()) {
    return ErrorResponse(absl::NotFoundError(
        absl::StrCat("path: got ", request.path,
                     ", expected a call such as /v1/attend; see "
                     "server/http/README.md")));
  }
  std::string methods;
  for (const GatewayRoute* candidate : routes) {
    if (candidate->method == request.method) route = candidate;
    absl::StrAppend(&methods, methods.empty() ? "" : ", ", candidate->method);
  }
  if (route == nullptr) {
    return WrongMethod(request.method, methods);
  }
  if (route->has_body() || !request.body.empty()) {
    return RefuseUnlessJson(request);
  }
  return std::nullopt;
}

absl::StatusOr<grpc::ByteBuffer> RequestOf(const GatewayRoute& route,
                                           HttpRequest& request) {
  auto message = EncodeGatewayRequest(route, request);
  if (!message.ok()) return message.status();
  const auto owner = std::make_shared<const std::string>(*std::move(message));
  const grpc::Slice slice = OwnedBy(
      owner, reinterpret_cast<const std::byte*>(owner->data()), owner->size());
  return grpc::ByteBuffer(&slice, 1);
}

std::string TextOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string text;
  if (!buffer.Dump(&slices).ok()) return text;
  text.reserve(buffer.Length());
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

// One call: the exchange, and what gRPC needs until its end.
struct GatewayCall {
  std::shared_ptr<HttpExchange> exchange;
  const GatewayRoute* route = nullptr;
  grpc::ClientContext context;
  grpc::ByteBuffer request;
  grpc::ByteBuffer response;
  // Of the response.
  BodyBudget::Share share;
};

}  // namespace

class JsonGateway::Impl {
 public:
  explicit Impl(const JsonGatewayOptions& options)
      : max_calls_(options.max_calls),
        answers_(options.max_answers_bytes),
        stub_(options.channel) {}
  ~Impl() {
    {
      MutexLock lock(mutex_);
      while (calls_ > 0) ended_.Wait(mutex_);
    }
    pool_->join();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void Handle(std::shared_ptr<HttpExchange> exchange) {
    const GatewayRoute* route = nullptr;
    auto refusal = CheckRoute(exchange->request(), route);
    if (!refusal && !Enter()) {
      refusal = ErrorResponse(absl::ResourceExhaustedError(
          absl::StrCat("as many calls as may be are being made over HTTP (",
                       max_calls_, "); try again")));
    }
    if (refusal) return exchange->Respond(*std::move(refusal));
    boost::asio::post(*pool_, [this, route, exchange = std::move(exchange)] {
      Begin(exchange, *route);
    });
  }

 private:
  bool Enter() {
    const MutexLock lock(mutex_);
    if (calls_ >= max_calls_) return false;
    ++calls_;
    return true;
  }
  void Leave() {
    const MutexLock lock(mutex_);
    --calls_;
    ended_.NotifyAll();
  }

  void Begin(const std::shared_ptr<HttpExchange>& exchange,
             const GatewayRoute& route) {
    auto call = std::make_shared<GatewayCall>();
    call->exchange = exchange;
    call->route = &route;
    absl::Status status = PassOnMetadata(exchange->request(), call->context);
    if (status.ok()) {
      auto message =
          RefusingMemory([&] { return RequestOf(route, exchange->request()); });
      status = message.status();
      if (message.ok()) call->request = *std::move(message);
    }
    if (!status.ok()) {
      exchange->Respond(ErrorResponse(status));
      return Leave();
    }
    Send(std::move(call));
  }
  void Send(std::shared_ptr<GatewayCall> call) {
    // The call may have ended by then: then nothing happens.
    call->exchange->OnGone([weak = std::weak_ptr<GatewayCall>(call)] {
      if (const auto still = weak.lock()) still->context.TryCancel();
    });
    GatewayCall& sent = *call;
    stub_.UnaryCall(&sent.context, sent.route->rpc, grpc::StubOptions(),
                    &sent.request, &sent.response,
                    [this, pool = pool_,
                     call = std::move(call)](grpc::Status status) mutable {
                      status = Keep(*call, std::move(status));
                      boost::asio::post(*pool,
                                        [this, call = std::move(call), status] {
                                          End(*call, status);
                                        });
                    });
  }
  // The server has sent the response, and counts it no more.
  grpc::Status Keep(GatewayCall& call, grpc::Status status) {
    if (!status.ok()) return status;
    const auto size = static_cast<int64_t>(call.response.Length());
    if (answers_.Take(size, call.share)) return status;
    call.response.Clear();
    return ToGrpcStatus(NoRoomForAnswer());
  }
  void End(GatewayCall& call, const grpc::Status& status) {
    if (!status.ok()) {
      call.exchange->Respond(ErrorResponse(status));
      return Leave();
    }
    auto json = RefusingMemory(
        [&] { return GatewayJson(*call.route, TextOf(call.response)); });
    call.response.Clear();
    if (json.ok()) {
      call.exchange->Respond({.status = 200,
                              .headers = {{"Content-Type", "application/json"},
                                          {"Cache-Control", "no-store"}},
                              .body = *std::move(json)});
    } else {
      call.exchange->Respond(ErrorResponse(json.status()));
    }
    Leave();
  }

  const int max_calls_;
  BodyBudget answers_;
  grpc::GenericStub stub_;
  // gRPC's thread may still be about to return from giving it the last end of a
  // call when that is through.
  const std::shared_ptr<boost::asio::thread_pool> pool_ =
      std::make_shared<boost::asio::thread_pool>(kCodingThreads);
  Mutex mutex_;
  CondVar ended_;
  int calls_ ATTN_GUARDED_BY(mutex_) = 0;
};

JsonGateway::JsonGateway(const JsonGatewayOptions& options)
    : impl_(std::make_unique<Impl>(options)) {}

JsonGateway::~JsonGateway() = default;

void JsonGateway::Handle(std::shared_ptr<HttpExchange> exchange) {
  impl_->Handle(std::move(exchange));
}

}  // namespace attn
