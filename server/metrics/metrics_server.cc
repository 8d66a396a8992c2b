#include "server/metrics/metrics_server.h"

#include <exception>
#include <mutex>
#include <utility>

#include "CivetServer.h"
#include "server/metrics/prometheus_metrics.h"
#include "server/metrics/scraped_values.h"
#include "server/metrics/text_page.h"

namespace attn {
namespace {

// Scrapers that are served at once.
constexpr char kScrapeThreads[] = "2";

// Writes a page for each scraper: all of it before the first byte is sent, so
// that a slow reader holds nothing but its own copy. Thread-safe.
class MetricsPage : public CivetHandler {
 public:
  // `metrics` must outlive this.
  MetricsPage(const WrittenMetrics& metrics, MetricsInfo info,
              GaugeSources sources)
      : metrics_(metrics),
        info_(std::move(info)),
        sources_(std::move(sources)) {}

  bool handleGet(CivetServer*, mg_connection* connection) override {
    TextPage page(TakeMemory());
    metrics_.Write(page);
    WriteServerValues(info_, sources_, page);
    WriteProcessValues(page);
    const std::string& text = page.text();
    mg_printf(connection,
              "HTTP/1.1 200 OK\r\n"
              "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
              "Content-Length: %zu\r\nConnection: close\r\n\r\n",
              text.size());
    mg_write(connection, text.data(), text.size());
    KeepMemory(page.TakeMemory());
    return true;
  }

 private:
  // A page of a megabyte in fresh memory would be paid for in page faults.
  std::string TakeMemory() {
    const std::lock_guard lock(memory_mutex_);
    return std::exchange(memory_, std::string());
  }
  void KeepMemory(std::string memory) {
    const std::lock_guard lock(memory_mutex_);
    memory_ = std::move(memory);
  }

  const WrittenMetrics& metrics_;
  const MetricsInfo info_;
  const GaugeSources sources_;
  std::mutex memory_mutex_;
  // Of the last page; empty while it is in use.
  std::string memory_;
};

// The metrics and the HTTP server in front of them. Thread-safe.
class HttpMetricsServer : public MetricsServer {
 public:
  // Throws if the address cannot be bound.
  HttpMetricsServer(const std::string& address, const MetricsInfo& info,
                    const GaugeSources& sources)
      : metrics_(MakePrometheusMetrics(info)), page_(*metrics_, info, sources) {
    if (address.empty()) return;
    http_ = std::make_unique<CivetServer>(std::vector<std::string>{
        "listening_ports", address, "num_threads", kScrapeThreads});
    port_ = http_->getListeningPorts().at(0);
    http_->addHandler("/metrics", page_);
  }

  Metrics& metrics() override { return *metrics_; }
  int port() const override { return port_; }
  void StopListening() override { http_.reset(); }

 private:
  const std::unique_ptr<WrittenMetrics> metrics_;
  MetricsPage page_;
  std::unique_ptr<CivetServer> http_;
  int port_ = 0;
};

}  // namespace

std::unique_ptr<MetricsServer> StartMetricsServer(const std::string& address,
                                                  const MetricsInfo& info,
                                                  const GaugeSources& sources,
                                                  std::string* error) {
  try {
    return std::make_unique<HttpMetricsServer>(address, info, sources);
  } catch (const std::exception&) {
    // The library's own text names no address.
    *error = "cannot listen on " + address +
             ": in use by another process, or not an address of this machine";
    return nullptr;
  }
}

}  // namespace attn
