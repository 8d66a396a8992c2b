#include "server/rpc/line_log.h"

#include <unistd.h>

#include <cstddef>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

namespace attn {
namespace {

struct Field {
  const char* name;
  std::string value;
  bool is_number = false;
};

std::string Timestamp() {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", absl::Now(),
                          absl::UTCTimeZone());
}

Field Number(const char* name, int64_t value) {
  return {name, absl::StrCat(value), true};
}

Field Microseconds(const char* name, absl::Duration duration) {
  return {name, absl::StrFormat("%.1f", absl::ToDoubleMicroseconds(duration)),
          true};
}

std::vector<Field> FieldsOf(const CallRecord& record) {
  std::vector<Field> fields = {
      {"id", record.request_id},
      {"method", record.method},
      {"code", absl::StatusCodeToString(record.status.code())},
      {"variant", record.variant},
      {"kernel", record.kernel},
      {"shape", record.shape},
      Microseconds("total_us", record.total),
      Microseconds("receive_us", record.receive),
      Microseconds("queue_us", record.queue),
      Microseconds("compute_us", record.compute),
      Microseconds("send_us", record.send),
      Number("received_bytes", record.received_bytes),
      Number("sent_bytes", record.sent_bytes)};
  if (!record.status.ok()) {
    fields.push_back({"message", std::string(record.status.message())});
  }
  return fields;
}

// RFC 8259, section 7.
std::string JsonString(absl::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) {
      absl::StrAppendFormat(&quoted, "\\u%04x", static_cast<unsigned char>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string TextValue(const Field& field) {
  if (field.is_number) return field.value;
  return absl::StrCat("\"", absl::Utf8SafeCEscape(field.value), "\"");
}

std::string Line(LogFormat format, absl::string_view event,
                 const std::vector<Field>& fields) {
  const bool json = format == LogFormat::kJson;
  std::string line = json ? absl::StrCat("{\"time\":\"", Timestamp(),
                                         "\",\"event\":\"", event, "\"")
                          : absl::StrCat(Timestamp(), " ", event);
  for (const Field& field : fields) {
    if (json) {
      absl::StrAppend(&line, ",\"", field.name, "\":",
                      field.is_number ? field.value : JsonString(field.value));
    } else {
      absl::StrAppend(&line, " ", field.name, "=", TextValue(field));
    }
  }
  return line + (json ? "}\n" : "\n");
}

}  // namespace

void LineLog::Request(const CallRecord& record) const {
  sink_(Line(format_, "request", FieldsOf(record)));
}

void LineLog::Event(absl::string_view severity,
                    absl::string_view message) const {
  if (format_ == LogFormat::kJson) {
    sink_(Line(format_, severity, {{"message", std::string(message)}}));
  } else {
    sink_(absl::StrCat(Timestamp(), " ", severity, " ", message, "\n"));
  }
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
