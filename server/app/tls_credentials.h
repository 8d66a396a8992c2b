// gRPC's server side of TLS, with certificates that change while it runs.
#pragma once

#include <memory>

#include "grpcpp/security/server_credentials.h"
#include "server/security/certificates.h"

namespace attn {

// Credentials for one listening socket: each new handshake takes what `store`
// holds then, connections that stand are not touched. If the store has a client
// CA at first, clients must show a certificate that it signed.
//
// gRPC's own file watcher would take a certificate and a key that do not fit
// each other, as they are between the two renames of a rotation, and then fail
// every handshake until it looks again. And gRPC swaps these credentials
// without a lock, on the thread that accepts: never share them between sockets.
//
// They must outlive the server, and `store` must outlive them.
std::shared_ptr<grpc::ServerCredentials> MakeTlsCredentials(
    const CertificateStore& store);

}  // namespace attn
