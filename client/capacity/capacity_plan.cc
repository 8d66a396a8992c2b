#include "client/capacity/capacity_plan.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

int64_t CeilOfQuotient(int64_t a, int64_t b) { return a / b + (a % b != 0); }

absl::Status CheckCount(const char* name, int64_t value, int64_t most) {
  if (value >= 1 && value <= most) return absl::OkStatus();
  return FieldError(name, absl::StrCat(value), absl::StrCat("1 to ", most));
}

// Of the first limit that one session alone is beyond.
absl::Status NotEvenOne(const ReplicaModel& model) {
  for (const ReplicaFigure& figure : model.Figures(1)) {
    if (figure.fits()) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("no replica holds even one session: ",
                     std::string(NameOf(figure.limit)), " needs ", figure.need,
                     ", and there is ", figure.capacity * figure.share));
  }
  return absl::InternalError("one session fits");
}

CapacityPlan Spread(const ReplicaModel& model, int64_t sessions,
                    int64_t replicas) {
  CapacityPlan plan;
  plan.most = model.MostSessions();
  plan.sessions = sessions;
  plan.replicas = replicas;
  plan.sessions_per_replica = CeilOfQuotient(sessions, replicas);
  const auto held = static_cast<double>(plan.sessions_per_replica);
  plan.figures = model.Figures(held);
  plan.session_bytes_per_replica =
      static_cast<int64_t>(std::ceil(held * model.session().memory_bytes));
  return plan;
}

}  // namespace

absl::StatusOr<CapacityPlan> PlanReplicas(const ReplicaModel& model,
                                          int64_t sessions) {
  const absl::Status checked =
      CheckCount("sessions", sessions, kMostPlannedSessions);
  if (!checked.ok()) return checked;
  const ReplicaModel::Most most = model.MostSessions();
  if (most.sessions == 0) return NotEvenOne(model);
  return Spread(model, sessions, CeilOfQuotient(sessions, most.sessions));
}

absl::StatusOr<CapacityPlan> PlanSessions(const ReplicaModel& model,
                                          int64_t sessions, int64_t replicas) {
  absl::Status checked = CheckCount("replicas", replicas, kMostPlannedReplicas);
  if (checked.ok() && sessions != 0) {
    checked = CheckCount("sessions", sessions, kMostPlannedSessions);
  }
  if (!checked.ok()) return checked;
  const ReplicaModel::Most most = model.MostSessions();
  if (most.sessions == 0) return NotEvenOne(model);
  return Spread(model, sessions != 0 ? sessions : most.sessions * replicas,
                replicas);
}

}  // namespace attn
