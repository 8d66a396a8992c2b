#include "server/rpc/line_log.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "server/rpc/line_writer.h"

namespace attn {
namespace {

// RFC 8259, section 7.
void AppendJsonString(absl::string_view text, std::string& line) {
  line += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      line += {'\\', c};
    } else if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) {
      absl::StrAppendFormat(&line, "\\u%04x", static_cast<unsigned char>(c));
    } else {
      line += c;
    }
  }
  line += '"';
}

// "2026-01-31T12:00:00", made once a second for each thread.
const std::string& WholeSeconds(int64_t seconds) {
  thread_local int64_t made_for = -1;
  thread_local std::string text;
  if (made_for != seconds) {
    text = absl::FormatTime("%Y-%m-%dT%H:%M:%S", absl::FromUnixSeconds(seconds),
                            absl::UTCTimeZone());
    made_for = seconds;
  }
  return text;
}

void AppendTimestamp(std::string& line) {
  constexpr int64_t kMicroseconds = 1'000'000;
  const int64_t now = absl::ToUnixMicros(absl::Now());
  absl::StrAppend(&line, WholeSeconds(now / kMicroseconds), ".",
                  absl::Dec(now % kMicroseconds, absl::kZeroPad6), "Z");
}

// One line, field by field.
class Line {
 public:
  Line(LogFormat format, absl::string_view event)
      : json_(format == LogFormat::kJson) {
    constexpr size_t kUsualLength = 512;
    text_.reserve(kUsualLength);
    if (json_) text_ += "{\"time\":\"";
    AppendTimestamp(text_);
    absl::StrAppend(&text_, json_ ? "\",\"event\":\"" : " ", event,
                    json_ ? "\"" : "");
  }

  void Text(absl::string_view name, absl::string_view value) {
    Name(name);
    if (json_) {
      AppendJsonString(value, text_);
    } else {
      absl::StrAppend(&text_, "\"", absl::Utf8SafeCEscape(value), "\"");
    }
  }
  void Number(absl::string_view name, int64_t value) {
    Name(name);
    absl::StrAppend(&text_, value);
  }
  // With one decimal.
  void Microseconds(absl::string_view name, absl::Duration duration) {
    constexpr int64_t kTenth = 100;
    constexpr int64_t kTenths = 10;
    const int64_t tenths =
        (std::max<int64_t>(absl::ToInt64Nanoseconds(duration), 0) +
         kTenth / 2) /
        kTenth;
    Name(name);
    absl::StrAppend(&text_, tenths / kTenths, ".", tenths % kTenths);
  }
  std::string Finish() {
    text_ += json_ ? "}\n" : "\n";
    return std::move(text_);
  }

 private:
  void Name(absl::string_view name) {
    if (json_) {
      absl::StrAppend(&text_, ",\"", name, "\":");
    } else {
      absl::StrAppend(&text_, " ", name, "=");
    }
  }

  const bool json_;
  std::string text_;
};

std::string EventLine(LogFormat format, absl::string_view severity,
                      absl::string_view message) {
  Line line(format, severity);
  if (format == LogFormat::kJson) {
    line.Text("message", message);
    return line.Finish();
  }
  std::string text = line.Finish();
  text.back() = ' ';
  return absl::StrCat(text, message, "\n");
}

}  // namespace

void LineLog::Request(const CallRecord& record) const {
  Line line(format_, "request");
  line.Text("id", record.request_id);
  line.Text("method", record.method);
  line.Text("code", absl::StatusCodeToString(record.status.code()));
  line.Text("variant", record.variant);
  line.Text("kernel", record.kernel);
  line.Text("shape", record.shape);
  line.Microseconds("total_us", record.total);
  line.Microseconds("receive_us", record.receive);
  line.Microseconds("queue_us", record.queue);
  line.Microseconds("compute_us", record.compute);
  line.Microseconds("send_us", record.send);
  line.Number("received_bytes", record.received_bytes);
  line.Number("sent_bytes", record.sent_bytes);
  if (!record.trace_id.empty()) line.Text("trace", record.trace_id);
  if (!record.tenant.empty()) line.Text("tenant", record.tenant);
  if (!record.status.ok()) line.Text("message", record.status.message());
  sink_(line.Finish());
}

void LineLog::Event(absl::string_view severity,
                    absl::string_view message) const {
  sink_(EventLine(format_, severity, message));
}

LineLog::Sink LineLog::StandardError(LogFormat format,
                                     absl::Duration flush_timeout) {
  LineWriterOptions options;
  options.flush_timeout = flush_timeout;
  options.describe_lost = [format](int64_t lines) {
    return EventLine(format, "warning",
                     absl::StrCat(lines,
                                  " lines lost: the log was not read, or "
                                  "could not be written"));
  };
  const auto writer = std::make_shared<LineWriter>(STDERR_FILENO, options);
  return [writer](const std::string& line) { writer->Write(line); };
}

}  // namespace attn
