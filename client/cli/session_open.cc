#include "client/cli/session_open.h"

#include "CLI/CLI.hpp"
#include "client/cli/choices.h"
#include "client/library/session_client.h"
#include "client/load/session_profile.h"
#include "client/load/time_text.h"

namespace attn {
namespace {

constexpr char kShapeGroup[] = "Session";

}  // namespace

void AddOpenFlags(CLI::App& command, OpenFlags& flags) {
  const struct {
    const char* name;
    int& value;
    const char* help;
    bool required;
  } numbers[] = {
      {"--q-heads", flags.q_heads, "Heads of q", true},
      {"--kv-heads", flags.kv_heads, "Heads of k and v; default as q", false},
      {"--q-dim", flags.q_dim, "Elements of a row of q", true},
      {"--k-dim", flags.k_dim, "Elements of a row of k; default as q", false},
      {"--v-dim", flags.v_dim, "Elements of a row of v; default as k", false},
      {"--layers", flags.layers, "Layers; default 1", false},
  };
  for (const auto& row : numbers) {
    command.add_option(row.name, row.value, row.help)
        ->required(row.required)
        ->group(kShapeGroup);
  }
  command.add_option("--kv-dtype", flags.kv_dtype, "How k and v are kept")
      ->transform(OneOf({"f32", "bf16", "f16", "int8"}))
      ->capture_default_str()
      ->group(kShapeGroup);
  command
      .add_option("--max-tokens", flags.max_tokens,
                  "Most tokens; default as the server has room")
      ->group(kShapeGroup);
  command
      .add_option("--idle-timeout", flags.idle_timeout,
                  "May be forgotten after so long without a step")
      ->type_name("TIME")
      ->group(kShapeGroup);
  AddVariantFlags(command, flags.spec);
}

absl::StatusOr<v1::OpenSessionRequest> ReadOpenRequest(const OpenFlags& flags) {
  const auto request = ReadSpec(flags.spec, ReadOptions());
  if (!request.ok()) return request.status();
  const auto kv_dtype = ParseKvDType(flags.kv_dtype, "--kv-dtype");
  if (!kv_dtype.ok()) return kv_dtype.status();
  NewSession session{.spec = request->spec,
                     .layers = flags.layers,
                     .q_heads = flags.q_heads,
                     .kv_heads = flags.kv_heads,
                     .q_dim = flags.q_dim,
                     .k_dim = flags.k_dim,
                     .v_dim = flags.v_dim,
                     .kv_dtype = *kv_dtype,
                     .max_tokens = flags.max_tokens,
                     .idle_timeout = absl::ZeroDuration(),
                     .inputs = {}};
  for (const HostTensor& input : request->inputs) {
    session.inputs.push_back(input.view());
  }
  if (!flags.idle_timeout.empty()) {
    const auto timeout = ParseLength(flags.idle_timeout, "--idle-timeout",
                                     absl::Milliseconds(1));
    if (!timeout.ok()) return timeout.status();
    session.idle_timeout = *timeout;
  }
  return EncodeOpenSession(session);
}

}  // namespace attn
