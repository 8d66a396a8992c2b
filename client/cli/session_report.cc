#include "client/cli/session_report.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/attend_report.h"
#include "client/cli/protobuf_json.h"
#include "client/cli/text_table.h"
#include "client/load/time_text.h"

namespace attn {
namespace {

std::string MillisText(int64_t millis) {
  constexpr double kNanosOfMilli = 1e6;
  return FormatNanos(static_cast<double>(millis) * kNanosOfMilli);
}

std::string BytesText(int64_t bytes) {
  return FormatBytes(static_cast<double>(bytes));
}

std::string KvTypeName(v1::DataType dtype) {
  constexpr size_t kPrefix = sizeof("DATA_TYPE_") - 1;
  const std::string& name = v1::DataType_Name(dtype);
  return name.size() > kPrefix ? name.substr(kPrefix) : absl::StrCat(dtype);
}

// "7", or "7 to 9" where the layers differ.
std::string TokensText(const v1::SessionInfo& session) {
  const auto& lengths = session.lengths();
  if (lengths.empty()) return "0";
  const auto [least, most] =
      std::minmax_element(lengths.begin(), lengths.end());
  if (*least == *most) return absl::StrCat(*least);
  return absl::StrCat(*least, " to ", *most);
}

std::string HeadsText(const v1::SessionInfo& session) {
  return absl::StrCat(session.q_heads(), "/", session.kv_heads());
}

}  // namespace

std::string DescribeSession(const v1::SessionInfo& session) {
  TextTable facts({"session", session.session_id()});
  facts.AddRow({"epoch", absl::StrCat(session.epoch())});
  facts.AddRow({"next step", absl::StrCat(session.next_step())});
  facts.AddRow({"layers", absl::StrCat(session.lengths_size())});
  facts.AddRow({"tokens", TokensText(session)});
  facts.AddRow({"heads of q/kv", HeadsText(session)});
  facts.AddRow({"elements of q, k, v",
                absl::StrCat(session.q_dim(), ", ", session.k_dim(), ", ",
                             session.v_dim())});
  facts.AddRow({"kept as", KvTypeName(session.kv_dtype())});
  facts.AddRow({"most tokens", session.max_tokens() == 0
                                   ? "as the server has room"
                                   : absl::StrCat(session.max_tokens())});
  facts.AddRow({"memory", BytesText(session.bytes())});
  facts.AddRow({"of it not shared", BytesText(session.own_bytes())});
  facts.AddRow({"idle", MillisText(session.idle_ms())});
  facts.AddRow({"may be idle", MillisText(session.idle_timeout_ms())});
  facts.AddRow({"age", MillisText(session.age_ms())});
  facts.AddRow({"pipeline", session.pipeline()});
  return facts.ToString();
}

std::string DescribeSessions(const std::vector<v1::SessionInfo>& sessions) {
  TextTable table({"session", "epoch", "step", "layers", "tokens",
                   "heads of q/kv", "kept as", "size", "idle"});
  for (const v1::SessionInfo& session : sessions) {
    table.AddRow({session.session_id(), absl::StrCat(session.epoch()),
                  absl::StrCat(session.next_step()),
                  absl::StrCat(session.lengths_size()), TokensText(session),
                  HeadsText(session), KvTypeName(session.kv_dtype()),
                  BytesText(session.bytes()), MillisText(session.idle_ms())});
  }
  return table.ToString();
}

std::string StepTensorName(const std::string& name, int layer, bool several) {
  return several ? absl::StrCat(name, ".", layer) : name;
}

absl::StatusOr<std::vector<LayerOutput>> OutputsOf(const StepMessage& message,
                                                   const StepResult& result) {
  if (result.tensors.size() != message.layers.size()) {
    return absl::InternalError(
        absl::StrCat("the answer has ", result.tensors.size(), " outputs for ",
                     message.layers.size(), " layers"));
  }
  std::vector<LayerOutput> outputs;
  for (size_t i = 0; i < result.tensors.size(); ++i) {
    const ResponseTensor& tensor = result.tensors[i];
    const TensorView view =
        TensorView::Dense(tensor.data.data(), tensor.dtype, tensor.shape);
    outputs.push_back({message.layers[i].layer, HostTensor::Copy(view)});
  }
  return outputs;
}

std::string DescribeStep(const std::string& session_id,
                         const v1::StepResponse& header,
                         const std::vector<LayerOutput>& outputs) {
  std::string text = absl::StrCat(
      session_id, ": made step ", header.step(), " of epoch ", header.epoch(),
      "; next step ", header.step() + 1, ", ", header.length(), " tokens\n");
  for (const LayerOutput& part : outputs) {
    text += DescribeTensor(
        StepTensorName("output", part.layer, outputs.size() > 1), part.output);
  }
  return text + DescribeReport(header.report());
}

nlohmann::json StepToJson(const std::string& session_id,
                          const v1::StepResponse& header,
                          const std::vector<LayerOutput>& outputs) {
  nlohmann::json document = ToJson(header);
  document["session_id"] = session_id;
  document["next_step"] = header.step() + 1;
  document["output"] = nlohmann::json::array();
  for (const LayerOutput& part : outputs) {
    nlohmann::json summary = SummaryToJson(part.output);
    summary["layer"] = part.layer;
    document["output"].push_back(std::move(summary));
  }
  return document;
}

}  // namespace attn
