#include "server/app/flags.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/reflection.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "engine/engine.h"
#include "server/app/session_flags.h"

ABSL_FLAG(std::string, grpc_address, "127.0.0.1:8001",
          "Where gRPC listens: host:port or unix:/path; several are separated "
          "by commas. Port 0 takes any free one.");
ABSL_FLAG(std::string, metrics_address, "127.0.0.1:8002",
          "Where /metrics is served: host:port; empty turns it off.");
ABSL_FLAG(std::string, http_address, "127.0.0.1:8000",
          "Where the page, the JSON gateway, /healthz and /readyz are served: "
          "host:port; empty turns them off.");
ABSL_FLAG(std::string, http_cors_origins, "",
          "Whose pages may call the JSON gateway, separated by commas: "
          "https://a.example, or *; empty: none but the server's own.");
ABSL_FLAG(int64_t, max_message_bytes, attn::ServerOptions{}.max_message_bytes,
          "Largest request and largest response.");
ABSL_FLAG(int64_t, max_inflight_bytes, attn::ServerOptions{}.max_inflight_bytes,
          "Payloads, responses and scratch of all requests inside.");
ABSL_FLAG(int64_t, max_transport_bytes,
          attn::ServerOptions{}.max_transport_bytes,
          "Messages that gRPC is still reading; 0: as --max-inflight-bytes, "
          "64 MiB at least.");
ABSL_FLAG(int64_t, max_concurrent_streams,
          attn::ServerOptions{}.max_concurrent_streams,
          "Calls at once on one connection; more wait in the client.");
ABSL_FLAG(int64_t, max_concurrent_requests,
          attn::ServerOptions{}.max_concurrent_requests,
          "Requests inside: received, waiting or running.");
ABSL_FLAG(int64_t, max_queue_size, attn::ServerOptions{}.max_queue_size,
          "Requests that may wait for the engine.");
ABSL_FLAG(int64_t, max_batch_tokens, attn::ServerOptions{}.max_batch_tokens,
          "Tokens (batch x longer of queries and keys) that run at once.");
ABSL_FLAG(int64_t, max_queue_delay_us,
          absl::ToInt64Microseconds(attn::ServerOptions{}.max_queue_delay),
          "How long a request that could start waits for company, if there is "
          "a queue; 0: not at all.");
ABSL_FLAG(int64_t, priority_ageing_ms,
          absl::ToInt64Milliseconds(attn::ServerOptions{}.priority_ageing),
          "A request that has waited so much longer goes before one of the "
          "next higher priority.");
ABSL_FLAG(int64_t, max_stream_calls, attn::ServerOptions{}.max_stream_calls,
          "Calls that one AttendStream may have open.");
ABSL_FLAG(int64_t, default_timeout_ms,
          absl::ToInt64Milliseconds(attn::ServerOptions{}.default_timeout),
          "Deadline of a request whose client set none.");
ABSL_FLAG(absl::Duration, min_ping_interval,
          attn::ServerOptions{}.min_ping_interval,
          "A client that pings more often than this loses its connection.");
ABSL_FLAG(
    absl::Duration, max_connection_age,
    attn::ServerOptions{}.max_connection_age,
    "A connection this old takes no new calls and ends with its last one, "
    "so that clients see servers that were added; 0s: never.");
ABSL_FLAG(int, compute_threads, attn::ServerOptions{}.compute_threads,
          "Compute threads; 0 takes the CPU quota.");
ABSL_FLAG(
    int, compute_niceness, attn::ServerOptions{}.compute_niceness,
    "How much nicer (0 to 19) compute threads are than those that receive "
    "and send.");
ABSL_FLAG(std::string, max_isa, "native",
          "Widest instruction set to compute with: native, sse4, avx2 or "
          "avx512.");
ABSL_FLAG(absl::Duration, drain_delay, attn::ServerOptions{}.drain_delay,
          "After SIGTERM: time to serve on while health says NOT_SERVING.");
ABSL_FLAG(absl::Duration, drain_timeout, attn::ServerOptions{}.drain_timeout,
          "Then: time for the requests inside to end.");
ABSL_FLAG(
    std::string, layer_dir, "",
    "Where layers are kept as .safetensors files; empty: in memory only.");
ABSL_FLAG(int64_t, max_layer_bytes, attn::ServerOptions{}.max_layer_bytes,
          "Tensors of all layers together.");
ABSL_FLAG(absl::Duration, idle_trim_delay,
          attn::ServerOptions{}.idle_trim_delay,
          "After so long without a request, memory goes back to the system; "
          "0s: never.");
ABSL_FLAG(std::string, tls_cert, "",
          "PEM file of the server's certificate chain. With --tls-key: TLS on "
          "every address but unix: ones.");
ABSL_FLAG(std::string, tls_key, "", "PEM file of its private key.");
ABSL_FLAG(std::string, tls_client_ca, "",
          "PEM file of CAs: clients must show a certificate that one signed.");
ABSL_FLAG(int64_t, tls_reload_seconds,
          absl::ToInt64Seconds(attn::ServerOptions{}.tls_reload),
          "How often the files of TLS and tokens are looked at.");
ABSL_FLAG(std::string, auth_token_file, "",
          "Who may come in: lines of tenant and bearer token.");
ABSL_FLAG(
    std::string, reflection, "auto",
    "Whether clients may ask for the schema, for which they need no token: "
    "on, off, or auto: on unless there is an --auth-token-file.");
ABSL_FLAG(bool, open_inference, attn::ServerOptions{}.open_inference,
          "Serve the Open Inference Protocol too, for clients of KServe and "
          "Triton.");
ABSL_FLAG(int64_t, tenant_max_requests,
          attn::ServerOptions{}.tenant_max_requests,
          "Requests of one tenant inside; 0: no quota.");
ABSL_FLAG(int64_t, tenant_max_inflight_bytes,
          attn::ServerOptions{}.tenant_max_inflight_bytes,
          "Bytes of one tenant's requests inside; 0: no quota.");
ABSL_FLAG(std::string, log_format, "text", "text or json.");
ABSL_FLAG(bool, log_requests, attn::ServerOptions{}.log_requests,
          "Log a line for each request.");
ABSL_FLAG(double, entropy_sample_rate,
          attn::ServerOptions{}.entropy_sample_rate,
          "Share of the rows that the metrics of rows look at, 0 to 1; 0 turns "
          "those of rows, heads and dead heads off.");
ABSL_FLAG(bool, print_config, false,
          "Print every flag's value and its source, and exit.");

namespace attn {
namespace {

// Every flag above but print_config; those of sessions come behind them.
constexpr std::array kOwnFlags = {"grpc_address",
                                  "metrics_address",
                                  "http_address",
                                  "http_cors_origins",
                                  "max_message_bytes",
                                  "max_inflight_bytes",
                                  "max_transport_bytes",
                                  "max_concurrent_streams",
                                  "max_concurrent_requests",
                                  "max_queue_size",
                                  "max_batch_tokens",
                                  "max_queue_delay_us",
                                  "priority_ageing_ms",
                                  "max_stream_calls",
                                  "default_timeout_ms",
                                  "min_ping_interval",
                                  "max_connection_age",
                                  "compute_threads",
                                  "compute_niceness",
                                  "max_isa",
                                  "drain_delay",
                                  "drain_timeout",
                                  "layer_dir",
                                  "max_layer_bytes",
                                  "idle_trim_delay",
                                  "tls_cert",
                                  "tls_key",
                                  "tls_client_ca",
                                  "tls_reload_seconds",
                                  "auth_token_file",
                                  "reflection",
                                  "open_inference",
                                  "tenant_max_requests",
                                  "tenant_max_inflight_bytes",
                                  "log_format",
                                  "log_requests",
                                  "entropy_sample_rate"};

std::string Dashed(absl::string_view name) {
  return absl::StrReplaceAll(name, {{"_", "-"}});
}

std::string EnvironmentName(absl::string_view flag) {
  return absl::StrCat("ATTN_", absl::AsciiStrToUpper(flag));
}

// Null: not set. Called before any thread exists.
const char* FromEnvironment(absl::string_view flag) {
  return std::getenv(  // NOLINT(concurrency-mt-unsafe)
      EnvironmentName(flag).c_str());
}

std::vector<const char*> AllFlags() {
  std::vector<const char*> flags(kOwnFlags.begin(), kOwnFlags.end());
  const absl::Span<const char* const> more = SessionFlags();
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

absl::Status ApplyEnvironment() {
  for (const char* name : AllFlags()) {
    const char* value = FromEnvironment(name);
    if (value == nullptr) continue;
    std::string error;
    if (!absl::FindCommandLineFlag(name)->ParseFrom(value, &error)) {
      return absl::InvalidArgumentError(
          absl::StrCat(EnvironmentName(name), "=", value, ": not a value of --",
                       Dashed(name)));
    }
  }
  return absl::OkStatus();
}

std::string DescribeConfig(const std::set<std::string>& on_command_line) {
  std::string config;
  for (const char* name : AllFlags()) {
    const char* source = "default";
    if (FromEnvironment(name) != nullptr) source = "environment";
    if (on_command_line.contains(name)) source = "flag";
    absl::StrAppend(&config, Dashed(name), "=",
                    absl::FindCommandLineFlag(name)->CurrentValue(), " (",
                    source, ")\n");
  }
  return config;
}

absl::StatusOr<LogFormat> ParseLogFormat(const std::string& value) {
  if (value == "text") return LogFormat::kText;
  if (value == "json") return LogFormat::kJson;
  return absl::InvalidArgumentError(
      absl::StrCat("--log-format=", value, ": must be text or json"));
}

absl::StatusOr<ReflectionMode> ParseReflection(const std::string& value) {
  if (value == "auto") return ReflectionMode::kAuto;
  if (value == "on") return ReflectionMode::kOn;
  if (value == "off") return ReflectionMode::kOff;
  return absl::InvalidArgumentError(
      absl::StrCat("--reflection=", value, ": must be auto, on or off"));
}

absl::StatusOr<IsaCap> ParseIsa(const std::string& value) {
  auto cap = ParseIsaCap(value);
  if (cap.ok()) return cap;
  return absl::InvalidArgumentError(absl::StrCat(
      "--max-isa=", value, ": must be native, sse4, avx2 or avx512"));
}

void AddAccessOptions(ServerOptions& options) {
  options.tls_cert = absl::GetFlag(FLAGS_tls_cert);
  options.tls_key = absl::GetFlag(FLAGS_tls_key);
  options.tls_client_ca = absl::GetFlag(FLAGS_tls_client_ca);
  options.tls_reload = absl::Seconds(absl::GetFlag(FLAGS_tls_reload_seconds));
  options.auth_token_file = absl::GetFlag(FLAGS_auth_token_file);
  options.tenant_max_requests = absl::GetFlag(FLAGS_tenant_max_requests);
  options.tenant_max_inflight_bytes =
      absl::GetFlag(FLAGS_tenant_max_inflight_bytes);
}

absl::StatusOr<ServerOptions> OptionsFromFlags() {
  auto log_format = ParseLogFormat(absl::GetFlag(FLAGS_log_format));
  if (!log_format.ok()) return log_format.status();
  const auto max_isa = ParseIsa(absl::GetFlag(FLAGS_max_isa));
  if (!max_isa.ok()) return max_isa.status();
  const auto reflection = ParseReflection(absl::GetFlag(FLAGS_reflection));
  if (!reflection.ok()) return reflection.status();
  ServerOptions options;
  options.grpc_addresses = absl::StrSplit(absl::GetFlag(FLAGS_grpc_address),
                                          ',', absl::SkipWhitespace());
  options.metrics_address = absl::GetFlag(FLAGS_metrics_address);
  options.http_address = absl::GetFlag(FLAGS_http_address);
  options.http_cors_origins = absl::StrSplit(
      absl::GetFlag(FLAGS_http_cors_origins), ',', absl::SkipWhitespace());
  options.max_message_bytes = absl::GetFlag(FLAGS_max_message_bytes);
  options.max_inflight_bytes = absl::GetFlag(FLAGS_max_inflight_bytes);
  options.max_transport_bytes = absl::GetFlag(FLAGS_max_transport_bytes);
  options.max_concurrent_streams = absl::GetFlag(FLAGS_max_concurrent_streams);
  options.max_concurrent_requests =
      absl::GetFlag(FLAGS_max_concurrent_requests);
  options.max_queue_size = absl::GetFlag(FLAGS_max_queue_size);
  options.max_batch_tokens = absl::GetFlag(FLAGS_max_batch_tokens);
  options.max_queue_delay =
      absl::Microseconds(absl::GetFlag(FLAGS_max_queue_delay_us));
  options.priority_ageing =
      absl::Milliseconds(absl::GetFlag(FLAGS_priority_ageing_ms));
  options.max_stream_calls = absl::GetFlag(FLAGS_max_stream_calls);
  options.default_timeout =
      absl::Milliseconds(absl::GetFlag(FLAGS_default_timeout_ms));
  options.min_ping_interval = absl::GetFlag(FLAGS_min_ping_interval);
  options.max_connection_age = absl::GetFlag(FLAGS_max_connection_age);
  options.compute_threads = absl::GetFlag(FLAGS_compute_threads);
  options.compute_niceness = absl::GetFlag(FLAGS_compute_niceness);
  options.max_isa = *max_isa;
  options.drain_delay = absl::GetFlag(FLAGS_drain_delay);
  options.drain_timeout = absl::GetFlag(FLAGS_drain_timeout);
  options.layer_dir = absl::GetFlag(FLAGS_layer_dir);
  options.max_layer_bytes = absl::GetFlag(FLAGS_max_layer_bytes);
  options.idle_trim_delay = absl::GetFlag(FLAGS_idle_trim_delay);
  AddSessionOptions(options);
  AddAccessOptions(options);
  options.reflection = *reflection;
  options.open_inference = absl::GetFlag(FLAGS_open_inference);
  options.log_format = *log_format;
  options.log_requests = absl::GetFlag(FLAGS_log_requests);
  options.entropy_sample_rate = absl::GetFlag(FLAGS_entropy_sample_rate);
  absl::Status valid = Validate(options);
  if (!valid.ok()) return valid;
  return options;
}

// --help shows our flags and none of the libraries'.
void DescribeProgram() {
  absl::SetProgramUsageMessage(
      "Attention as a service. Each flag is also read from the environment: "
      "--grpc-address from ATTN_GRPC_ADDRESS.");
  absl::FlagsUsageConfig config;
  const auto ours = [](absl::string_view file) {
    return absl::StrContains(file, "server/app/flags.cc");
  };
  config.contains_helpshort_flags = ours;
  config.contains_help_flags = ours;
  config.contains_helppackage_flags = ours;
  config.version_string = [] {
    return absl::StrCat("attn-server ", ATTN_VERSION, " (", IsaName(),
                        ", oneDNN ", OneDnnVersion(), ")\n");
  };
  absl::SetFlagsUsageConfig(config);
}

// Gives Abseil its char*s. Arguments that are no flags come back.
std::vector<std::string> ParseWithAbseil(std::vector<std::string> arguments) {
  std::vector<char*> pointers;
  pointers.reserve(arguments.size());
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  const std::vector<char*> rest = absl::ParseCommandLine(
      static_cast<int>(pointers.size()), pointers.data());
  return {rest.begin() + 1, rest.end()};
}

}  // namespace

CommandLine NormalizeArguments(const std::vector<std::string>& arguments) {
  CommandLine result;
  bool flags_ended = false;
  for (const std::string& argument : arguments) {
    flags_ended = flags_ended || argument == "--";
    const bool first = result.arguments.empty();
    const bool is_flag =
        argument.size() >= 2 && argument[0] == '-' &&
        !absl::ascii_isdigit(static_cast<unsigned char>(argument[1]));
    if (first || flags_ended || !is_flag) {
      result.arguments.push_back(argument);
      continue;
    }
    const size_t begin = argument[1] == '-' ? 2 : 1;
    const size_t end = std::min(argument.find('='), argument.size());
    std::string name = argument.substr(begin, end - begin);
    absl::StrReplaceAll({{"-", "_"}}, &name);
    result.arguments.push_back(absl::StrCat("--", name, argument.substr(end)));
    // A boolean flag is turned off by a prefix.
    if (absl::StartsWith(name, "no") &&
        absl::FindCommandLineFlag(name) == nullptr) {
      name = name.substr(2);
    }
    result.names.insert(name);
  }
  return result;
}

absl::StatusOr<ParsedFlags> ParseFlags(int argc, char** argv) {
  DescribeProgram();
  absl::Status environment = ApplyEnvironment();
  if (!environment.ok()) return environment;
  CommandLine line = NormalizeArguments({argv, argv + argc});
  const std::vector<std::string> rest =
      ParseWithAbseil(std::move(line.arguments));
  if (!rest.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", rest[0], "\": all arguments are flags; see --help"));
  }
  auto options = OptionsFromFlags();
  if (!options.ok()) return options.status();
  return ParsedFlags{.options = *std::move(options),
                     .print_config = absl::GetFlag(FLAGS_print_config),
                     .config = DescribeConfig(line.names)};
}

}  // namespace attn
