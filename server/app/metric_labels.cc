#include "server/app/metric_labels.h"

#include "absl/status/status.h"
#include "server/rpc/variant_name.h"

namespace attn {

std::vector<std::string> StatusCodeNames() {
  constexpr int kCodes = 17;
  std::vector<std::string> names;
  names.reserve(kCodes);
  for (int code = 0; code < kCodes; ++code) {
    names.push_back(
        absl::StatusCodeToString(static_cast<absl::StatusCode>(code)));
  }
  return names;
}

std::vector<MethodLabels> MethodsWithVariants(bool open_inference) {
  std::vector<std::string> variants = AllVariantNames();
  variants.emplace_back(kNoVariant);
  std::vector<MethodLabels> methods;
  for (const char* method : {"Attend", "AttendStream", "Inspect",
                             "AttendBackward", "Plan", "Step", "StepStream"}) {
    methods.push_back({method, variants});
  }
  for (const char* method :
       {"GetServerInfo", "PutLayer", "GetLayer", "ListLayers", "DeleteLayer",
        "OpenSession", "Fork", "Rollback", "CloseSession", "GetSession",
        "ListSessions"}) {
    methods.push_back({method, {kNoVariant}});
  }
  if (!open_inference) return methods;
  methods.push_back({"ModelInfer", variants});
  for (const char* method :
       {"ServerMetadata", "ModelMetadata", "RepositoryIndex"}) {
    methods.push_back({method, {kNoVariant}});
  }
  return methods;
}

}  // namespace attn
