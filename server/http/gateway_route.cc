#include "server/http/gateway_route.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/core/field_error.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/dynamic_message.h"
#include "google/protobuf/util/json_util.h"
#include "google/protobuf/util/type_resolver_util.h"
#include "nlohmann/json.hpp"

namespace attn {
namespace {

namespace pb = google::protobuf;

constexpr char kTypes[] = "type.googleapis.com";

// Of the schema that is compiled in.
pb::util::TypeResolver& Types() {
  static pb::util::TypeResolver* const kResolver =
      pb::util::NewTypeResolverForDescriptorPool(
          kTypes, pb::DescriptorPool::generated_pool());
  return *kResolver;
}

std::string TypeUrl(const char* message) {
  return absl::StrCat(kTypes, "/", message);
}

absl::Status DoesNotFit(absl::string_view field, absl::string_view value,
                        absl::string_view expected) {
  return FieldError(field, absl::StrCat("\"", value, "\""), expected);
}

// Protobuf shows the place in lines of its own: what, where, and a mark below.
std::string InOneLine(absl::string_view message) {
  const std::vector<absl::string_view> lines =
      absl::StrSplit(message, '\n', absl::SkipWhitespace());
  if (lines.size() < 2) return std::string(lines.empty() ? "" : lines.front());
  return absl::StrCat(lines[0], " at ", absl::StripAsciiWhitespace(lines[1]));
}

bool IsUtf8(const std::string& text) {
  using Handler = nlohmann::json::error_handler_t;
  const nlohmann::json json(text);
  // What is left out is what there is no character for.
  return json.dump(-1, ' ', false, Handler::ignore) ==
         json.dump(-1, ' ', false, Handler::replace);
}

// Sets a field from a word of the query or of the path.
absl::Status SetField(const std::string& name, const std::string& value,
                      pb::Message& message) {
  const pb::Descriptor& type = *message.GetDescriptor();
  const pb::FieldDescriptor* field = type.FindFieldByName(name);
  if (field == nullptr) field = type.FindFieldByCamelcaseName(name);
  if (field == nullptr || field->is_repeated()) {
    return DoesNotFit(name, value,
                      absl::StrCat("no field of that name in ", type.name()));
  }
  if (!IsUtf8(value)) return DoesNotFit(name, value, "UTF-8");
  const pb::Reflection& reflection = *message.GetReflection();
  switch (field->cpp_type()) {
    case pb::FieldDescriptor::CPPTYPE_STRING:
      reflection.SetString(&message, field, value);
      return absl::OkStatus();
    case pb::FieldDescriptor::CPPTYPE_BOOL:
      if (value != "true" && value != "false") {
        return DoesNotFit(name, value, "true or false");
      }
      reflection.SetBool(&message, field, value == "true");
      return absl::OkStatus();
    case pb::FieldDescriptor::CPPTYPE_INT32: {
      int32_t number = 0;
      if (!absl::SimpleAtoi(value, &number)) {
        return DoesNotFit(name, value, "an integer of 32 bits");
      }
      reflection.SetInt32(&message, field, number);
      return absl::OkStatus();
    }
    default:
      return DoesNotFit(name, value, "a field that a query can hold");
  }
}

// What the path and the query say.
absl::StatusOr<std::string> EncodeWords(const GatewayRoute& route,
                                        const HttpRequest& request) {
  const pb::Descriptor* type =
      pb::DescriptorPool::generated_pool()->FindMessageTypeByName(
          route.request);
  const std::unique_ptr<pb::Message> message(
      pb::MessageFactory::generated_factory()->GetPrototype(type)->New());
  for (const auto& [name, value] : request.query) {
    absl::Status status = SetField(name, value, *message);
    if (!status.ok()) return status;
  }
  if (route.has_name()) {
    const absl::string_view path = route.path;
    absl::Status status =
        SetField(route.name_field, request.path.substr(path.size()), *message);
    if (!status.ok()) return status;
  }
  return message->SerializeAsString();
}

}  // namespace

bool GatewayRoute::has_name() const {
  return absl::EndsWith(absl::string_view(path), "/");
}

bool GatewayRoute::has_body() const {
  return absl::string_view(method) == "POST" ||
         absl::string_view(method) == "PUT";
}

const std::vector<GatewayRoute>& GatewayRoutes() {
  static const std::vector<GatewayRoute> kRoutes = {
      {"POST", "/v1/attend", "/attention.v1.AttentionService/Attend",
       "attention.v1.AttendRequest", "attention.v1.AttendResponse"},
      {"POST", "/v1/attend_backward",
       "/attention.v1.AttentionService/AttendBackward",
       "attention.v1.AttendBackwardRequest",
       "attention.v1.AttendBackwardResponse"},
      {"POST", "/v1/inspect", "/attention.v1.AttentionService/Inspect",
       "attention.v1.InspectRequest", "attention.v1.InspectResponse"},
      {"POST", "/v1/plan", "/attention.v1.AttentionService/Plan",
       "attention.v1.PlanRequest", "attention.v1.PlanResponse"},
      {"GET", "/v1/server_info", "/attention.v1.AttentionService/GetServerInfo",
       "attention.v1.GetServerInfoRequest",
       "attention.v1.GetServerInfoResponse"},
      {"GET", "/v1/layers", "/attention.v1.LayerService/ListLayers",
       "attention.v1.ListLayersRequest", "attention.v1.ListLayersResponse"},
      {"PUT", "/v1/layers/", "/attention.v1.LayerService/PutLayer",
       "attention.v1.PutLayerRequest", "attention.v1.PutLayerResponse", "name"},
      {"GET", "/v1/layers/", "/attention.v1.LayerService/GetLayer",
       "attention.v1.GetLayerRequest", "attention.v1.GetLayerResponse", "name"},
      {"DELETE", "/v1/layers/", "/attention.v1.LayerService/DeleteLayer",
       "attention.v1.DeleteLayerRequest", "attention.v1.DeleteLayerResponse",
       "name"},
      {"POST", "/v1/sessions", "/attention.v1.SessionService/OpenSession",
       "attention.v1.OpenSessionRequest", "attention.v1.OpenSessionResponse"},
      {"GET", "/v1/sessions", "/attention.v1.SessionService/ListSessions",
       "attention.v1.ListSessionsRequest", "attention.v1.ListSessionsResponse"},
      {"GET", "/v1/sessions/", "/attention.v1.SessionService/GetSession",
       "attention.v1.GetSessionRequest", "attention.v1.GetSessionResponse",
       "session_id"},
      {"DELETE", "/v1/sessions/", "/attention.v1.SessionService/CloseSession",
       "attention.v1.CloseSessionRequest", "attention.v1.CloseSessionResponse",
       "session_id"},
      {"POST", "/v1/step", "/attention.v1.SessionService/Step",
       "attention.v1.StepRequest", "attention.v1.StepResponse"},
      {"POST", "/v1/fork", "/attention.v1.SessionService/Fork",
       "attention.v1.ForkRequest", "attention.v1.ForkResponse"},
      {"POST", "/v1/rollback", "/attention.v1.SessionService/Rollback",
       "attention.v1.RollbackRequest", "attention.v1.RollbackResponse"},
  };
  return kRoutes;
}

std::vector<const GatewayRoute*> RoutesOf(absl::string_view path) {
  std::vector<const GatewayRoute*> found;
  for (const GatewayRoute& route : GatewayRoutes()) {
    const absl::string_view own = route.path;
    const bool fits = route.has_name() ? path.size() > own.size() &&
                                             absl::StartsWith(path, own)
                                       : path == own;
    if (fits) found.push_back(&route);
  }
  return found;
}

absl::StatusOr<std::string> EncodeGatewayRequest(const GatewayRoute& route,
                                                 HttpRequest& request) {
  auto words = EncodeWords(route, request);
  if (!words.ok()) return words.status();
  std::string bytes;
  const std::string json = std::exchange(request.body, {});
  if (!json.empty()) {
    const auto status = pb::util::JsonToBinaryString(
        &Types(), TypeUrl(route.request), json, &bytes);
    if (!status.ok()) {
      return FieldError(
          "body",
          absl::StrCat("text of which protobuf says \"",
                       InOneLine(status.message().ToString()), "\""),
          absl::StrCat(route.request, " in protobuf's JSON mapping"));
    }
  }
  // Messages that are joined are merged: what came last counts.
  bytes += *words;
  return bytes;
}

absl::StatusOr<std::string> GatewayJson(const GatewayRoute& route,
                                        const std::string& message) {
  std::string json;
  const auto status = pb::util::BinaryToJsonString(
      &Types(), TypeUrl(route.response), message, &json);
  if (!status.ok()) {
    return absl::InternalError(
        absl::StrCat("the response cannot be written as JSON: ",
                     status.message().ToString()));
  }
  json += '\n';
  return json;
}

}  // namespace attn
