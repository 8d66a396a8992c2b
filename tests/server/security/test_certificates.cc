#include "tests/server/security/test_certificates.h"

#include <memory>

#include "openssl/bio.h"
#include "openssl/evp.h"
#include "openssl/pem.h"
#include "openssl/rand.h"
#include "openssl/x509.h"
#include "openssl/x509v3.h"

namespace attn {
namespace {

constexpr long kDay = 24 * 60 * 60;

std::string Text(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<size_t>(size));
  BIO_free(bio);
  return text;
}

std::string ToPem(X509* certificate) {
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(bio, certificate);
  return Text(bio);
}

std::string ToPem(EVP_PKEY* key) {
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  return Text(bio);
}

void SetSerial(X509* certificate) {
  uint64_t serial = 0;
  RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof(serial));
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial >> 1);
}

void AddExtension(X509* certificate, int nid, const std::string& value) {
  if (value.empty()) return;
  X509_EXTENSION* extension =
      X509V3_EXT_conf_nid(nullptr, nullptr, nid, value.c_str());
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

// Not signed yet.
X509* Draft(EVP_PKEY* key, const std::string& common_name, int days) {
  X509* certificate = X509_new();
  X509_set_version(certificate, X509_VERSION_3);
  SetSerial(certificate);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -2 * kDay);
  X509_gmtime_adj(X509_getm_notAfter(certificate), days * kDay);
  X509_set_pubkey(certificate, key);
  if (!common_name.empty()) {
    X509_NAME_add_entry_by_txt(
        X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
        reinterpret_cast<const unsigned char*>(common_name.data()),
        static_cast<int>(common_name.size()), -1, 0);
  }
  return certificate;
}

}  // namespace

TestAuthority::TestAuthority(const std::string& name)
    : key_(EVP_EC_gen("P-256")), certificate_(Draft(key_, name, 1)) {
  X509_set_issuer_name(certificate_, X509_get_subject_name(certificate_));
  AddExtension(certificate_, NID_basic_constraints, "critical,CA:TRUE");
  X509_sign(certificate_, key_, EVP_sha256());
  pem_ = ToPem(certificate_);
}

TestAuthority::~TestAuthority() {
  X509_free(certificate_);
  EVP_PKEY_free(key_);
}

TestIdentity TestAuthority::Issue(const TestSubject& subject) const {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = Draft(key, subject.common_name, subject.days);
  X509_set_issuer_name(certificate, X509_get_subject_name(certificate_));
  AddExtension(certificate, NID_subject_alt_name, subject.alternative_names);
  X509_sign(certificate, key_, EVP_sha256());
  TestIdentity identity{.chain = ToPem(certificate), .key = ToPem(key)};
  X509_free(certificate);
  EVP_PKEY_free(key);
  return identity;
}

}  // namespace attn
