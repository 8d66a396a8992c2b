// A load report as a page that needs nothing else.
#pragma once

#include <string>

#include "client/load/load_report.h"

namespace attn {

// One file: no scripts, nothing to be fetched; dark or light as the reader's
// screen.
std::string LoadReportHtml(const LoadReport& report);

}  // namespace attn
