// What a scraper reads.
#pragma once

#include <string>

namespace attn {

// The body of http://127.0.0.1:<port>/metrics; empty if nobody answers.
std::string Scrape(int port);

// The value of "name{labels}" in a scraped page; -1: there is no such series.
double ValueOf(const std::string& page, const std::string& series);

}  // namespace attn
