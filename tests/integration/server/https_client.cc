#include "tests/integration/server/https_client.h"

#include <array>
#include <chrono>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/write.hpp"
#include "boost/beast/http.hpp"
#include "openssl/ssl.h"
#include "openssl/x509.h"

namespace attn {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr std::chrono::seconds kLongestStep(60);

// Whom it trusts, and what it shows.
asio::ssl::context& Prepared(asio::ssl::context& context,
                             const TestCaller& caller) {
  context.add_certificate_authority(asio::buffer(caller.ca));
  context.set_verify_mode(asio::ssl::verify_peer);
  if (!caller.identity.chain.empty()) {
    context.use_certificate_chain(asio::buffer(caller.identity.chain));
    context.use_private_key(asio::buffer(caller.identity.key),
                            asio::ssl::context::pem);
  }
  return context;
}

}  // namespace

HttpsClient::HttpsClient(int port, const TestCaller& caller)
    : authorization_(caller.authorization),
      stream_(io_, Prepared(context_, caller)) {
  auto& socket = boost::beast::get_lowest_layer(stream_);
  socket.expires_after(kLongestStep);
  socket.async_connect(
      {asio::ip::address_v4::loopback(), static_cast<uint16_t>(port)},
      [this](error_code error) { error_ = error; });
  if (!Run()) return;
  stream_.async_handshake(asio::ssl::stream_base::client,
                          [this](error_code error) { error_ = error; });
  connected_ = Run();
}

HttpReply HttpsClient::Call(const HttpCall& call) {
  HttpCall full = call;
  if (!authorization_.empty()) {
    full.headers.push_back(absl::StrCat("Authorization: ", authorization_));
  }
  if (!connected_) return {};
  boost::beast::get_lowest_layer(stream_).expires_after(kLongestStep);
  const std::string text = RequestText(full);
  asio::async_write(stream_, asio::buffer(text),
                    [this](error_code error, size_t) { error_ = error; });
  if (!Run()) return {};
  http::response<http::string_body> response;
  http::async_read(stream_, buffer_, response,
                   [this](error_code error, size_t) { error_ = error; });
  if (!Run()) return {};
  HttpReply reply;
  reply.status = response.result_int();
  for (const auto& field : response) {
    const auto name = field.name_string();
    const auto value = field.value();
    reply.headers[absl::AsciiStrToLower({name.data(), name.size()})] =
        std::string(value.data(), value.size());
  }
  reply.body = response.body();
  return reply;
}

std::string HttpsClient::peer() {
  const std::unique_ptr<X509, void (*)(X509*)> certificate(
      SSL_get1_peer_certificate(stream_.native_handle()), X509_free);
  if (certificate == nullptr) return "";
  std::array<char, 256> name{};
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate.get()),
                            NID_commonName, name.data(), name.size());
  return name.data();
}

bool HttpsClient::Run() {
  io_.restart();
  io_.run();
  return !error_;
}

}  // namespace attn
