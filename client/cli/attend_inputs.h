// The tensors of `attn attend`, and the flags that name them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/spec_flags.h"
#include "client/io/tensor_file.h"
#include "client/library/host_tensor.h"

namespace CLI {
class App;
}  // namespace CLI

namespace attn {

// Thread-compatible.
struct InputFlags {
  // One file with q, k, v and, if they are there, bias, mask, q_lengths and
  // kv_lengths.
  std::string input;
  std::string q;
  std::string k;
  std::string v;
  // Converts q, k and v before they are sent.
  std::string dtype;
  bool u2_is_bf16 = false;

  ReadOptions read_options() const { return {.u2_is_bf16 = u2_is_bf16}; }
};

void AddInputFlags(CLI::App& command, InputFlags& flags);

// A message and the tensors that it views. Move-only.
struct AttendInputs {
  HostTensor q;
  HostTensor k;
  HostTensor v;
  SpecRequest request;
  std::vector<int64_t> q_lengths;
  std::vector<int64_t> kv_lengths;
  // What else the input file holds, e.g. expected results.
  TensorMap others;

  // Views the tensors above.
  AttendMessage Message() const;
};

absl::StatusOr<AttendInputs> ReadInputs(const InputFlags& flags,
                                        const SpecFlags& spec);

// Names of keys: a JSON list of strings, or, in a file that is no JSON, one a
// line. Blanks become "_".
absl::StatusOr<std::vector<std::string>> ReadTokens(const std::string& path);

}  // namespace attn
