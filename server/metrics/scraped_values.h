// Values that are read when a scraper asks.
#pragma once

#include "server/metrics/metrics_server.h"
#include "server/metrics/text_page.h"

namespace attn {

// Gauges of the server, and what its settings make known.
void WriteServerValues(const MetricsInfo& info, const GaugeSources& sources,
                       TextPage& page);
// The process, as the system has it now.
void WriteProcessValues(TextPage& page);

}  // namespace attn
