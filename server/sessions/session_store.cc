#include "server/sessions/session_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/sessions/session_spiller.h"
#include "server/sessions/session_table.h"

namespace attn {
namespace {

absl::Status CheckMaxTokens(const SessionEntry& entry,
                            const std::vector<int>& layers, int64_t tokens) {
  const int64_t most = entry.settings->max_tokens;
  if (most == 0) return absl::OkStatus();
  for (const int layer : layers) {
    const int64_t length =
        entry.state.layers[static_cast<size_t>(layer)].length();
    if (tokens > most - length) {
      return SessionFull(layer, length, tokens, most);
    }
  }
  return absl::OkStatus();
}

// A fork's beginning.
absl::StatusOr<SessionState> CutCopy(const SessionState& state,
                                     std::optional<int64_t> position,
                                     int64_t window) {
  SessionState copy;
  copy.epoch = 1;
  copy.layers = state.layers;
  if (!position.has_value()) return copy;
  absl::Status status = CheckCut(state, *position);
  if (status.ok()) status = CutLayers(copy, *position, window);
  if (!status.ok()) return status;
  return copy;
}

}  // namespace

SessionStore::Pin::Pin(SessionStore& store, std::shared_ptr<SessionEntry> entry)
    : store_(&store), entry_(std::move(entry)) {}

SessionStore::Pin::Pin(Pin&& other) noexcept
    : store_(other.store_), entry_(std::move(other.entry_)) {}

SessionStore::Pin& SessionStore::Pin::operator=(Pin&& other) noexcept {
  if (this == &other) return *this;
  Release();
  store_ = other.store_;
  entry_ = std::move(other.entry_);
  return *this;
}

SessionStore::Pin::~Pin() { Release(); }

const std::string& SessionStore::Pin::id() const { return entry_->id; }

const SessionSettings& SessionStore::Pin::settings() const {
  return *entry_->settings;
}

SessionState& SessionStore::Pin::state() const { return entry_->state; }

KvCharge SessionStore::Pin::Charge(int64_t bytes) const {
  auto charge = store_->pool_.Charge(bytes);
  return charge.ok() ? *std::move(charge) : nullptr;
}

void SessionStore::Pin::Release(bool used) {
  if (!held()) return;
  store_->table_->Release(std::move(entry_), used);
  entry_ = nullptr;
}

absl::Status SessionStore::Pin::Reserve(const std::vector<int>& layers,
                                        int64_t tokens) const {
  SessionEntry& entry = *entry_;
  SessionTable& table = *store_->table_;
  absl::Status status = CheckMaxTokens(entry, layers, tokens);
  if (!status.ok()) return status;
  int64_t bytes = 0;
  std::vector<int64_t> missing;
  for (const int layer : layers) {
    bytes += missing.emplace_back(entry.BytesToReserve(layer, tokens));
  }
  status = table.Charge(entry, bytes);
  if (!status.ok()) return status;
  for (auto layer = layers.begin(); layer != layers.end(); ++layer) {
    KvSequence& sequence = entry.state.layers[static_cast<size_t>(*layer)];
    status = store_->TakeOrEvict(
        missing[static_cast<size_t>(layer - layers.begin())],
        [&] { return sequence.Reserve(tokens); });
    if (status.ok()) {
      entry.Reserved(*layer, tokens);
      continue;
    }
    // Those in front of it have spare blocks, which nobody will fill.
    for (auto done = layers.begin(); done != layer; ++done) {
      KvSequence& longer = entry.state.layers[static_cast<size_t>(*done)];
      longer.Truncate(longer.length(), 0).IgnoreError();
    }
    table.Refund(entry, bytes);
    return status;
  }
  return absl::OkStatus();
}

absl::Status SessionStore::TakeOrEvict(
    int64_t bytes, const std::function<absl::Status()>& take) {
  int misses = 0;
  while (true) {
    const uint64_t freed = table_->freed();
    const absl::Status status = take();
    if (!absl::IsResourceExhausted(status)) return status;
    const int64_t missing = bytes - (pool_.max_bytes() - pool_.used_bytes());
    if (MadeRoom(freed, missing, misses)) continue;
    return KvMemory(
        KvShortage::kPasses,
        absl::StrCat("sessions have ", pool_.used_bytes(),
                     " bytes of --max-session-bytes=", pool_.max_bytes(),
                     ", and none is idle for long enough to make "
                     "room: ",
                     status.message()));
  }
}

SessionStore::SessionStore(const SessionStoreOptions& options,
                           const Clock& clock)
    : SessionStore(options, clock, nullptr) {}

SessionStore::SessionStore(const SessionStoreOptions& options,
                           const Clock& clock,
                           std::unique_ptr<SessionSpiller> spiller)
    : options_(options),
      clock_(clock),
      pool_(options.max_bytes),
      spiller_(std::move(spiller)),
      table_(std::make_unique<SessionTable>(
          options, clock,
          [this](const SessionEntry& entry) { spiller_->Remove(entry); })) {
  if (!spills()) return;
  for (FoundSession& found : spiller_->Find()) {
    table_->Adopt(std::move(found.entry), found.tenant, found.idle, found.age);
  }
}

SessionStore::~SessionStore() = default;

absl::StatusOr<SessionStore::Pin> SessionStore::Open(
    std::shared_ptr<const SessionSettings> settings,
    const std::string& tenant) {
  SessionState state;
  state.epoch = 1;
  state.layers.assign(static_cast<size_t>(settings->layers),
                      KvSequence(settings->layout, pool_));
  return Admit(std::move(settings), std::move(state), tenant);
}

absl::StatusOr<SessionStore::Pin> SessionStore::Admit(
    std::shared_ptr<const SessionSettings> settings, SessionState state,
    const std::string& tenant) {
  auto entry =
      std::make_shared<SessionEntry>(std::move(settings), std::move(state));
  absl::Status status = TakeBase(*entry);
  if (!status.ok()) return status;
  status = table_->Add(entry, tenant);
  if (!status.ok()) return status;
  return Pin(*this, std::move(entry));
}

absl::Status SessionStore::TakeBase(SessionEntry& entry) {
  return TakeOrEvict(entry.base_bytes, [&] {
    auto charge = pool_.Charge(entry.base_bytes);
    if (charge.ok()) entry.base = *std::move(charge);
    return charge.status();
  });
}

absl::StatusOr<SessionStore::Pin> SessionStore::Acquire(
    const std::string& id, const std::string& tenant) {
  auto entry = table_->Acquire(id, tenant);
  if (!entry.ok()) return entry.status();
  if ((*entry)->spilled_bytes > 0) {
    absl::Status status = Restore(**entry);
    if (!status.ok()) {
      // Its file is another's now: people's.
      if ((*entry)->spilled_bytes == 0) {
        table_->Lose(*std::move(entry));
      } else {
        table_->Release(*std::move(entry), false);
      }
      return status;
    }
  }
  return Pin(*this, *std::move(entry));
}

absl::StatusOr<SessionStore::Pin> SessionStore::Fork(
    const Pin& of, std::optional<int64_t> position, int64_t window,
    const std::string& tenant) {
  auto state = CutCopy(of.state(), position, window);
  if (!state.ok()) return state.status();
  of.entry_->TouchLayers();
  return Admit(of.entry_->settings, *std::move(state), tenant);
}

bool SessionStore::Close(const std::string& id, const std::string& tenant) {
  return table_->Close(id, tenant);
}

absl::StatusOr<SessionSnapshot> SessionStore::Describe(
    const std::string& id, const std::string& tenant) {
  return table_->Describe(id, tenant);
}

std::vector<SessionSnapshot> SessionStore::List(const std::string& tenant,
                                                const std::string& after,
                                                size_t count) {
  return table_->List(tenant, after, count);
}

absl::Time SessionStore::Expire() { return table_->Expire(); }

void SessionStore::Trim() { pool_.Trim(); }

SessionStore::Totals SessionStore::totals() const {
  Totals totals = table_->totals();
  totals.bytes = pool_.used_bytes();
  totals.max_bytes = pool_.max_bytes();
  if (spills()) spiller_->AddTo(totals);
  return totals;
}

void SessionStore::Count(SessionError error) { table_->Count(error); }

}  // namespace attn
