#include "server/http/http_listener.h"

#include <chrono>
#include <exception>
#include <new>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/ip/v6_only.hpp"
#include "boost/asio/post.hpp"
#include "boost/asio/steady_timer.hpp"
#include "boost/asio/strand.hpp"
#include "server/http/http_connection.h"
#include "server/http/tls_context.h"

namespace attn {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// One that waits for the disk, as a handler must not, would still leave one.
constexpr int kThreads = 2;
// Before the next try, where no socket could be had.
constexpr std::chrono::milliseconds kAcceptPause(100);

// The socket that waits for connections of one endpoint. Runs on one strand.
class AcceptLoop : public std::enable_shared_from_this<AcceptLoop> {
 public:
  AcceptLoop(asio::io_context& io, const HttpListenerOptions& options,
             ConnectionHub& hub)
      : io_(io),
        max_connections_(options.max_connections),
        hub_(hub),
        acceptor_(asio::make_strand(io)),
        pause_(acceptor_.get_executor()) {
    if (options.certificates != nullptr) {
      contexts_ = std::make_unique<TlsContexts>(*options.certificates);
    }
  }

  error_code Listen(const tcp::endpoint& endpoint) {
    error_code error;
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error && endpoint.protocol() == tcp::v6()) {
      acceptor_.set_option(asio::ip::v6_only(true), error);
    }
    if (!error) acceptor_.bind(endpoint, error);
    if (!error)
      acceptor_.listen(asio::socket_base::max_listen_connections, error);
    return error;
  }
  int port() const { return acceptor_.local_endpoint().port(); }

  void Accept() {
    acceptor_.async_accept(
        asio::make_strand(io_),
        [self = shared_from_this()](error_code error, tcp::socket socket) {
          self->OnAccepted(error, std::move(socket));
        });
  }
  void Close() {
    asio::post(acceptor_.get_executor(), [self = shared_from_this()] {
      error_code ignored;
      self->acceptor_.close(ignored);
      self->pause_.cancel();
    });
  }

 private:
  void OnAccepted(error_code error, tcp::socket socket) {
    if (!acceptor_.is_open()) return;
    if (error) {
      pause_.expires_after(kAcceptPause);
      pause_.async_wait([self = shared_from_this()](error_code) {
        if (self->acceptor_.is_open()) self->Accept();
      });
      return;
    }
    if (hub_.connections() >= max_connections_) {
      TellBusy(socket);
    } else {
      Serve(std::move(socket));
    }
    Accept();
  }
  void Serve(tcp::socket socket) {
    try {
      ServeConnection(std::move(socket),
                      contexts_ ? contexts_->Current() : nullptr, hub_);
    } catch (const std::exception&) {
      // Memory, or a certificate that the TLS library does not take after all:
      // this connection is closed, the next one may fare better.
    }
  }
  void TellBusy(tcp::socket& socket) const {
    static constexpr char kBusy[] =
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n"
        "Content-Length: 0\r\nConnection: close\r\n\r\n";
    error_code ignored;
    socket.non_blocking(true, ignored);
    if (contexts_ == nullptr) {
      socket.send(asio::buffer(kBusy, sizeof(kBusy) - 1), 0, ignored);
    }
  }

  asio::io_context& io_;
  const int max_connections_;
  ConnectionHub& hub_;
  std::unique_ptr<TlsContexts> contexts_;
  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
};

class BeastListener final : public HttpListener {
 public:
  BeastListener(const HttpListenerOptions& options, HttpHandler handler)
      : hub_({std::move(handler), options.max_body_bytes,
              options.max_bodies_bytes, options.max_answers_bytes,
              options.patience}) {}
  ~BeastListener() override { Stop(absl::ZeroDuration()); }
  BeastListener(const BeastListener&) = delete;
  BeastListener& operator=(const BeastListener&) = delete;

  absl::Status Listen(const HttpListenerOptions& options) {
    for (const HttpListenerOptions::Endpoint& endpoint : options.endpoints) {
      error_code error;
      const auto address = asio::ip::make_address(endpoint.host, error);
      auto loop = std::make_shared<AcceptLoop>(io_, options, hub_);
      if (!error) {
        error = loop->Listen({address, static_cast<uint16_t>(endpoint.port)});
      }
      if (error) {
        return absl::FailedPreconditionError(absl::StrCat(
            endpoint.host, ":", endpoint.port, ": ", error.message()));
      }
      ports_.push_back(loop->port());
      loops_.push_back(std::move(loop));
    }
    for (const auto& loop : loops_) loop->Accept();
    for (int i = 0; i < kThreads; ++i) {
      threads_.emplace_back([this] { Run(); });
    }
    return absl::OkStatus();
  }

  const std::vector<int>& ports() const override { return ports_; }
  void Stop(absl::Duration patience) override {
    for (const auto& loop : loops_) loop->Close();
    loops_.clear();
    if (threads_.empty()) return;
    hub_.Stop(patience);
    work_.reset();
    // What is left waits for nobody: every connection has been aborted.
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  void Run() {
    while (true) {
      try {
        io_.run();
        return;
      } catch (const std::bad_alloc&) {
        // Whose turn it was is dropped; others may fare better.
      }
    }
  }

  // First: what the context still holds when it goes uses the hub.
  ConnectionHub hub_;
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{
      io_.get_executor()};
  std::vector<std::shared_ptr<AcceptLoop>> loops_;
  std::vector<int> ports_;
  std::vector<std::thread> threads_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpListener>> HttpListener::Start(
    const HttpListenerOptions& options, HttpHandler handler) {
  auto listener = std::make_unique<BeastListener>(options, std::move(handler));
  const absl::Status status = listener->Listen(options);
  if (!status.ok()) return status;
  return listener;
}

}  // namespace attn
