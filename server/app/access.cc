#include "server/app/access.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/app/listen_address.h"
#include "server/security/secret_file.h"
#include "server/security/token_digest.h"
#include "server/security/token_file.h"

namespace attn {
namespace {

TenantQuota DefaultQuota(const ServerOptions& options) {
  return {.max_requests = options.tenant_max_requests,
          .max_inflight_bytes = options.tenant_max_inflight_bytes};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Access>> Access::Open(
    const ServerOptions& options, const LineLog& log) {
  std::unique_ptr<Access> access(new Access(options, log));
  absl::Status status = access->OpenFiles();
  if (!status.ok()) return status;
  return access;
}

absl::Status Access::OpenFiles() {
  if (!options_.tls_cert.empty()) {
    auto certificates = CertificateStore::Open([this] {
      return LoadCertificates({.certificate = options_.tls_cert,
                               .key = options_.tls_key,
                               .client_ca = options_.tls_client_ca});
    });
    if (!certificates.ok()) return certificates.status();
    certificates_ = *std::move(certificates);
  }
  if (!options_.auth_token_file.empty()) {
    auto tokens = TokenStore::Open([this] { return ReadTokens(); });
    if (!tokens.ok()) return tokens.status();
    tokens_ = *std::move(tokens);
  }
  const bool mutual = !options_.tls_client_ca.empty();
  if (tokens_ != nullptr || mutual || DefaultQuota(options_).limits()) {
    authenticator_ = std::make_unique<Authenticator>(
        AuthenticatorOptions{.tokens = tokens_.get(),
                             .certificates = mutual,
                             .default_quota = DefaultQuota(options_)});
  }
  if (certificates_ != nullptr || tokens_ != nullptr) {
    look_ = std::make_unique<PeriodicTask>(options_.tls_reload,
                                           [this] { LookAtFiles(); });
  }
  return absl::OkStatus();
}

absl::StatusOr<BearerTokens> Access::ReadTokens() {
  const auto named = [this](const absl::Status& status) {
    return absl::Status(status.code(), absl::StrCat("--auth-token-file=",
                                                    options_.auth_token_file,
                                                    ": ", status.message()));
  };
  auto file = ReadSecretFile(options_.auth_token_file);
  if (!file.ok()) return named(file.status());
  auto tokens = ParseTokenFile(file->text, DefaultQuota(options_));
  Wipe(file->text);
  if (!tokens.ok()) return named(tokens.status());
  tokens->open_to_all = file->open_to_all;
  return tokens;
}

void Access::LookAtFiles() {
  if (certificates_ != nullptr) {
    const auto changed = certificates_->Reload();
    TellOnce(changed.status(), told_of_certificates_);
    if (changed.ok() && *changed) LogCertificates("TLS, read anew");
  }
  if (tokens_ != nullptr) {
    const auto changed = tokens_->Reload();
    TellOnce(changed.status(), told_of_tokens_);
    if (changed.ok() && *changed) LogTokens("tokens, read anew");
  }
}

void Access::TellOnce(const absl::Status& status, std::string& told) const {
  const std::string message(status.message());
  if (!status.ok() && message != told) {
    log_.Error(absl::StrCat(message, "; what was read before stays in force"));
  }
  told = message;
}

void Access::LogStart() const {
  if (certificates_ != nullptr) LogCertificates("TLS");
  if (tokens_ == nullptr) return;
  LogTokens("tokens");
  WarnOfPlainTokens();
}

void Access::LogCertificates(absl::string_view event) const {
  const auto files = certificates_->Current();
  log_.Info(absl::StrCat(
      event, ": ", DescribeCertificate(files->chain),
      files->client_ca.empty() ? "" : "; clients must show a certificate"));
  if (files->key_open_to_all) {
    log_.Warning(absl::StrCat("--tls-key=", options_.tls_key,
                              " can be read by every user of this machine"));
  }
}

void Access::LogTokens(absl::string_view event) const {
  const auto tokens = tokens_->Current();
  log_.Info(absl::StrCat(event, ": ", tokens->tokens(), " of ",
                         tokens->tenants(), " tenants in ",
                         options_.auth_token_file));
  if (tokens->open_to_all) {
    log_.Warning(absl::StrCat("--auth-token-file=", options_.auth_token_file,
                              " can be read by every user of this machine"));
  }
}

void Access::WarnOfPlainTokens() const {
  if (certificates_ != nullptr) return;
  for (const std::string& address : options_.grpc_addresses) {
    if (IsUnixAddress(address) || IsLoopback(address)) continue;
    log_.Warning(absl::StrCat(
        "--grpc-address=", address,
        ": tokens cross the network in plain text; give --tls-cert"));
  }
}

}  // namespace attn
