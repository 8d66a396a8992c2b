// ONNX FlexAttention: functions of scores and weights, given as graphs.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/check/graph_program.h"
#include "client/cli/check/handlers.h"

namespace attn {
namespace {

using nlohmann::json;

absl::Status ApplyScoreGraph(const json& graph, ServiceCall& call) {
  auto program = TranslateGraph(graph, "score");
  if (!program.ok()) return program.status();
  if (!program->value.empty()) {
    call.spec.score_program =
        ProgramSpec{.source = std::move(program->value), .tables = {}};
  }
  if (!program->mask.empty()) {
    ProgramMask mask;
    mask.program.source = std::move(program->mask);
    call.spec.masks.emplace_back(std::move(mask));
  }
  return absl::OkStatus();
}

absl::Status ApplyWeightGraph(const json& graph, ServiceCall& call) {
  auto program = TranslateGraph(graph, "weight");
  if (!program.ok()) return program.status();
  if (!program->mask.empty()) return Skip("a graph that masks weights");
  if (!program->value.empty()) {
    call.spec.weight_program =
        ProgramSpec{.source = std::move(program->value), .tables = {}};
  }
  return absl::OkStatus();
}

absl::Status ApplyAttributes(const json& attributes, ServiceCall& call) {
  for (const auto& [name, value] : attributes.items()) {
    absl::Status status = Skip(absl::StrCat("attribute ", name));
    if (name == "score_mod") status = ApplyScoreGraph(value, call);
    if (name == "prob_mod") status = ApplyWeightGraph(value, call);
    if (name == "scale" && value.is_number()) {
      call.spec.score =
          DotScore{.scale = value.get<double>(), .learned_scale = std::nullopt};
      status = absl::OkStatus();
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Outcome> HandleFlexAttention(const Case& tested,
                                            const Service& service) {
  ServiceCall call;
  HostTensor* targets[] = {&call.q, &call.k, &call.v};
  const char* names[] = {"q", "k", "v"};
  for (size_t i = 0; i < 3; ++i) {
    const HostTensor* input = tested.Input(names[i]);
    if (input == nullptr)
      return Skip(absl::StrCat("a case without ", names[i]));
    *targets[i] = HostTensor::Copy(input->view());
  }
  absl::Status status =
      ApplyAttributes(tested.params.value("attributes", json::object()), call);
  if (!status.ok()) return status;
  const json types = tested.params.value("onnx_dtypes", json::object());
  if (types.value("q", "") == "float16") call.storage = DType::kF16;
  auto outputs = service.Attend(call, {"output"});
  if (!outputs.ok()) return outputs.status();
  Outcome outcome;
  outcome.got["y"] = std::move(outputs->at("output"));
  return outcome;
}

}  // namespace attn
