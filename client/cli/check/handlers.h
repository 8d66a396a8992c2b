// How each op of the case format is put to the service.
#pragma once

#include "absl/status/statusor.h"
#include "client/cli/check/case.h"
#include "client/cli/check/outcome.h"
#include "client/cli/check/service.h"

namespace attn {

// Finds the op's handler in the table and runs it. Skip() if the wire cannot
// say the case; any other error is a failure of the case.
absl::StatusOr<Outcome> RunCase(const Case& tested, const Service& service);

// The handlers. One for each way of reading a case.
absl::StatusOr<Outcome> HandleAttention(const Case& tested,
                                        const Service& service);
absl::StatusOr<Outcome> HandleExpectError(const Case& tested,
                                          const Service& service);
// Logits are given, not q and k.
absl::StatusOr<Outcome> HandleLogits(const Case& tested,
                                     const Service& service);
absl::StatusOr<Outcome> HandleDecode(const Case& tested,
                                     const Service& service);
absl::StatusOr<Outcome> HandleMerge(const Case& tested, const Service& service);
absl::StatusOr<Outcome> HandleLseConvert(const Case& tested,
                                         const Service& service);
absl::StatusOr<Outcome> HandleAlibiSlopes(const Case& tested,
                                          const Service& service);
absl::StatusOr<Outcome> HandleOnnxAttention(const Case& tested,
                                            const Service& service);
absl::StatusOr<Outcome> HandleOrtGroupQuery(const Case& tested,
                                            const Service& service);
absl::StatusOr<Outcome> HandleOrtMultiHead(const Case& tested,
                                           const Service& service);
absl::StatusOr<Outcome> HandleOnnxLinearAttention(const Case& tested,
                                                  const Service& service);
absl::StatusOr<Outcome> HandleOnnxRotary(const Case& tested,
                                         const Service& service);
absl::StatusOr<Outcome> HandleFlexAttention(const Case& tested,
                                            const Service& service);
// Scores alone.
absl::StatusOr<Outcome> HandleScore(const Case& tested, const Service& service);
absl::StatusOr<Outcome> HandleT5Bucket(const Case& tested,
                                       const Service& service);
absl::StatusOr<Outcome> HandleRope(const Case& tested, const Service& service);
// Modules, whose projections are the client's part.
absl::StatusOr<Outcome> HandleMultiHeadModule(const Case& tested,
                                              const Service& service);
absl::StatusOr<Outcome> HandleLatent(const Case& tested,
                                     const Service& service);

// Reads params and inputs of an attention case. Shared by the handlers above.
absl::StatusOr<ServiceCall> ReadAttentionCall(const Case& tested);

}  // namespace attn
