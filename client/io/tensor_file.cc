#include "client/io/tensor_file.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/io/file.h"
#include "client/io/json_tensor.h"
#include "client/io/npy.h"
#include "client/io/npz.h"
#include "client/io/safetensors.h"

namespace attn {
namespace {

// Room for the header beside the elements.
constexpr int64_t kHeaderSlack = 64 << 10;

absl::StatusOr<TensorMap> ReadNpyFile(const std::string& path,
                                      const ReadOptions& options) {
  const auto bytes = ReadFile(path, options.max_bytes + kHeaderSlack);
  if (!bytes.ok()) return bytes.status();
  auto tensor = ParseNpy(*bytes, path, options);
  if (!tensor.ok()) return tensor.status();
  TensorMap tensors;
  tensors.emplace("", *std::move(tensor));
  return tensors;
}

absl::StatusOr<TensorMap> ReadJsonFile(const std::string& path,
                                       const ReadOptions& options) {
  const auto text = ReadFile(path, options.max_bytes);
  if (!text.ok()) return text.status();
  return ParseJsonTensors(*text, path, options);
}

absl::Status HoldsOne(const std::string& path, int64_t count) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": a .npy file holds one tensor, not ", count,
                   "; write .npz, .safetensors or .json"));
}

absl::Status WriteNpyFile(const std::string& path, const TensorMap& tensors) {
  if (tensors.size() != 1) {
    return HoldsOne(path, static_cast<int64_t>(tensors.size()));
  }
  return WriteFile(path, SerializeNpy(tensors.begin()->second));
}

absl::Status WriteJsonFile(const std::string& path, const TensorMap& tensors) {
  nlohmann::json document = nlohmann::json::object();
  for (const auto& [name, tensor] : tensors) {
    document[name] = TensorToJson(tensor);
  }
  // A name that is no UTF-8 is made some, as in .safetensors.
  return WriteFile(
      path,
      document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
          "\n");
}

// One row for each kind of file.
struct FormatRow {
  const char* ending;
  absl::StatusOr<TensorMap> (*read)(const std::string&, const ReadOptions&);
  absl::Status (*write)(const std::string&, const TensorMap&);
};

constexpr FormatRow kFormats[] = {
    {".npy", ReadNpyFile, WriteNpyFile},
    {".npz", ReadNpz, WriteNpz},
    {".json", ReadJsonFile, WriteJsonFile},
    {".safetensors", ReadSafetensors, WriteSafetensors},
};

absl::StatusOr<const FormatRow*> FormatOf(const std::string& path) {
  for (const FormatRow& row : kFormats) {
    if (absl::EndsWith(path, row.ending)) return &row;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      path,
      ": expected a name that ends in .npy, .npz, .json or .safetensors"));
}

}  // namespace

absl::StatusOr<TensorMap> ReadTensors(const std::string& path,
                                      const ReadOptions& options) {
  const auto format = FormatOf(path);
  if (!format.ok()) return format.status();
  return (*format)->read(path, options);
}

absl::StatusOr<HostTensor> ReadTensor(const std::string& path,
                                      const ReadOptions& options) {
  auto tensors = ReadTensors(path, options);
  if (!tensors.ok()) return tensors.status();
  if (tensors->size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": ", tensors->size(), " tensors where one is expected"));
  }
  return std::move(tensors->begin()->second);
}

absl::Status WriteTensors(const std::string& path, const TensorMap& tensors) {
  const auto format = FormatOf(path);
  if (!format.ok()) return format.status();
  return (*format)->write(path, tensors);
}

absl::Status CheckOutputFile(const std::string& path, int64_t count) {
  if (path.empty()) return absl::OkStatus();
  const auto format = FormatOf(path);
  if (!format.ok()) return format.status();
  if (count != 1 && (*format)->write == WriteNpyFile) {
    return HoldsOne(path, count);
  }
  return CheckWritable(path);
}

}  // namespace attn
