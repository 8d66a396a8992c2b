#include "client/cli/layer_command.h"

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "client/cli/protobuf_json.h"
#include "client/cli/text_table.h"
#include "client/io/tensor_file.h"
#include "client/library/layer_client.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

constexpr char kLayerFooter[] = R"(
A layer is a set of named tensors. A call's spec points to one of them by the
layer's and the tensor's name. A server with --layer-dir keeps them on disk.

Examples:
  attn layer put bahdanau weights.safetensors
  attn layer put bahdanau v=v.npy w_q=wq.npy w_k=wk.npy
  attn layer list
  attn layer get bahdanau --output weights.safetensors
  attn layer delete bahdanau)";

struct LayerFlags {
  std::string name;
  std::vector<std::string> sources;
  std::string output;
};

absl::StatusOr<LayerClient> LayerClientOf(const GlobalOptions& options) {
  return LayerClient::Connect(options.client());
}

// "NAME=FILE" is the only tensor of a file under another name; "FILE" is all
// of a file's tensors.
absl::Status ReadSource(const std::string& source, TensorMap& tensors) {
  const size_t equals = source.find('=');
  TensorMap read;
  if (equals != std::string::npos) {
    auto tensor = ReadTensor(source.substr(equals + 1));
    if (!tensor.ok()) return tensor.status();
    read.emplace(source.substr(0, equals), *std::move(tensor));
  } else {
    auto file = ReadTensors(source);
    if (!file.ok()) return file.status();
    read = *std::move(file);
  }
  for (auto& [name, tensor] : read) {
    if (name.empty()) {
      return FieldError(source, "a tensor without a name", "NAME=FILE.npy");
    }
    if (!tensors.emplace(name, std::move(tensor)).second) {
      return FieldError(source, absl::StrCat("a second tensor \"", name, "\""),
                        "names of their own");
    }
  }
  return absl::OkStatus();
}

std::string ShapeOf(const v1::TensorInfo& tensor) {
  std::string text = "[";
  for (const int64_t extent : tensor.shape()) {
    absl::StrAppend(&text, text.size() > 1 ? ", " : "", extent);
  }
  return text + "]";
}

std::string DTypeName(v1::DataType dtype) {
  constexpr size_t kPrefix = sizeof("DATA_TYPE_") - 1;
  return v1::DataType_Name(dtype).substr(kPrefix);
}

void PrintLayer(const v1::LayerInfo& layer, const GlobalOptions& options) {
  if (options.json) {
    std::puts(ToJson(layer).dump(2).c_str());
    return;
  }
  std::printf("%s: version %llu, %s\n", layer.name().c_str(),
              static_cast<unsigned long long>(layer.version()),
              FormatBytes(static_cast<double>(layer.bytes())).c_str());
  TextTable table({"tensor", "dtype", "shape"});
  for (const v1::NamedTensorInfo& tensor : layer.tensors()) {
    table.AddRow({tensor.name(), DTypeName(tensor.tensor().dtype()),
                  ShapeOf(tensor.tensor())});
  }
  std::fputs(table.ToString().c_str(), stdout);
}

ExitCode RunPut(const LayerFlags& flags, const GlobalOptions& options) {
  TensorMap tensors;
  for (const std::string& source : flags.sources) {
    absl::Status status = ReadSource(source, tensors);
    if (!status.ok()) return ReportUsageError(status);
  }
  std::vector<NamedView> views;
  for (const auto& [name, tensor] : tensors) {
    views.push_back({name, tensor.view()});
  }
  const auto client = LayerClientOf(options);
  if (!client.ok()) return ReportUsageError(client.status());
  const auto layer = client->Put(flags.name, views);
  if (!layer.ok()) return ReportCallError(layer.status());
  PrintLayer(*layer, options);
  return ExitCode::kOk;
}

ExitCode RunGet(const LayerFlags& flags, const GlobalOptions& options) {
  const auto client = LayerClientOf(options);
  if (!client.ok()) return ReportUsageError(client.status());
  if (flags.output.empty()) {
    const auto layer = client->Describe(flags.name);
    if (!layer.ok()) return ReportCallError(layer.status());
    PrintLayer(*layer, options);
    return ExitCode::kOk;
  }
  auto layer = client->Get(flags.name);
  if (!layer.ok()) return ReportCallError(layer.status());
  TensorMap tensors;
  for (auto& [name, tensor] : layer->tensors) {
    tensors.emplace(name, std::move(tensor));
  }
  absl::Status written = WriteTensors(flags.output, tensors);
  if (!written.ok()) return ReportUsageError(written);
  PrintLayer(layer->info, options);
  return ExitCode::kOk;
}

ExitCode RunList(const GlobalOptions& options) {
  const auto client = LayerClientOf(options);
  if (!client.ok()) return ReportUsageError(client.status());
  const auto layers = client->List();
  if (!layers.ok()) return ReportCallError(layers.status());
  if (options.json) {
    nlohmann::json document = nlohmann::json::array();
    for (const v1::LayerInfo& layer : *layers) {
      document.push_back(ToJson(layer));
    }
    std::puts(document.dump(2).c_str());
    return ExitCode::kOk;
  }
  TextTable table({"layer", "version", "tensors", "size"});
  for (const v1::LayerInfo& layer : *layers) {
    table.AddRow({layer.name(), absl::StrCat(layer.version()),
                  absl::StrCat(layer.tensors_size()),
                  FormatBytes(static_cast<double>(layer.bytes()))});
  }
  std::fputs(table.ToString().c_str(), stdout);
  return ExitCode::kOk;
}

ExitCode RunDelete(const LayerFlags& flags, const GlobalOptions& options) {
  const auto client = LayerClientOf(options);
  if (!client.ok()) return ReportUsageError(client.status());
  const absl::Status status = client->Delete(flags.name);
  return status.ok() ? ExitCode::kOk : ReportCallError(status);
}

}  // namespace

void AddLayerCommand(CLI::App& app, GlobalOptions& options) {
  CLI::App* command =
      app.add_subcommand("layer", "Keep tensors on the server, by name");
  command->footer(kLayerFooter);
  command->fallthrough();
  command->require_subcommand(1);
  auto flags = std::make_shared<LayerFlags>();
  CLI::App* put = command->add_subcommand("put", "Make or replace a layer");
  put->add_option("name", flags->name, "The layer")->required();
  put->add_option("tensors", flags->sources,
                  "FILE.safetensors, .npz or .json, or NAME=FILE.npy")
      ->required();
  put->callback([flags, &options] {
    options.run = [flags, &options] { return RunPut(*flags, options); };
  });
  CLI::App* get = command->add_subcommand("get", "Describe or fetch a layer");
  get->add_option("name", flags->name, "The layer")->required();
  get->add_option("--output", flags->output,
                  "Write the tensors here: .safetensors, .npz, .json, .npy");
  get->callback([flags, &options] {
    options.run = [flags, &options] { return RunGet(*flags, options); };
  });
  command->add_subcommand("list", "List the layers")->callback([&options] {
    options.run = [&options] { return RunList(options); };
  });
  CLI::App* remove = command->add_subcommand("delete", "Forget a layer");
  remove->add_option("name", flags->name, "The layer")->required();
  remove->callback([flags, &options] {
    options.run = [flags, &options] { return RunDelete(*flags, options); };
  });
  for (CLI::App* sub : command->get_subcommands({})) sub->fallthrough();
}

}  // namespace attn
