// What the subcommands of `attn` share: the global options, the exit codes and
// the way a subcommand plugs in.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/library/attention_client.h"

namespace CLI {
class App;
}  // namespace CLI

namespace attn {

// How `attn` ends. The numbers are part of its interface.
enum class ExitCode : int {
  kOk = 0,
  // A check, a comparison or a threshold did not hold.
  kCheckFailed = 1,
  // The command line or a file cannot be used.
  kUsage = 2,
  // The server refused or failed the call.
  kServerError = 3,
  // No server answers at the address.
  kUnreachable = 4,
};

// Options that every subcommand takes, before or after its name.
// Thread-compatible.
struct GlobalOptions {
  // "host:port" or "unix:/path".
  std::string address = "127.0.0.1:8001";
  // Deadline of each call: "30s", "500ms", or seconds.
  std::string timeout = "60s";
  // Widest instruction set of what is computed here and not by the server.
  std::string max_isa = "native";
  // TLS and tokens.
  ClientSecurity security{};
  // Print one JSON document instead of text.
  bool json = false;
  // Set by the subcommand that was given; main() runs it after parsing.
  std::function<ExitCode()> run;

  // Valid once the command line has been parsed.
  absl::Duration deadline() const;
  // How every command connects.
  ClientOptions client() const;
};

// Parses "1.5", "30s", "500ms"; > 0. INVALID_ARGUMENT names `flag`.
absl::StatusOr<absl::Duration> ParseTimeout(
    const std::string& text, const std::string& flag = "--timeout");

// A client of options.address with options.deadline().
absl::StatusOr<AttentionClient> ConnectTo(const GlobalOptions& options);

// Prints "attn: <message>" on stderr, one line whatever the message holds, and
// gives the exit code for the status: 4 for a server that is not there, 3 for
// what a server said. Options of the library are called by their flags; where
// there is something to do about it, the line ends in that.
ExitCode ReportCallError(const absl::Status& status);
// The same for files and flags: always 2.
ExitCode ReportUsageError(const absl::Status& status);

// Each adds one subcommand whose callback sets options.run. `options` must
// outlive the app.
using AddCommand = void (*)(CLI::App& app, GlobalOptions& options);

}  // namespace attn
