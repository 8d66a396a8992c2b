#include "client/cli/layer_command.h"

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "client/cli/choices.h"
#include "client/cli/protobuf_json.h"
#include "client/cli/text_table.h"
#include "client/cli/waiting_line.h"
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
  attn layer list
  attn layer get bahdanau --output copy.safetensors
  attn layer delete bahdanau)";

constexpr char kPutFooter[] = R"(
FILE.safetensors, .npz and .json are all of a file's tensors by their names;
NAME=FILE is the only tensor of a file under that name.

Examples:
  attn layer put bahdanau weights.safetensors
  attn layer put bahdanau w_q=w_q.npy w_k=w_k.npy --json)";

constexpr char kGetFooter[] = R"(
Examples:
  attn layer get bahdanau
  attn layer get bahdanau --output copy.safetensors --json)";

constexpr char kListFooter[] = R"(
Examples:
  attn layer list
  attn layer list --json)";

constexpr char kDeleteFooter[] = R"(
Examples:
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
  const auto layer = [&] {
    const WaitingLine waiting("attn layer put");
    return client->Put(flags.name, views);
  }();
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
  absl::Status writable = CheckOutputFile(flags.output, 1);
  if (!writable.ok()) return ReportUsageError(writable);
  auto layer = [&] {
    const WaitingLine waiting("attn layer get");
    return client->Get(flags.name);
  }();
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
  if (!status.ok()) return ReportCallError(status);
  if (options.json) {
    const nlohmann::json document = {{"name", flags.name}, {"deleted", true}};
    std::puts(document.dump(2).c_str());
  } else {
    std::printf("%s: deleted\n", flags.name.c_str());
  }
  return ExitCode::kOk;
}

// A command below `layer`.
CLI::App* AddLayerPart(CLI::App& layer, const char* name, const char* summary,
                       const char* footer) {
  CLI::App* part = layer.add_subcommand(name, summary);
  part->footer(footer);
  part->fallthrough();
  return part;
}

void AddName(CLI::App& part, LayerFlags& flags) {
  part.add_option("name", flags.name, "The layer")
      ->type_name("NAME")
      ->required();
}

}  // namespace

void AddLayerCommand(CLI::App& app, GlobalOptions& options) {
  CLI::App* command =
      app.add_subcommand("layer", "Keep tensors on the server, by name");
  command->footer(kLayerFooter);
  command->fallthrough();
  command->require_subcommand(1);
  auto flags = std::make_shared<LayerFlags>();
  CLI::App* put =
      AddLayerPart(*command, "put", "Make or replace a layer", kPutFooter);
  AddName(*put, *flags);
  put->add_option("tensors", flags->sources, "FILE or NAME=FILE")
      ->type_name(kNamedFileType)
      ->required();
  put->callback([flags, &options] {
    options.run = [flags, &options] { return RunPut(*flags, options); };
  });
  CLI::App* get =
      AddLayerPart(*command, "get", "Describe or fetch a layer", kGetFooter);
  AddName(*get, *flags);
  get->add_option("--output", flags->output,
                  "Write the tensors: .safetensors, .npz, .json or .npy")
      ->type_name(kFileType);
  get->callback([flags, &options] {
    options.run = [flags, &options] { return RunGet(*flags, options); };
  });
  AddLayerPart(*command, "list", "List the layers of the server", kListFooter)
      ->callback([&options] {
        options.run = [&options] { return RunList(options); };
      });
  CLI::App* remove =
      AddLayerPart(*command, "delete", "Forget a layer", kDeleteFooter);
  AddName(*remove, *flags);
  remove->callback([flags, &options] {
    options.run = [flags, &options] { return RunDelete(*flags, options); };
  });
}

}  // namespace attn
