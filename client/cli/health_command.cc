#include "client/cli/health_command.h"

#include <cstdio>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "client/cli/colour.h"
#include "nlohmann/json.hpp"

namespace attn {
namespace {

constexpr char kHealthFooter[] = R"(
Exits 0 if the server says SERVING, 3 if it says it does not serve, 4 if it
does not answer.

Examples:
  attn health
  attn health --service attention.v1.AttentionService
  attn --address unix:attn.sock --timeout 5s health)";

ExitCode RunHealth(const std::string& service, const GlobalOptions& options) {
  const auto client = ConnectTo(options);
  if (!client.ok()) return ReportUsageError(client.status());
  const absl::Status status = client->Health(service);
  if (options.json) {
    const nlohmann::json document = {{"address", options.address},
                                     {"serving", status.ok()},
                                     {"reason", std::string(status.message())}};
    std::puts(document.dump(2).c_str());
  } else if (status.ok()) {
    std::printf("%s: %s\n", options.address.c_str(),
                Painted("SERVING", TextColour::kPassed, WantsColour()).c_str());
  }
  return status.ok() ? ExitCode::kOk : ReportCallError(status);
}

}  // namespace

void AddHealthCommand(CLI::App& app, GlobalOptions& options) {
  CLI::App* command =
      app.add_subcommand("health", "Ask a server whether it serves");
  command->footer(kHealthFooter);
  auto service = std::make_shared<std::string>();
  command
      ->add_option("--service", *service,
                   "Service to ask about; the whole server unless given")
      ->type_name("NAME");
  command->callback([service, &options] {
    options.run = [service, &options] { return RunHealth(*service, options); };
  });
}

}  // namespace attn
