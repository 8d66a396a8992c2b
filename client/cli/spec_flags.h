// The flags that say what is to be computed: shared by `attend`, `plan` and
// `session open`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/stage_flags.h"
#include "client/io/tensor_file.h"
#include "client/library/float_dtype.h"
#include "client/library/host_tensor.h"
#include "proto/codec/attend_codec.h"

namespace CLI {
class App;
}  // namespace CLI

namespace attn {

// As given on the command line. Thread-compatible.
struct SpecFlags {
  std::string spec_file;
  std::optional<double> scale;
  std::optional<double> softcap;
  std::vector<double> temperatures;
  // Absent: not given; "": given without an alignment.
  std::optional<std::string> causal;
  std::string window;
  // "": the published slopes.
  std::optional<std::string> alibi;
  std::vector<std::string> tensor_files;
  std::vector<std::string> bias_files;
  std::vector<std::string> mask_files;
  std::vector<int64_t> q_lengths;
  std::vector<int64_t> kv_lengths;
  std::vector<int64_t> q_offsets;
  std::vector<int64_t> kv_offsets;
  StageFlags stages;
  std::string output_dtype;
  std::string kernel;
};

void AddSpecFlags(CLI::App& command, SpecFlags& flags);
// Those of the spec alone, without what belongs to one call: lengths, the type
// of the outputs, the kernel.
void AddVariantFlags(CLI::App& command, SpecFlags& flags);

// What the flags mean. `inputs` are what the spec's stages point to.
struct SpecRequest {
  AttentionSpec spec;
  std::vector<HostTensor> inputs;
  std::optional<DType> output_dtype;
  std::vector<int64_t> q_offsets;
  std::vector<int64_t> kv_offsets;
};

// Reads the files that the flags name.
absl::StatusOr<SpecRequest> ReadSpec(const SpecFlags& flags,
                                     const ReadOptions& options);

// "top_left", "bottom_right", "" for kUnspecified.
absl::StatusOr<Alignment> ParseAlignment(const std::string& name,
                                         const std::string& flag);
// "L,R[,alignment]", L and R integers >= 0 or "none".
absl::StatusOr<WindowMask> ParseWindow(const std::string& text);

}  // namespace attn
