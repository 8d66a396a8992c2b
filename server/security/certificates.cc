#include "server/security/certificates.h"

#include <ctime>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "openssl/bio.h"
#include "openssl/err.h"
#include "openssl/pem.h"
#include "openssl/ssl.h"
#include "openssl/x509.h"
#include "server/security/secret_file.h"

namespace attn {
namespace {

struct Deleter {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
template <typename T>
using Owned = std::unique_ptr<T, Deleter>;

absl::Status Bad(absl::string_view flag, const std::string& path,
                 absl::string_view what) {
  return absl::FailedPreconditionError(
      absl::StrCat("--", flag, "=", path, ": ", what));
}

// The last of OpenSSL's errors of this thread, all of which are forgotten.
std::string OpenSslError() {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return reason == nullptr ? "unknown" : reason;
}

Owned<BIO> Memory(absl::string_view text) {
  return Owned<BIO>(
      BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

Owned<X509> NextCertificate(BIO* bio) {
  return Owned<X509>(PEM_read_bio_X509(bio, nullptr, nullptr, nullptr));
}

// Nobody is there to be asked for a key's password.
int NoPassword(char*, int, int, void*) { return 0; }

absl::StatusOr<std::string> Read(absl::string_view flag,
                                 const std::string& path, bool* open_to_all) {
  auto file = ReadSecretFile(path);
  if (!file.ok()) return Bad(flag, path, file.status().message());
  if (open_to_all != nullptr) *open_to_all = file->open_to_all;
  return std::move(file->text);
}

absl::Status CheckCertificates(absl::string_view flag, const std::string& path,
                               const std::string& text) {
  const Owned<BIO> bio = Memory(text);
  int count = 0;
  while (NextCertificate(bio.get()) != nullptr) ++count;
  const bool at_end =
      ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  const std::string why = OpenSslError();
  if (count == 0) return Bad(flag, path, "holds no PEM certificate");
  if (!at_end) {
    return Bad(flag, path, absl::StrCat("certificate ", count + 1, ": ", why));
  }
  return absl::OkStatus();
}

absl::Status CheckPair(const CertificatePaths& paths,
                       const Certificates& loaded) {
  const Owned<X509> certificate = NextCertificate(Memory(loaded.chain).get());
  const Owned<EVP_PKEY> key(PEM_read_bio_PrivateKey(
      Memory(loaded.key).get(), nullptr, NoPassword, nullptr));
  ERR_clear_error();
  if (key == nullptr) {
    return Bad("tls-key", paths.key,
               "holds no PEM private key that opens without a password");
  }
  const Owned<SSL_CTX> context(SSL_CTX_new(TLS_method()));
  if (SSL_CTX_use_certificate(context.get(), certificate.get()) != 1) {
    return Bad("tls-cert", paths.certificate, OpenSslError());
  }
  if (SSL_CTX_use_PrivateKey(context.get(), key.get()) != 1 ||
      SSL_CTX_check_private_key(context.get()) != 1) {
    ERR_clear_error();
    return Bad(
        "tls-key", paths.key,
        absl::StrCat("is not the key of --tls-cert=", paths.certificate));
  }
  return absl::OkStatus();
}

absl::Time TimeOf(const ASN1_TIME* time) {
  std::tm fields{};
  if (ASN1_TIME_to_tm(time, &fields) != 1) return absl::InfiniteFuture();
  return absl::FromTM(fields, absl::UTCTimeZone());
}

}  // namespace

absl::StatusOr<Certificates> LoadCertificates(const CertificatePaths& paths) {
  Certificates loaded;
  auto chain = Read("tls-cert", paths.certificate, nullptr);
  if (!chain.ok()) return chain.status();
  loaded.chain = *std::move(chain);
  auto key = Read("tls-key", paths.key, &loaded.key_open_to_all);
  if (!key.ok()) return key.status();
  loaded.key = *std::move(key);
  absl::Status status =
      CheckCertificates("tls-cert", paths.certificate, loaded.chain);
  if (status.ok()) status = CheckPair(paths, loaded);
  if (!status.ok()) return status;
  if (paths.client_ca.empty()) return loaded;
  auto client_ca = Read("tls-client-ca", paths.client_ca, nullptr);
  if (!client_ca.ok()) return client_ca.status();
  loaded.client_ca = *std::move(client_ca);
  status =
      CheckCertificates("tls-client-ca", paths.client_ca, loaded.client_ca);
  if (!status.ok()) return status;
  return loaded;
}

std::string DescribeCertificate(absl::string_view chain) {
  const Owned<X509> certificate = NextCertificate(Memory(chain).get());
  const Owned<BIO> subject(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(subject.get(), X509_get_subject_name(certificate.get()), 0,
                     XN_FLAG_ONELINE & ~ASN1_STRFLGS_ESC_MSB);
  char* text = nullptr;
  const auto size = static_cast<size_t>(BIO_get_mem_data(subject.get(), &text));
  const absl::Time until = TimeOf(X509_get0_notAfter(certificate.get()));
  return absl::StrCat(
      absl::string_view(text, size), ", ",
      until < absl::Now() ? "EXPIRED since " : "until ",
      absl::FormatTime("%Y-%m-%d %H:%M:%SZ", until, absl::UTCTimeZone()));
}

}  // namespace attn
