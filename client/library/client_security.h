// How a client trusts a server, and what it shows to be trusted.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/security/credentials.h"

namespace attn {

// Files are read once, when the client connects. A value.
struct ClientSecurity {
  // PEM file of the CAs that may have signed the server's certificate, or
  // "system": those that this machine trusts. Empty: no TLS. unix: addresses
  // are never TLS.
  std::string tls_ca{};
  // PEM files to show to a server that asks for a certificate; both or none.
  std::string tls_cert{};
  std::string tls_key{};
  // Whom the server's certificate must be for, where that is not the host of
  // the address.
  std::string tls_server_name{};
  // Sent with every call, as "authorization: Bearer ...". At most one of them.
  std::string token{};
  std::string token_file{};
  // Send it also in plain text over a network. By default it leaves the machine
  // only under TLS.
  bool allow_plaintext_token = false;
};

// What a channel is made with. A value; its copies share the credentials.
struct ChannelSecurity {
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  // Of the metadata `authorization`; empty: none is sent.
  std::string authorization;
  // A token is about to be sent in plain text, to this machine.
  bool plain_token = false;
};

// INVALID_ARGUMENT names the field that cannot be used; it never holds a token.
absl::StatusOr<ChannelSecurity> OpenSecurity(const ClientSecurity& security,
                                             const std::string& address);

}  // namespace attn
