// What a server lets callers in by: its certificates and its tokens, reloaded
// while it runs.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/app/options.h"
#include "server/rpc/line_log.h"
#include "server/security/authenticator.h"
#include "server/security/certificates.h"
#include "server/security/periodic_task.h"

namespace attn {

// Thread-safe.
class Access {
 public:
  // FAILED_PRECONDITION or INVALID_ARGUMENT, one line, names the flag of the
  // file that cannot be used. `log` must outlive this.
  static absl::StatusOr<std::unique_ptr<Access>> Open(
      const ServerOptions& options, const LineLog& log);

  // Null: nobody is asked who they are, and nobody has a quota.
  const Authenticator* authenticator() const { return authenticator_.get(); }
  // Null: no TLS.
  const CertificateStore* certificates() const { return certificates_.get(); }

  // What is in force, and what deserves a warning.
  void LogStart() const;

 private:
  Access(const ServerOptions& options, const LineLog& log)
      : options_(options), log_(log) {}

  absl::Status OpenFiles();
  absl::StatusOr<BearerTokens> ReadTokens();
  void LookAtFiles();
  void TellOnce(const absl::Status& status, std::string& told) const;
  void LogCertificates(absl::string_view event) const;
  void LogTokens(absl::string_view event) const;
  void WarnOfPlainTokens() const;

  const ServerOptions options_;
  const LineLog& log_;
  std::unique_ptr<CertificateStore> certificates_;
  std::unique_ptr<TokenStore> tokens_;
  std::unique_ptr<Authenticator> authenticator_;
  // What was last said of files that cannot be used.
  std::string told_of_certificates_;
  std::string told_of_tokens_;
  // Last: it ends before what it looks at.
  std::unique_ptr<PeriodicTask> look_;
};

}  // namespace attn
