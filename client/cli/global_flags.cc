#include "client/cli/global_flags.h"

#include "client/cli/choices.h"
#include "client/cli/colour.h"
#include "client/cli/local_isa.h"

namespace attn {
namespace {

constexpr char kSecurityGroup[] = "TLS and tokens";

ColourChoice ColourChoiceOf(const std::string& name) {
  if (name == "always") return ColourChoice::kAlways;
  return name == "never" ? ColourChoice::kNever : ColourChoice::kAuto;
}

// The server's own certificate is ATTN_TLS_CERT, so that both may run with one
// environment.
void AddSecurityFlags(CLI::App& app, ClientSecurity& security) {
  const auto file = [&app](const char* name, std::string& path,
                           const char* variable, const char* help) {
    app.add_option(name, path, help)
        ->envname(variable)
        ->type_name(kFileType)
        ->group(kSecurityGroup);
  };
  file("--tls-ca", security.tls_ca, "ATTN_TLS_CA",
       "TLS: PEM file of the CAs to trust, or system");
  file("--tls-cert", security.tls_cert, "ATTN_CLIENT_TLS_CERT",
       "PEM file of a certificate to show to the server");
  file("--tls-key", security.tls_key, "ATTN_CLIENT_TLS_KEY",
       "PEM file of its private key");
  app.add_option("--tls-server-name", security.tls_server_name,
                 "Whom the server's certificate must be for, if not the host")
      ->envname("ATTN_TLS_SERVER_NAME")
      ->type_name("NAME")
      ->group(kSecurityGroup);
  file("--token-file", security.token_file, "ATTN_TOKEN_FILE",
       "File with the bearer token to send");
  app.add_flag("--allow-plaintext-token", security.allow_plaintext_token,
               "Send it over a network without TLS too")
      ->envname("ATTN_ALLOW_PLAINTEXT_TOKEN")
      ->group(kSecurityGroup);
}

}  // namespace

void AddGlobalFlags(CLI::App& app, GlobalOptions& options) {
  app.add_option("--address", options.address,
                 "Server: host:port or unix:/path")
      ->envname("ATTN_ADDRESS")
      ->type_name("ADDRESS")
      ->capture_default_str();
  app.add_option("--timeout", options.timeout,
                 "Deadline of each call: 30s, 500ms, or seconds")
      ->envname("ATTN_TIMEOUT")
      ->type_name("TIME")
      ->capture_default_str();
  app.add_option("--max-isa", options.max_isa,
                 "Widest instruction set of what attn itself computes")
      ->envname("ATTN_MAX_ISA")
      ->transform(OneOf({"native", "sse4", "avx2", "avx512"}))
      ->capture_default_str();
  app.add_flag("--json", options.json,
               "Print one JSON document; errors stay one line on standard "
               "error");
  // At once, for what is wrong with the rest of the line.
  app.add_option_function<std::string>(
         "--color",
         [](const std::string& name) { SetColourChoice(ColourChoiceOf(name)); },
         "Colours: auto is on a terminal that has them, unless NO_COLOR is set")
      ->trigger_on_parse()
      ->transform(OneOf({"auto", "always", "never"}))
      ->default_str("auto");
  app.set_version_flag("--version", "attn " ATTN_VERSION,
                       "Print the version and exit");
  AddSecurityFlags(app, options.security);
}

absl::Status ApplyGlobalFlags(const GlobalOptions& options) {
  const auto timeout = ParseTimeout(options.timeout);
  if (!timeout.ok()) return timeout.status();
  return LimitLocalIsa(options.max_isa);
}

}  // namespace attn
