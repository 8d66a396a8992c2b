#include "client/capacity/workload.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

// Those of a server.
constexpr int64_t kBlockTokens = 64;
constexpr double kBlockAlignment = 64;
constexpr int64_t kMostLayers = 1024;
constexpr int64_t kMostTokens = int64_t{1} << 24;
constexpr int64_t kMostHeads = int64_t{1} << 16;
constexpr double kMostRate = 1e6;
// A session and a layer of it, without tokens.
constexpr double kSessionBytes = 1024;
constexpr double kLayerBytes = 200;
// An answer that is larger is not kept.
constexpr double kMostKeptAnswer = 256 * 1024;

double Real(int64_t value) { return static_cast<double>(value); }

double AlignedBytes(double bytes) {
  return std::ceil(bytes / kBlockAlignment) * kBlockAlignment;
}

double WidthOf(DType dtype) { return static_cast<double>(SizeOf(dtype)); }

// Of a row of k and a row of v, scales included.
double RowBytes(const SessionWorkload& w) {
  const double scales =
      w.kv_dtype == DType::kI8 ? 2 * static_cast<double>(sizeof(float)) : 0;
  return Real(w.k_dim + w.v_dim) * WidthOf(w.kv_dtype) + scales;
}

double BlockBytes(const SessionWorkload& w) {
  const double rows = Real(w.kv_heads) * Real(kBlockTokens);
  double bytes = AlignedBytes(rows * Real(w.k_dim) * WidthOf(w.kv_dtype)) +
                 AlignedBytes(rows * Real(w.v_dim) * WidthOf(w.kv_dtype));
  if (w.kv_dtype == DType::kI8) {
    bytes += 2 * AlignedBytes(rows * static_cast<double>(sizeof(float)));
  }
  return bytes;
}

// Of `layers` layers of a step of `tokens` tokens that see `keys` each.
CallVolume Volume(const SessionWorkload& w, double tokens, double keys,
                  double keys_read) {
  CallVolume volume;
  const double layers = Real(w.layers_per_call);
  const double wide = Real(w.k_dim + w.v_dim);
  const double sent = layers * tokens * WidthOf(w.dtype);
  volume.layers = layers;
  volume.elements = layers * Real(w.kv_heads) * keys_read * wide;
  volume.bytes = layers * Real(w.kv_heads) * keys_read * RowBytes(w);
  volume.multiply_adds = layers * Real(w.q_heads) * tokens * keys * wide;
  volume.payload_in =
      sent * (Real(w.q_heads) * Real(w.k_dim) + Real(w.kv_heads) * wide);
  volume.payload_out = sent * Real(w.q_heads) * Real(w.v_dim);
  return volume;
}

struct WholeNumber {
  const char* name;
  int64_t SessionWorkload::*value;
  int64_t least;
  int64_t most;
};

constexpr WholeNumber kWholeNumbers[] = {
    {"tokens", &SessionWorkload::tokens, 1, kMostTokens},
    {"prompt", &SessionWorkload::prompt, 0, kMostTokens},
    {"layers", &SessionWorkload::layers, 1, kMostLayers},
    {"q-heads", &SessionWorkload::q_heads, 1, kMostHeads},
    {"kv-heads", &SessionWorkload::kv_heads, 1, kMostHeads},
    {"dim", &SessionWorkload::k_dim, 1, kMostHeads},
    {"v-dim", &SessionWorkload::v_dim, 1, kMostHeads},
    {"layers-per-call", &SessionWorkload::layers_per_call, 1, kMostLayers},
};

}  // namespace

double SessionWorkload::calls_per_token() const {
  return Real(layers) / Real(layers_per_call);
}

double SessionWorkload::calls_per_second() const {
  return rate * calls_per_token();
}

double SessionWorkload::session_bytes() const {
  const double blocks = std::ceil(Real(tokens) / Real(kBlockTokens));
  const double answer = StepVolume(*this).payload_out;
  return Real(layers) * (blocks * BlockBytes(*this) + kLayerBytes) +
         kSessionBytes + (answer <= kMostKeptAnswer ? answer : 0);
}

absl::Status CheckWorkload(const SessionWorkload& w, const char* prefix) {
  const auto error = [prefix](const char* name, const std::string& got,
                              const std::string& expected) {
    return FieldError(absl::StrCat(prefix, name), got, expected);
  };
  for (const WholeNumber& number : kWholeNumbers) {
    const int64_t value = w.*number.value;
    if (value < number.least || value > number.most) {
      return error(number.name, absl::StrCat(value),
                   absl::StrCat(number.least, " to ", number.most));
    }
  }
  if (!(w.rate > 0) || w.rate > kMostRate) {
    return error("rate", absl::StrCat(w.rate),
                 absl::StrCat("above 0, up to ", kMostRate, " tokens/s"));
  }
  if (w.q_heads % w.kv_heads != 0) {
    return error("q-heads", absl::StrCat(w.q_heads),
                 absl::StrCat("a multiple of the ", w.kv_heads, " KV heads"));
  }
  if (w.layers % w.layers_per_call != 0) {
    return error("layers-per-call", absl::StrCat(w.layers_per_call),
                 absl::StrCat("a divisor of the ", w.layers, " layers"));
  }
  if (w.prompt >= w.tokens) {
    return error("prompt", absl::StrCat(w.prompt),
                 absl::StrCat("less than the ", w.tokens, " tokens"));
  }
  return absl::OkStatus();
}

CallVolume StepVolume(const SessionWorkload& workload) {
  const double keys = Real(workload.tokens);
  return Volume(workload, 1, keys, keys);
}

int64_t PrefillChunks(const SessionWorkload& workload) {
  return (workload.prompt + kPrefillChunk - 1) / kPrefillChunk;
}

CallVolume PrefillVolume(const SessionWorkload& workload, int64_t chunk) {
  const int64_t begin = chunk * kPrefillChunk;
  const int64_t end = std::min(begin + kPrefillChunk, workload.prompt);
  // Token i sees i + 1 keys: on average those before, and half of its own.
  const double keys = (Real(begin) + Real(end) + 1) / 2;
  return Volume(workload, Real(end - begin), keys, Real(end));
}

}  // namespace attn
