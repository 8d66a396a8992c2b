// A sequence in chunks: each attends to all keys up to its own end.
#include <string>
#include <utility>

#include "client/cli/check/handlers.h"
#include "client/cli/check/tensor_ops.h"

namespace attn {
namespace {

// The chunk's queries against the keys so far. The masks of the whole are those
// of each chunk, as bottom right is where a chunk ends.
ServiceCall ChunkCall(const ServiceCall& whole, int64_t begin, int64_t end) {
  ServiceCall chunk;
  chunk.spec = whole.spec;
  chunk.storage = whole.storage;
  chunk.q = Slice(whole.q, 2, begin, end);
  chunk.k = Slice(whole.k, 2, 0, end);
  chunk.v = Slice(whole.v, 2, 0, end);
  return chunk;
}

// Weights over the keys so far, with zeros for those to come.
absl::StatusOr<HostTensor> PadKeys(const HostTensor& weights, int64_t keys) {
  const Shape& shape = weights.shape();
  return Concat(weights,
                HostTensor(weights.dtype(),
                           {shape[0], shape[1], shape[2], keys - shape[3]}),
                3);
}

absl::Status Append(HostTensor part, const std::string& name,
                    TensorMap& tensors) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) {
    tensors.emplace(name, std::move(part));
    return absl::OkStatus();
  }
  auto joined = Concat(found->second, part, 2);
  if (!joined.ok()) return joined.status();
  found->second = *std::move(joined);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Outcome> HandleDecode(const Case& tested,
                                     const Service& service) {
  Case whole_case;
  whole_case.params = tested.params;
  whole_case.params.erase("chunks");
  for (const auto& [name, input] : tested.inputs) {
    whole_case.inputs.emplace(name, HostTensor::Copy(input.view()));
  }
  const auto whole = ReadAttentionCall(whole_case);
  if (!whole.ok()) return whole.status();
  const auto chunks = Integers(tested.params.value("chunks", nlohmann::json()));
  if (!chunks.ok()) return chunks.status();
  for (const auto& [name, want] : tested.outputs) {
    if (name != "out" && name != "weights") return Skip("output " + name);
  }
  Outcome outcome;
  int64_t begin = 0;
  for (const int64_t count : *chunks) {
    if (count <= 0 || begin + count > whole->q_length()) {
      return absl::InvalidArgumentError("params.chunks does not fit q");
    }
    auto outputs = service.Attend(ChunkCall(*whole, begin, begin + count),
                                  {"output", "weights"});
    if (!outputs.ok()) return outputs.status();
    begin += count;
    auto padded = PadKeys(outputs->at("weights"), whole->kv_length());
    if (!padded.ok()) return padded.status();
    absl::Status status =
        Append(std::move(outputs->at("output")), "out", outcome.got);
    if (status.ok()) {
      status = Append(*std::move(padded), "weights", outcome.got);
    }
    if (!status.ok()) return status;
  }
  return outcome;
}

}  // namespace attn
