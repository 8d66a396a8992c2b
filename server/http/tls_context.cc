#include "server/http/tls_context.h"

#include "boost/asio/buffer.hpp"
#include "openssl/ssl.h"
#include "openssl/x509v3.h"

namespace attn {
namespace {

namespace ssl = boost::asio::ssl;

struct FreeX509 {
  void operator()(X509* certificate) const { X509_free(certificate); }
};
struct FreeNames {
  void operator()(GENERAL_NAMES* names) const { GENERAL_NAMES_free(names); }
};

// In UTF-8, whatever it is written in, as gRPC has it.
std::string TextOf(const ASN1_STRING* text) {
  unsigned char* utf8 = nullptr;
  const int size = ASN1_STRING_to_UTF8(&utf8, text);
  if (size < 0) return "";
  std::string copy(reinterpret_cast<const char*>(utf8),
                   static_cast<size_t>(size));
  OPENSSL_free(utf8);
  return copy;
}

// The first alternative name of a kind.
std::string AlternativeName(X509* certificate, int kind) {
  const std::unique_ptr<GENERAL_NAMES, FreeNames> names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(
          certificate, NID_subject_alt_name, nullptr, nullptr)));
  if (names == nullptr) return "";
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    // A DNS name and a URI are both an IA5String in the same union.
    if (name->type == kind) return TextOf(name->d.ia5);
  }
  return "";
}

std::string CommonName(X509* certificate) {
  X509_NAME* subject = X509_get_subject_name(certificate);
  const int place = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (place < 0) return "";
  return TextOf(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, place)));
}

std::unique_ptr<X509, FreeX509> PeerCertificate(SSL* connection) {
  return std::unique_ptr<X509, FreeX509>(SSL_get1_peer_certificate(connection));
}

std::shared_ptr<ssl::context> MakeContext(const Certificates& files) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  context->set_options(ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1);
  context->use_certificate_chain(boost::asio::buffer(files.chain));
  context->use_private_key(boost::asio::buffer(files.key), ssl::context::pem);
  if (!files.client_ca.empty()) {
    context->add_certificate_authority(boost::asio::buffer(files.client_ca));
    context->set_verify_mode(ssl::verify_peer);
    // A session that is taken up again needs a name to belong to.
    static constexpr unsigned char kSessionId[] = "attn";
    SSL_CTX_set_session_id_context(context->native_handle(), kSessionId,
                                   sizeof(kSessionId) - 1);
  }
  return context;
}

}  // namespace

std::shared_ptr<ssl::context> TlsContexts::Current() {
  // The version first: a change between the two lines is seen next time.
  const uint64_t version = store_.version();
  if (version == version_) return context_;
  context_ = MakeContext(*store_.Current());
  version_ = version;
  return context_;
}

bool IsVerifiedPeer(SSL* connection) {
  return PeerCertificate(connection) != nullptr &&
         SSL_get_verify_result(connection) == X509_V_OK;
}

std::string VerifiedPeerName(SSL* connection) {
  if (!IsVerifiedPeer(connection)) return "";
  const auto certificate = PeerCertificate(connection);
  std::string name = AlternativeName(certificate.get(), GEN_URI);
  if (name.empty()) name = AlternativeName(certificate.get(), GEN_DNS);
  return name.empty() ? CommonName(certificate.get()) : name;
}

}  // namespace attn
