#include "client/library/session_places.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/library/call_status.h"
#include "client/library/server_address.h"
#include "proto/codec/status_codec.h"

namespace attn {
namespace {

// A part of a replay: under the 4 MiB that a gRPC server takes if it is not
// told otherwise, and few tokens enough that other sessions get their turn.
constexpr int64_t kReplayTokens = 512;
constexpr int64_t kReplayBytes = int64_t{3} << 20;
// How long a session that could not be made whole is worth waiting for, to
// close it.
constexpr absl::Duration kCloseWithin = absl::Seconds(1);
// Sent in place of queries that were answered long ago.
constexpr DType kZeroType = DType::kBF16;

// Whether an address that refused may take a session later.
bool MayTakeLater(const absl::Status& status) {
  return IsSessionLost(status) || absl::IsUnavailable(status) ||
         absl::IsDeadlineExceeded(status) || RetryDelayOf(status).has_value();
}

int64_t QueryRowBytes(const v1::OpenSessionRequest& request) {
  const int64_t k_dim = request.k_dim() > 0 ? request.k_dim() : request.q_dim();
  const int64_t v_dim = request.v_dim() > 0 ? request.v_dim() : k_dim;
  // The answer has as many rows as the query.
  return request.q_heads() * (request.q_dim() + v_dim) *
         static_cast<int64_t>(SizeOf(kZeroType));
}

// [1, n, H, D] as [1, H, n, D].
TensorView ByHead(const HostTensor& tensor) {
  return tensor.view().SwapAxes(1, 2);
}

}  // namespace

bool IsSessionLost(const absl::Status& status) {
  const std::string reason = ErrorReasonOf(status);
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
      return reason != "SESSION_BUSY";
    case absl::StatusCode::kCancelled:
      // By the server, which is going: nothing here cancels.
      return true;
    case absl::StatusCode::kNotFound:
      return reason == "SESSION_NOT_HERE" || reason == "SESSION_EXPIRED";
    default:
      return false;
  }
}

CallOptions RestUntil(absl::Time end) {
  return {.deadline = std::max(end - absl::Now(), absl::Nanoseconds(1))};
}

CallOptions SessionPlaces::SharedTime::Share() const {
  const absl::Time now = absl::Now();
  return RestUntil(now + (end - now) / askers);
}

absl::StatusOr<SessionClient> SessionPlaces::ClientOf(
    const std::string& address) {
  const auto known = clients_.find(address);
  if (known != clients_.end()) return known->second;
  ClientOptions options = options_.client;
  options.address = address;
  auto client = options_.connect != nullptr ? options_.connect(address)
                                            : SessionClient::Connect(options);
  if (client.ok()) clients_.emplace(address, *client);
  return client;
}

absl::StatusOr<SessionPlace> SessionPlaces::Open(const ReplayHistory& history,
                                                 absl::Duration patience,
                                                 absl::Time end) {
  const absl::Time last_round = absl::Now() + patience;
  while (true) {
    absl::Status refused;
    bool later = false;
    const auto count = static_cast<int64_t>(options_.addresses.size());
    for (int64_t left = count; left > 0; --left) {
      const std::string& address = options_.addresses[next_];
      next_ = (next_ + 1) % options_.addresses.size();
      auto place = OpenAt(address, history, {.end = end, .askers = left});
      if (place.ok()) return place;
      refused = place.status();
      // What one cannot understand the others cannot.
      if (absl::IsInvalidArgument(refused)) return refused;
      later = later || MayTakeLater(refused);
    }
    const absl::Duration wait = options_.client.retry.initial_backoff;
    if (!later || absl::Now() + wait >= std::min(last_round, end)) {
      return refused;
    }
    absl::SleepFor(wait);
  }
}

absl::StatusOr<SessionClient> SessionPlaces::OwnerOf(
    const std::string& owner, const SessionClient& asked) {
  if (options_.through_proxy) return asked.RoutedTo(owner);
  if (!owner.empty()) {
    auto client = ClientOf(owner);
    if (client.ok()) return client;
    return absl::InternalError(absl::StrCat(
        "the server at ", asked.address(),
        " names an owner that cannot be called: ", client.status().message()));
  }
  if (!NamesSeveralServers(asked.address())) return asked;
  return absl::FailedPreconditionError(absl::StrCat(
      "addresses: got ", asked.address(),
      ", behind which a server does not say which one it is, expected that "
      "each is started with --advertise-address"));
}

absl::StatusOr<SessionPlace> SessionPlaces::OpenAt(const std::string& address,
                                                   const ReplayHistory& history,
                                                   const SharedTime& time) {
  auto client = ClientOf(address);
  if (!client.ok()) return client.status();
  const auto opened = client->Open(request_, time.Share());
  if (!opened.ok()) return opened.status();
  client = OwnerOf(opened->owner(), *client);
  if (!client.ok()) return client.status();
  SessionPlace place{.client = *std::move(client),
                     .id = opened->session_id(),
                     .epoch = opened->epoch()};
  absl::Status replayed = Replay(history, 0, time, place);
  if (replayed.ok()) return place;
  // Whoever cannot finish leaves no half of it behind.
  if (!IsSessionLost(replayed)) {
    CallOptions closing = time.Share();
    closing.deadline = std::min(closing.deadline, kCloseWithin);
    place.client.Close(place.id, closing).IgnoreError();
  }
  return replayed;
}

absl::Status SessionPlaces::Replay(const ReplayHistory& history, int64_t begin,
                                   absl::Time end, SessionPlace& place) const {
  return Replay(history, begin, SharedTime{.end = end}, place);
}

absl::Status SessionPlaces::Replay(const ReplayHistory& history, int64_t begin,
                                   const SharedTime& time,
                                   SessionPlace& place) const {
  return history.ForEachPart(
      {.max_tokens = kReplayTokens,
       .max_bytes = kReplayBytes,
       .more_row_bytes = QueryRowBytes(request_),
       .begin = begin},
      [&](const ReplayPart& part) -> absl::Status {
        const HostTensor zeros(
            kZeroType,
            Shape{1, part.tokens, request_.q_heads(), request_.q_dim()});
        StepMessage message;
        message.session_id = place.id;
        message.epoch = place.epoch;
        message.step = place.next_step;
        message.position = part.position;
        for (const ReplayPart::Layer& layer : part.layers) {
          message.layers.push_back({.layer = layer.layer,
                                    .q = ByHead(zeros),
                                    .k = ByHead(layer.k),
                                    .v = ByHead(layer.v),
                                    .bshd = true});
        }
        const auto result = place.client.Step(message, time.Share());
        if (!result.ok()) return result.status();
        ++place.next_step;
        return absl::OkStatus();
      });
}

}  // namespace attn
