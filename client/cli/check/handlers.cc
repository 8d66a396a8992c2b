#include "client/cli/check/handlers.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace attn {
namespace {

constexpr char kSkipPayload[] = "attn.check/skip";

using Handler = absl::StatusOr<Outcome> (*)(const Case&, const Service&);

// An op has a handler, or the reason why it cannot have one yet.
struct HandlerRow {
  const char* op;
  Handler handler;
  const char* cannot_say;
};

constexpr HandlerRow kHandlers[] = {
    {"attention", HandleAttention, nullptr},
    {"attention_vjp", HandleAttention, nullptr},
    {"normalize", HandleLogits, nullptr},
    {"row_stats", HandleLogits, nullptr},
    {"decode", HandleDecode, nullptr},
    {"merge", HandleMerge, nullptr},
    {"lse_convert", HandleLseConvert, nullptr},
    {"alibi_slopes", HandleAlibiSlopes, nullptr},
    {"expect_error", HandleExpectError, nullptr},
    {"onnx_attention", HandleOnnxAttention, nullptr},
    {"ort_group_query_attention", HandleOrtGroupQuery, nullptr},
    {"ort_multihead_attention", HandleOrtMultiHead, nullptr},
    {"onnx_rotaryembedding", HandleOnnxRotary, nullptr},
    {"onnx_linearattention", HandleOnnxLinearAttention, nullptr},
    {"onnx_flexattention", HandleFlexAttention, nullptr},
    {"normalize_vjp", HandleLogits, nullptr},
    {"score", HandleScore, nullptr},
    {"score_and_normalize", HandleScore, nullptr},
    {"t5_bucket", HandleT5Bucket, nullptr},
    {"rope", HandleRope, nullptr},
    {"mha_vjp", HandleMultiHeadModule, nullptr},
    {"mla", HandleLatent, nullptr},
    {"rng_known_answer", nullptr,
     "words of Philox4x64-10: the service draws with Philox4x32-10"},
};

}  // namespace

absl::Status Skip(absl::string_view what) {
  absl::Status status = absl::UnimplementedError(what);
  status.SetPayload(kSkipPayload, absl::Cord());
  return status;
}

std::string SkipReason(const absl::Status& status) {
  if (!status.GetPayload(kSkipPayload).has_value()) return "";
  return std::string(status.message());
}

absl::StatusOr<Outcome> RunCase(const Case& tested, const Service& service) {
  for (const HandlerRow& row : kHandlers) {
    if (tested.op != row.op) continue;
    if (row.handler == nullptr) return Skip(row.cannot_say);
    return row.handler(tested, service);
  }
  return Skip(absl::StrCat("op ", tested.op));
}

}  // namespace attn
