// A load report for people at a terminal.
#pragma once

#include <cstddef>
#include <string>

#include "client/load/load_report.h"

namespace attn {

// Lines end in "\n". Reports of several steps are a table that can be printed
// row by row while the load goes on: head, heading, rows, tail.
std::string LoadReportText(const LoadReport& report);

// What is sent where. `report` need not have steps yet; `pace` says how.
std::string LoadReportHead(const LoadReport& report, const std::string& pace);
std::string StepHeading();
// Step number `index`, and its classes if there are several.
std::string StepRows(const LoadReport& report, size_t index);
// A table of times: the heading, and a row of it.
std::string MicrosHeading();
std::string MicrosRow(const std::string& name, const HdrHistogram& histogram);
// What is said of all steps together.
std::string LoadReportTail(const LoadReport& report);

}  // namespace attn
