#include "server/app/tls_credentials.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "grpc/grpc.h"
#include "grpc/grpc_security.h"

namespace attn {
namespace {

class ReloadedCredentials final : public grpc::ServerCredentials {
 public:
  explicit ReloadedCredentials(const CertificateStore& store)
      : store_(store),
        credentials_(grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(
                store.Current()->client_ca.empty()
                    ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                    : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY,
                &ReloadedCredentials::Fetch, this))) {}
  ~ReloadedCredentials() override {
    grpc_server_credentials_release(credentials_);
  }
  ReloadedCredentials(const ReloadedCredentials&) = delete;
  ReloadedCredentials& operator=(const ReloadedCredentials&) = delete;

  // Callers are looked at in CallerReader.
  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {
    std::abort();
  }

 private:
  int AddPortToServer(const std::string& address,
                      grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  // gRPC's, before the socket's first handshake and before each one after it.
  static grpc_ssl_certificate_config_reload_status Fetch(
      void* self, grpc_ssl_server_certificate_config** config) {
    return static_cast<ReloadedCredentials*>(self)->Fetch(*config);
  }

  grpc_ssl_certificate_config_reload_status Fetch(
      grpc_ssl_server_certificate_config*& config) {
    // The version first: a change between the two lines is seen next time.
    const uint64_t version = store_.version();
    if (taken_.exchange(version) == version) {
      return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    }
    const std::shared_ptr<const Certificates> files = store_.Current();
    const grpc_ssl_pem_key_cert_pair pair = {files->key.c_str(),
                                             files->chain.c_str()};
    // gRPC dies without roots, also where no client is asked for a certificate;
    // then it looks at none of them.
    const std::string& roots =
        files->client_ca.empty() ? files->chain : files->client_ca;
    config = grpc_ssl_server_certificate_config_create(roots.c_str(), &pair, 1);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  const CertificateStore& store_;
  // Version of the store that this socket uses; 0: none yet.
  std::atomic<uint64_t> taken_{0};
  grpc_server_credentials* const credentials_;
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> MakeTlsCredentials(
    const CertificateStore& store) {
  return std::make_shared<ReloadedCredentials>(store);
}

}  // namespace attn
