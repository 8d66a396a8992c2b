#include "server/rpc/line_log.h"

#include <unistd.h>

#include <cstddef>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "nlohmann/json.hpp"

namespace attn {
namespace {

using Json = nlohmann::ordered_json;

std::string Timestamp() {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", absl::Now(),
                          absl::UTCTimeZone());
}

// Text that is no UTF-8 is replaced, not thrown at.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

double Microseconds(absl::Duration duration) {
  return absl::ToDoubleMicroseconds(duration);
}

std::string CodeName(const absl::Status& status) {
  return absl::StatusCodeToString(status.code());
}

std::string RequestAsJson(const CallRecord& record) {
  Json json = {{"time", Timestamp()},
               {"severity", "info"},
               {"event", "request"},
               {"id", record.request_id},
               {"method", record.method},
               {"code", CodeName(record.status)},
               {"variant", record.variant},
               {"kernel", record.kernel},
               {"shape", record.shape},
               {"total_us", Microseconds(record.total)},
               {"receive_us", Microseconds(record.receive)},
               {"queue_us", Microseconds(record.queue)},
               {"compute_us", Microseconds(record.compute)},
               {"send_us", Microseconds(record.send)},
               {"received_bytes", record.received_bytes},
               {"sent_bytes", record.sent_bytes}};
  if (!record.status.ok()) {
    json["message"] = std::string(record.status.message());
  }
  return Dump(json);
}

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", absl::Utf8SafeCEscape(text), "\"");
}

std::string RequestAsText(const CallRecord& record) {
  std::string line = absl::StrCat(
      Timestamp(), " request id=", Quoted(record.request_id), " ",
      record.method, " ", CodeName(record.status), " variant=", record.variant,
      " kernel=", Quoted(record.kernel));
  absl::StrAppend(&line, " shape=", Quoted(record.shape),
                  " total_us=", Microseconds(record.total),
                  " receive_us=", Microseconds(record.receive),
                  " queue_us=", Microseconds(record.queue),
                  " compute_us=", Microseconds(record.compute),
                  " send_us=", Microseconds(record.send));
  absl::StrAppend(&line, " received_bytes=", record.received_bytes,
                  " sent_bytes=", record.sent_bytes);
  if (!record.status.ok()) {
    absl::StrAppend(&line, " message=", Quoted(record.status.message()));
  }
  return line;
}

}  // namespace

void LineLog::Request(const CallRecord& record) const {
  const std::string line = format_ == LogFormat::kJson ? RequestAsJson(record)
                                                       : RequestAsText(record);
  sink_(line + "\n");
}

void LineLog::Event(absl::string_view severity,
                    absl::string_view message) const {
  if (format_ == LogFormat::kText) {
    sink_(absl::StrCat(Timestamp(), " ", severity, " ", message, "\n"));
    return;
  }
  sink_(Dump({{"time", Timestamp()},
              {"severity", std::string(severity)},
              {"event", "server"},
              {"message", std::string(message)}}) +
        "\n");
}

LineLog::Sink LineLog::StandardError() {
  // One write(2) for each line: lines of several threads do not mix.
  return [](const std::string& line) {
    size_t done = 0;
    while (done < line.size()) {
      const ssize_t written =
          write(STDERR_FILENO, line.data() + done, line.size() - done);
      if (written <= 0) return;
      done += static_cast<size_t>(written);
    }
  };
}

}  // namespace attn
