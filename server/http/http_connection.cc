#include "server/http/http_connection.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "boost/asio/dispatch.hpp"
#include "boost/asio/post.hpp"
#include "boost/asio/steady_timer.hpp"
#include "boost/beast/core.hpp"
#include "boost/beast/http.hpp"
#include "boost/beast/ssl.hpp"
#include "server/http/connection_exchange.h"
#include "server/http/http_error.h"
#include "server/http/request_target.h"
#include "server/http/tls_context.h"

namespace attn {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using PlainStream = beast::tcp_stream;
using TlsStream = beast::ssl_stream<beast::tcp_stream>;

constexpr uint32_t kMaxHeaderBytes = 16 << 10;
constexpr size_t kWatchBytes = 4096;
// Of what a refused client still sends: closing at once would make its system
// throw our answer away.
constexpr size_t kLingerBytes = size_t{1} << 20;
constexpr std::chrono::seconds kLingerTime(2);
constexpr int64_t kBytesPerSecond = int64_t{1} << 20;
// So much each connection may keep without being asked, as it does to read.
constexpr int64_t kSmallAnswer = int64_t{64} << 10;
constexpr int kNoContentStatus = 204;
constexpr int kNotModifiedStatus = 304;

HttpRequest ReadRequest(http::request<http::string_body>& message) {
  HttpRequest request;
  request.method = std::string(message.method_string());
  ReadTarget({message.target().data(), message.target().size()}, request);
  for (const auto& field : message) {
    const std::string name = absl::AsciiStrToLower(absl::string_view(
        field.name_string().data(), field.name_string().size()));
    std::string& value = request.headers[name];
    if (!value.empty()) value += ", ";
    value.append(field.value().data(), field.value().size());
  }
  request.body = std::move(message.body());
  return request;
}

// Everything but the constructor runs on the stream's strand.
template <typename Stream>
class Connection final
    : public OpenConnection,
      public Answerable,
      public std::enable_shared_from_this<Connection<Stream>> {
 public:
  Connection(Stream stream, std::shared_ptr<asio::ssl::context> context,
             ConnectionHub& hub)
      : context_(std::move(context)),
        stream_(std::move(stream)),
        hub_(hub),
        idle_(stream_.get_executor()) {}
  ~Connection() override {
    End();
    if (entered_) hub_.Leave(place_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void Start() {
    place_ = hub_.Enter(this->weak_from_this());
    entered_ = true;
    asio::dispatch(stream_.get_executor(), Bound(&Connection::Begin));
  }
  void CloseWhenIdle() override {
    asio::post(stream_.get_executor(), [self = Self()] {
      if (!self->owed_) self->Drop();
    });
  }
  void Abort() override {
    asio::post(stream_.get_executor(), [self = Self()] {
      if (const auto exchange = self->exchange_.lock()) exchange->Leave();
      self->Drop();
    });
  }
  void Answer(HttpResponse response) override {
    asio::post(stream_.get_executor(),
               [self = Self(), response = std::move(response)]() mutable {
                 self->Write(std::move(response));
               });
  }

 private:
  static constexpr bool kTls = std::is_same_v<Stream, TlsStream>;

  std::shared_ptr<Connection> Self() { return this->shared_from_this(); }
  // A callback that keeps the connection.
  template <typename... Args>
  auto Bound(void (Connection::*method)(Args...)) {
    return beast::bind_front_handler(method, Self());
  }
  PlainStream& socket() { return beast::get_lowest_layer(stream_); }
  // For so many bytes, from now on.
  void Allow(int64_t bytes = 0) {
    socket().expires_after(absl::ToChronoNanoseconds(
        hub_.options().patience + absl::Seconds(bytes / kBytesPerSecond)));
  }

  void Begin() {
    if (hub_.stopping()) return Drop();
    error_code ignored;
    socket().socket().set_option(asio::ip::tcp::no_delay(true), ignored);
    if constexpr (kTls) {
      Allow();
      stream_.async_handshake(asio::ssl::stream_base::server,
                              Bound(&Connection::OnHandshake));
    } else {
      ReadHeader();
    }
  }
  void OnHandshake(error_code error) {
    if (!error) ReadHeader();
  }

  void ReadHeader() {
    if (hub_.stopping()) return Drop();
    parser_.emplace();
    parser_->header_limit(kMaxHeaderBytes);
    parser_->body_limit(static_cast<uint64_t>(hub_.options().max_body_bytes));
    Allow();
    http::async_read_header(stream_, buffer_, *parser_,
                            Bound(&Connection::OnHeader));
  }
  void OnHeader(error_code error, size_t) {
    if (error == http::error::body_limit) {
      return Refuse(413, absl::ResourceExhaustedError(absl::StrCat(
                             "body: got more than the most bytes of a "
                             "request, expected at most ",
                             hub_.options().max_body_bytes)));
    }
    if (error == http::error::header_limit) {
      return Refuse(431, absl::InvalidArgumentError(absl::StrCat(
                             "headers: got more, expected at most ",
                             kMaxHeaderBytes, " bytes")));
    }
    if (error == http::error::end_of_stream ||
        (error &&
         error.category() !=
             http::make_error_code(http::error::bad_method).category())) {
      return Drop();
    }
    if (error) {
      return Refuse(400, absl::InvalidArgumentError(absl::StrCat(
                             "got bytes that are no request of HTTP/1.1: ",
                             error.message())));
    }
    if (parser_->get().count(http::field::transfer_encoding) > 0) {
      return Refuse(411, absl::InvalidArgumentError(
                             "Content-Length: got Transfer-Encoding, such as a "
                             "chunked body has, expected the body's length"));
    }
    const auto length =
        static_cast<int64_t>(parser_->content_length().value_or(0));
    if (!hub_.bodies().Take(length, share_)) {
      return Refuse(429, absl::ResourceExhaustedError(
                             "the bodies of other requests take all the memory "
                             "that there is for them; try again"));
    }
    if (beast::iequals(parser_->get()[http::field::expect], "100-continue")) {
      return Continue(length);
    }
    ReadBody(length);
  }
  void Continue(int64_t length) {
    continue_ = {http::status::continue_, 11};
    http::async_write(stream_, continue_,
                      [self = Self(), length](error_code error, size_t) {
                        if (error) return self->Drop();
                        self->ReadBody(length);
                      });
  }
  void ReadBody(int64_t length) {
    Allow(length);
    http::async_read(stream_, buffer_, *parser_, Bound(&Connection::OnBody));
  }
  void OnBody(error_code error, size_t) {
    // What had been read already when the connection was closed is not begun.
    if (error || broken_) return Drop();
    Handle();
  }

  void Handle() {
    auto message = parser_->release();
    keep_alive_ = message.keep_alive();
    only_header_ = message.method() == http::verb::head;
    HttpRequest request = ReadRequest(message);
    if constexpr (kTls) {
      request.certified = IsVerifiedPeer(stream_.native_handle());
      request.certificate_name = VerifiedPeerName(stream_.native_handle());
    }
    auto exchange =
        std::make_shared<ConnectionExchange>(std::move(request), Self());
    exchange_ = exchange;
    Owe();
    socket().expires_never();
    Watch();
    hub_.options().handler(std::move(exchange));
  }

  void Owe() {
    hub_.RequestBegun();
    owed_ = true;
  }

  // Reads ahead, so as to see the client leave.
  void Watch() {
    if (buffer_.size() > 0) return;
    watching_ = true;
    stream_.async_read_some(buffer_.prepare(kWatchBytes),
                            Bound(&Connection::OnWatched));
  }
  void OnWatched(error_code error, size_t size) {
    watching_ = false;
    idle_.cancel();
    buffer_.commit(size);
    const bool next = std::exchange(wants_next_, false);
    if (!error) {
      if (next) ReadHeader();
      return;
    }
    broken_ = true;
    if (const auto exchange = exchange_.lock()) exchange->Leave();
  }

  void Write(HttpResponse answer) {
    if (broken_) return End();
    share_ = {};
    auto size = static_cast<int64_t>(answer.body.size());
    if (size > kSmallAnswer && !hub_.answers().Take(size, share_)) {
      answer = ErrorResponse(NoRoomForAnswer());
      size = static_cast<int64_t>(answer.body.size());
    }
    response_ = {static_cast<http::status>(answer.status), 11};
    for (const auto& [name, value] : answer.headers) {
      response_.insert(name, value);
    }
    keep_alive_ = keep_alive_ && !hub_.stopping();
    response_.keep_alive(keep_alive_);
    response_.body() = std::move(answer.body);
    response_.prepare_payload();
    // RFC 9110, section 8.6: what has no body by its status tells no length, or
    // that of another answer.
    if (answer.status == kNoContentStatus ||
        answer.status == kNotModifiedStatus) {
      response_.erase(http::field::content_length);
    }
    Allow(size);
    serializer_.emplace(response_);
    if (only_header_) {
      http::async_write_header(stream_, *serializer_,
                               Bound(&Connection::OnWritten));
    } else {
      http::async_write(stream_, *serializer_, Bound(&Connection::OnWritten));
    }
  }
  void OnWritten(error_code error, size_t) {
    End();
    if (error || broken_) return Drop();
    if (!keep_alive_) return Linger();
    if (watching_) return AwaitNext();
    ReadHeader();
  }
  // The watch has no end of its own: it was begun while the client waited.
  void AwaitNext() {
    wants_next_ = true;
    idle_.expires_after(absl::ToChronoNanoseconds(hub_.options().patience));
    idle_.async_wait([weak = this->weak_from_this()](error_code error) {
      const auto self = weak.lock();
      if (error || self == nullptr || !self->wants_next_) return;
      // It may have been set anew since.
      if (self->idle_.expiry() <= asio::steady_timer::clock_type::now()) {
        self->Drop();
      }
    });
  }
  // Nothing is owed any more.
  void End() {
    share_ = {};
    exchange_.reset();
    serializer_.reset();
    response_ = {};
    if (std::exchange(owed_, false)) hub_.RequestEnded();
  }

  // Answers a request whose body is not read.
  void Refuse(int status, const absl::Status& error) {
    HttpResponse response = ErrorResponse(error);
    response.status = status;
    keep_alive_ = false;
    only_header_ = false;
    Owe();
    Write(std::move(response));
  }

  // Lets the client read the answer to its end.
  void Linger() {
    error_code ignored;
    if (watching_) return Drop();
    socket().socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    socket().expires_after(kLingerTime);
    Discard();
  }
  void Discard() {
    buffer_.clear();
    socket().async_read_some(buffer_.prepare(kWatchBytes),
                             Bound(&Connection::OnDiscarded));
  }
  void OnDiscarded(error_code error, size_t size) {
    discarded_ += size;
    if (!error && discarded_ < kLingerBytes) Discard();
  }

  void Drop() {
    broken_ = true;
    idle_.cancel();
    error_code ignored;
    socket().socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
    socket().close();
  }

  const std::shared_ptr<asio::ssl::context> context_;
  Stream stream_;
  ConnectionHub& hub_;
  // Until the next request has begun.
  asio::steady_timer idle_;
  ConnectionHub::Place place_;
  bool entered_ = false;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  // Of the body, then of the answer.
  BodyBudget::Share share_;
  std::weak_ptr<ConnectionExchange> exchange_;
  http::response<http::empty_body> continue_;
  http::response<http::string_body> response_;
  std::optional<http::response_serializer<http::string_body>> serializer_;
  bool owed_ = false;
  bool keep_alive_ = false;
  bool only_header_ = false;
  bool watching_ = false;
  // The next request is read once the watch ends.
  bool wants_next_ = false;
  bool broken_ = false;
  size_t discarded_ = 0;
};

}  // namespace

void ServeConnection(asio::ip::tcp::socket socket,
                     std::shared_ptr<asio::ssl::context> context,
                     ConnectionHub& hub) {
  if (context == nullptr) {
    std::make_shared<Connection<PlainStream>>(PlainStream(std::move(socket)),
                                              nullptr, hub)
        ->Start();
    return;
  }
  TlsStream stream(std::move(socket), *context);
  std::make_shared<Connection<TlsStream>>(std::move(stream), std::move(context),
                                          hub)
      ->Start();
}

}  // namespace attn
