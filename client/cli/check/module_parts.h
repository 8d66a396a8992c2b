// What a multi-head module does to each of its three inputs, as token rows and
// a layer.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/check/case.h"
#include "client/cli/check/service.h"
#include "client/library/host_tensor.h"

namespace attn {

// One of the three inputs of the module, and its share of the projections.
struct ModulePart {
  const char* input;
  const char* weight;  // If the three weights are not one.
  const char* extra;   // bias_k, bias_v: a key and value of every sequence.
  int64_t index;
};

inline constexpr ModulePart kModuleParts[] = {
    {"q", "q_proj_weight", nullptr, 0},
    {"k", "k_proj_weight", "bias_k", 1},
    {"v", "v_proj_weight", "bias_v", 2}};

// What the service is sent for one part. A row r that every sequence has after
// its own is a token too: one more column, in which its own token alone has a
// 1, and whose weights are r less the layer's bias.
struct ModuleTokens {
  HostTensor tokens;  // [B, S + extra, in + extra]
  HostTensor weight;  // [E, in + extra]
  std::optional<HostTensor> bias;
  int64_t extra = 0;
};
absl::StatusOr<ModuleTokens> TokensOf(const Case& tested,
                                      const ModulePart& part);

// The whole module as one call.
struct ModuleCall {
  ServiceCall call;
  // In the order of kModuleParts; their layers are those of the call's spec.
  std::vector<ModuleTokens> parts;
};
absl::StatusOr<ModuleCall> MakeModuleCall(const Case& tested);

// Gradients of a part: those of ModuleTokens, and those of what the case has.
struct PartGradients {
  HostTensor tokens;
  HostTensor weight;
  std::optional<HostTensor> bias;
  // Of the rows that every sequence has, [1, 1, E] each.
  std::vector<HostTensor> extras;
};
// The extra columns and rows taken off again.
PartGradients WithoutExtras(const ModuleTokens& sent, PartGradients gradients);

}  // namespace attn
