// A load report for spreadsheets.
#pragma once

#include <string>

#include "client/load/load_report.h"

namespace attn {

// RFC 4180 with one heading line: a row for the total of each step, then one
// for each of its classes if there are several. Times in microseconds; a cell
// is empty where nothing was measured, or where it belongs to the total alone.
std::string LoadReportCsv(const LoadReport& report);

}  // namespace attn
