#include "server/sessions/session_spiller.h"

#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/runtime/out_of_memory.h"
#include "server/sessions/session_errors.h"

namespace attn {
namespace {

absl::Duration NotNegative(absl::Duration time) {
  return std::max(time, absl::ZeroDuration());
}

SessionRecord RecordOf(const SessionEntry& entry, absl::Time now) {
  const SessionState& state = entry.state;
  SessionRecord record;
  record.id = entry.id;
  record.tenant = entry.shelf->tenant;
  record.opening = entry.settings->opening;
  record.epoch = state.epoch;
  record.next_step = state.next_step;
  record.rolled_back_to = state.rolled_back_to;
  if (state.last.has_value()) {
    record.last = RecordedAnswer{.step = state.last->step,
                                 .digest = state.last->digest,
                                 .kept = state.last->message.has_value()};
  }
  record.idle = NotNegative(now - entry.last_used);
  record.age = NotNegative(now - entry.opened);
  record.block_bytes = entry.settings->layout.block_bytes();
  for (const KvSequence& layer : state.layers) {
    record.layers.push_back(layer.extent());
  }
  return record;
}

SessionState StateOf(const SessionRecord& record,
                     std::vector<KvSequence> layers) {
  SessionState state;
  state.epoch = record.epoch;
  state.next_step = record.next_step;
  state.layers = std::move(layers);
  state.rolled_back_to = record.rolled_back_to;
  if (record.last.has_value()) {
    state.last =
        SessionAnswer{.step = record.last->step, .digest = record.last->digest};
  }
  return state;
}

// Whether blocks and layers are those of the settings.
bool Fits(const SessionRecord& record, const SessionSettings& settings) {
  return record.block_bytes == settings.layout.block_bytes() &&
         std::ssize(record.layers) == settings.layers;
}

}  // namespace

SessionSpiller::SessionSpiller(std::unique_ptr<SessionDirectory> directory,
                               SpillOptions options)
    : directory_(std::move(directory)), options_(std::move(options)) {}

std::vector<FoundSession> SessionSpiller::Find() {
  // Most sessions of a server are opened alike.
  KnownSettings known;
  std::vector<FoundSession> sessions;
  for (const std::string& id : directory_->found()) {
    auto found = FindOne(id, known);
    if (found.ok()) {
      sessions.push_back(*std::move(found));
      continue;
    }
    const bool damaged = absl::IsDataLoss(found.status());
    Count(damaged ? SpillError::kDamaged : SpillError::kRead);
    options_.report(absl::StrCat("session ", id,
                                 " is not served: ", found.status().message()));
    if (damaged) directory_->SetAside(id, 0);
  }
  return sessions;
}

absl::StatusOr<FoundSession> SessionSpiller::FindOne(const std::string& id,
                                                     KnownSettings& known) {
  auto file = directory_->Read(id);
  if (!file.ok()) return file.status();
  const SessionRecord& record = file->record();
  auto& settings = known[record.opening];
  if (settings == nullptr) {
    auto made = options_.codec.settings(record.opening);
    if (!made.ok()) return absl::DataLossError(made.status().message());
    settings = *std::move(made);
  }
  if (!Fits(record, *settings)) {
    return absl::DataLossError(
        "its layers are not those that it was opened with");
  }
  directory_->Count(file->bytes());
  const absl::Duration away =
      NotNegative(options_.wall_clock() - record.written);
  return FoundSession{
      .entry = std::make_shared<SessionEntry>(settings, record, file->bytes()),
      .tenant = record.tenant,
      .idle = record.idle + away,
      .age = record.age + away};
}

bool SessionSpiller::Spill(SessionEntry& entry, absl::Time now) {
  absl::StatusOr<int64_t> bytes = Write(entry, now);
  if (bytes.ok()) {
    ++spills_;
    failing_ = false;
    entry.Spilled(*bytes);
    return true;
  }
  const bool full = absl::IsResourceExhausted(bytes.status());
  Count(full ? SpillError::kFull : SpillError::kWrite);
  if (!failing_.exchange(true)) {
    options_.report(
        absl::StrCat("sessions are not spilled: ", bytes.status().message()));
  }
  return false;
}

absl::StatusOr<int64_t> SessionSpiller::Write(const SessionEntry& entry,
                                              absl::Time now) {
  try {
    SessionRecord record = RecordOf(entry, now);
    record.written = options_.wall_clock();
    std::string message;
    if (record.last.has_value() && record.last->kept) {
      message = options_.codec.answer_bytes(entry.state.last->message);
      record.last->message_bytes = std::ssize(message);
    }
    return directory_->Write(record, entry.state.layers, message);
  } catch (const std::bad_alloc&) {
    return absl::UnavailableError(OutOfMemory().message());
  }
}

void SessionSpiller::Sync() {
  const absl::Status status = directory_->Sync();
  if (status.ok()) return;
  Count(SpillError::kWrite);
  if (!failing_.exchange(true)) options_.report(status.message());
}

absl::StatusOr<SessionFile> SessionSpiller::Read(SessionEntry& entry) {
  auto file = directory_->Read(entry.id);
  if (!file.ok()) return Failed(entry, file.status());
  if (!Fits(file->record(), *entry.settings)) {
    return Failed(entry, absl::DataLossError("its layers are other ones"));
  }
  return file;
}

absl::Status SessionSpiller::Restore(SessionEntry& entry, SessionFile& file,
                                     std::vector<KvSequence> layers,
                                     KvCharge for_answer) {
  auto message = file.Read(layers);
  if (!message.ok()) return Failed(entry, message.status());
  const SessionRecord& record = file.record();
  SessionState state = StateOf(record, std::move(layers));
  if (for_answer != nullptr) {
    state.last->message = options_.codec.answer(*message);
    state.last->charge = std::move(for_answer);
  }
  // A server that dies from here on has lost it, as it would any session: an
  // old state that comes back would refuse the steps that follow.
  directory_->Remove(entry.id, entry.spilled_bytes);
  Sync();
  entry.Restored(std::move(state));
  ++restores_;
  return absl::OkStatus();
}

absl::Status SessionSpiller::Failed(SessionEntry& entry,
                                    const absl::Status& status) {
  if (!absl::IsDataLoss(status)) {
    Count(SpillError::kRead);
    return status;
  }
  Count(SpillError::kDamaged);
  options_.report(
      absl::StrCat("session ", entry.id, " is lost: ", status.message()));
  directory_->SetAside(entry.id, entry.spilled_bytes);
  entry.spilled_bytes = 0;
  return SessionDamaged(entry.id);
}

void SessionSpiller::Remove(const SessionEntry& entry) {
  directory_->Remove(entry.id, entry.spilled_bytes);
}

void SessionSpiller::AddTo(SessionTotals& totals) const {
  totals.spilled_bytes = directory_->used_bytes();
  totals.spills = spills_;
  totals.restores = restores_;
  for (size_t i = 0; i < errors_.size(); ++i) {
    totals.spill_errors[i] = errors_[i];
  }
}

void SessionSpiller::Count(SpillError error) {
  ++errors_[static_cast<size_t>(error)];
}

}  // namespace attn
