#include "client/io/safetensors.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/io/file.h"
#include "proto/safetensors/safetensors_header.h"

namespace attn {
namespace {

// What the format keeps for words about the file.
constexpr absl::string_view kMetadataName = "__metadata__";

absl::Status Invalid(const std::string& path, const absl::Status& why) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", std::string(why.message())));
}

}  // namespace

absl::StatusOr<TensorMap> ReadSafetensors(const std::string& path,
                                          const ReadOptions& options) {
  const auto file =
      ReadFile(path, options.max_bytes + kMaxSafetensorsHeaderBytes);
  if (!file.ok()) return file.status();
  const absl::string_view bytes = *file;
  const auto length = SafetensorsHeaderLength(
      bytes.substr(0, kSafetensorsPrefixBytes),
      static_cast<int64_t>(bytes.size()), kMaxSafetensorsHeaderBytes);
  if (!length.ok()) return Invalid(path, length.status());
  const absl::string_view data =
      bytes.substr(static_cast<size_t>(kSafetensorsPrefixBytes + *length));
  const auto header = ParseSafetensorsHeader(
      bytes.substr(kSafetensorsPrefixBytes, static_cast<size_t>(*length)),
      static_cast<int64_t>(data.size()));
  if (!header.ok()) return Invalid(path, header.status());
  TensorMap tensors;
  for (const SafetensorsEntry& entry : header->entries) {
    HostTensor tensor(entry.dtype, entry.shape);
    // Nothing to copy may come with no place to copy to.
    if (tensor.byte_count() > 0) {
      std::memcpy(tensor.data(), data.data() + entry.offset,
                  tensor.byte_count());
    }
    tensors.emplace(entry.name, std::move(tensor));
  }
  return tensors;
}

absl::Status WriteSafetensors(const std::string& path,
                              const TensorMap& tensors) {
  SafetensorsHeader header;
  for (const auto& [name, tensor] : tensors) {
    if (name == kMetadataName) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": no tensor can have the name \"", name, "\""));
    }
    header.entries.push_back({name, tensor.dtype(), tensor.shape()});
  }
  std::string bytes = WriteSafetensorsHeader(header);
  for (const SafetensorsEntry& entry : header.entries) {
    const HostTensor& tensor = tensors.at(entry.name);
    bytes.append(reinterpret_cast<const char*>(tensor.data()),
                 tensor.byte_count());
  }
  return WriteFile(path, bytes);
}

}  // namespace attn
