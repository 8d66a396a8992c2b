// How many replicas a number of sessions needs, or holds.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "client/capacity/replica_model.h"

namespace attn {

inline constexpr int64_t kMostPlannedSessions = int64_t{1} << 40;
inline constexpr int64_t kMostPlannedReplicas = 1'000'000'000;

// A value.
struct CapacityPlan {
  int64_t sessions = 0;
  int64_t replicas = 0;
  // Of the replica that has the most, if they are spread evenly.
  int64_t sessions_per_replica = 0;
  // That a replica holds, and what keeps it from more.
  ReplicaModel::Most most;
  // Of the replica that has the most.
  std::vector<ReplicaFigure> figures;

  // Every need is met.
  bool fits() const { return sessions_per_replica <= most.sessions; }
  // For --max-session-bytes of each server.
  int64_t session_bytes_per_replica = 0;
};

// The fewest replicas for `sessions`. INVALID_ARGUMENT "sessions" if that is
// out of range, FAILED_PRECONDITION with what binds if no replica holds even
// one.
absl::StatusOr<CapacityPlan> PlanReplicas(const ReplicaModel& model,
                                          int64_t sessions);

// `sessions` spread over `replicas`; 0 sessions: as many as they hold.
absl::StatusOr<CapacityPlan> PlanSessions(const ReplicaModel& model,
                                          int64_t sessions, int64_t replicas);

}  // namespace attn
