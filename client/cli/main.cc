// attn: the command line of the attention service.
#include <cstdio>
#include <exception>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/synchronization/mutex.h"
#include "client/cli/attend_command.h"
#include "client/cli/backward_command.h"
#include "client/cli/check_command.h"
#include "client/cli/command.h"
#include "client/cli/health_command.h"
#include "client/cli/info_command.h"
#include "client/cli/inspect_command.h"
#include "client/cli/layer_command.h"
#include "client/cli/load_command.h"
#include "client/cli/local_isa.h"
#include "client/cli/plan_command.h"

namespace attn {
namespace {

// In the order of `attn --help`.
constexpr AddCommand kCommands[] = {
    AddAttendCommand, AddBackwardCommand, AddInspectCommand,
    AddPlanCommand,   AddInfoCommand,     AddHealthCommand,
    AddLayerCommand,  AddCheckCommand,    AddLoadCommand,
};

constexpr char kProgramFooter[] = R"(
Exit codes: 0 done, 1 a check, comparison or threshold did not hold,
2 bad command line or input file, 3 the server refused or failed the call,
4 no server answers.

Examples:
  attn health
  attn info --json
  attn attend --input example.npz --causal --heatmap
  attn plan --shape 1,8,8,512,512,64 --causal
  attn --address unix:/run/attn.sock check cases/
  attn --address attn.example:8001 --tls-ca ca.pem --token-file token health)";

void AddGlobalOptions(CLI::App& app, GlobalOptions& options) {
  app.add_option("--address", options.address,
                 "Server: host:port or unix:/path")
      ->envname("ATTN_ADDRESS")
      ->capture_default_str();
  app.add_option("--timeout", options.timeout,
                 "Deadline of each call: 30s, 500ms, or seconds")
      ->envname("ATTN_TIMEOUT")
      ->capture_default_str();
  app.add_option("--max-isa", options.max_isa,
                 "Widest instruction set of what attn itself computes: native, "
                 "sse4, avx2 or avx512")
      ->envname("ATTN_MAX_ISA")
      ->capture_default_str();
  app.add_flag("--json", options.json, "Print one JSON document");
  app.set_version_flag("--version", "attn " ATTN_VERSION);
}

// The server's own certificate is ATTN_TLS_CERT, so that both may run with one
// environment.
void AddSecurityOptions(CLI::App& app, ClientSecurity& security) {
  app.add_option("--tls-ca", security.tls_ca,
                 "TLS: PEM file of the CAs to trust, or system")
      ->envname("ATTN_TLS_CA");
  app.add_option("--tls-cert", security.tls_cert,
                 "PEM file of a certificate to show to the server")
      ->envname("ATTN_CLIENT_TLS_CERT");
  app.add_option("--tls-key", security.tls_key, "PEM file of its private key")
      ->envname("ATTN_CLIENT_TLS_KEY");
  app.add_option("--tls-server-name", security.tls_server_name,
                 "Whom the server's certificate must be for, if not the host")
      ->envname("ATTN_TLS_SERVER_NAME");
  app.add_option("--token-file", security.token_file,
                 "File with the bearer token to send")
      ->envname("ATTN_TOKEN_FILE");
  app.add_flag("--allow-plaintext-token", security.allow_plaintext_token,
               "Send it over a network without TLS too")
      ->envname("ATTN_ALLOW_PLAINTEXT_TOKEN");
}

int Main(int argc, char** argv) {
  // A debugging aid of the library that its packaged build leaves on; gRPC's
  // locks pay for it with every call.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  CLI::App app("Attention as a service: client");
  app.name("attn");
  app.footer(kProgramFooter);
  app.fallthrough();
  app.require_subcommand(1);
  GlobalOptions options;
  AddGlobalOptions(app, options);
  AddSecurityOptions(app, options.security);
  for (const AddCommand add : kCommands) add(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool asked = error.get_exit_code() == 0;  // --help, --version
    app.exit(error);
    return static_cast<int>(asked ? ExitCode::kOk : ExitCode::kUsage);
  }
  const auto timeout = ParseTimeout(options.timeout);
  if (!timeout.ok()) {
    return static_cast<int>(ReportUsageError(timeout.status()));
  }
  const absl::Status limited = LimitLocalIsa(options.max_isa);
  if (!limited.ok()) return static_cast<int>(ReportUsageError(limited));
  return static_cast<int>(options.run());
}

}  // namespace
}  // namespace attn

int main(int argc, char** argv) {
  try {
    return attn::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "attn: %s\n", error.what());
    return static_cast<int>(attn::ExitCode::kUsage);
  }
}
