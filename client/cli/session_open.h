// What `attn session open` asks for, and the flags that say so.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/cli/spec_flags.h"
#include "proto/codec/session_codec.h"

namespace attn {

// As given on the command line. Numbers are of the wire's width, so that the
// parser refuses what would not fit. Thread-compatible.
struct OpenFlags {
  SpecFlags spec;
  int q_heads = 0;
  int kv_heads = 0;
  int q_dim = 0;
  int k_dim = 0;
  int v_dim = 0;
  int layers = 1;
  std::string kv_dtype = "f32";
  int64_t max_tokens = 0;
  // "": the server's.
  std::string idle_timeout;
};

void AddOpenFlags(CLI::App& command, OpenFlags& flags);

// Reads the files that the flags name. INVALID_ARGUMENT names the flag.
absl::StatusOr<v1::OpenSessionRequest> ReadOpenRequest(const OpenFlags& flags);

}  // namespace attn
