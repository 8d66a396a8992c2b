#include "client/library/session_doubts.h"

#include "absl/strings/str_cat.h"

namespace attn {
namespace {

void Lower(int64_t position, std::optional<int64_t>& to) {
  to = std::min(position, to.value_or(position));
}

// Whether the server said that it did nothing and would not do it later.
bool IsRefusedForGood(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status);
}

}  // namespace

void SessionDoubts::StepFailed(int64_t position) { Lower(position, step_); }

std::optional<int64_t> SessionDoubts::agreed() const {
  std::optional<int64_t> lowest;
  for (const auto& from : {rollback_, missing_, step_}) {
    if (from.has_value()) Lower(*from, lowest);
  }
  return lowest;
}

absl::Status SessionDoubts::RollBack(int64_t position, absl::Time end,
                                     SessionPlace& place) {
  if (rollback_.has_value() && *rollback_ != position) {
    absl::Status settled = Send(*rollback_, end, place);
    if (!settled.ok() && rollback_.has_value()) return settled;
  }
  return Send(position, end, place);
}

absl::Status SessionDoubts::Restore(const ReplayHistory& history,
                                    const SessionPlaces& places, absl::Time end,
                                    SessionPlace& place) {
  std::optional<int64_t> from = agreed();
  if (!from.has_value()) return absl::OkStatus();
  if (*from < history.length() && !history.complete()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the server may have other tokens from ", *from,
        " on, as an answer never came, and its tokens cannot be sent again, as "
        "they have more than max_replay_bytes=",
        history.max_bytes(),
        " of k and v: make the call again that was not answered, or Rollback() "
        "to ",
        *from, " or less"));
  }
  if (rollback_.has_value()) {
    absl::Status settled = Send(*rollback_, end, place);
    if (!settled.ok() && rollback_.has_value()) return settled;
  }
  // None: it was refused now, and so it never was done.
  from = agreed();
  if (!from.has_value()) return absl::OkStatus();
  absl::Status status = Send(*from, end, place);
  if (status.ok()) status = places.Replay(history, *from, end, place);
  if (!status.ok()) return status;
  *this = {};
  return absl::OkStatus();
}

absl::Status SessionDoubts::Send(int64_t position, absl::Time end,
                                 SessionPlace& place) {
  rollback_ = position;
  const auto response =
      place.client.Rollback(place.id, place.epoch, position, RestUntil(end));
  if (!response.ok()) {
    if (IsRefusedForGood(response.status())) rollback_.reset();
    return response.status();
  }
  place.epoch = response->epoch();
  place.next_step = response->step();
  rollback_.reset();
  Lower(position, missing_);
  if (step_.has_value() && position <= *step_) step_.reset();
  return absl::OkStatus();
}

}  // namespace attn
