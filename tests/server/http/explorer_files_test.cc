#include "server/http/explorer_files.h"

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zlib.h"

namespace attn {
namespace {

using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr size_t kMaxPageBytes = 300 << 10;

// Each first group of the pattern in the text.
std::vector<std::string> FoundIn(const std::string& text,
                                 const std::string& pattern) {
  const std::regex regex(pattern);
  std::vector<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end;
       ++it) {
    found.push_back((*it)[1]);
  }
  return found;
}

// A file of the page as it is written, before modules are joined.
struct PageSource {
  std::string name;
  std::string text;
};

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<PageSource> PageSources() {
  const std::set<std::string> served = {".html", ".css", ".js"};
  std::vector<PageSource> sources;
  for (const auto& entry :
       std::filesystem::directory_iterator(ATTN_EXPLORER_SOURCE)) {
    if (served.count(entry.path().extension().string()) == 0) continue;
    sources.push_back(
        {entry.path().filename().string(), ReadFile(entry.path())});
  }
  return sources;
}

// The names of the files that a file asks for.
std::vector<std::string> WantedBy(absl::string_view name,
                                  const std::string& text) {
  if (absl::EndsWith(name, ".html")) {
    return FoundIn(text, R"re((?:href|src)="(?:/explorer/|\./)([^"]*)")re");
  }
  if (absl::EndsWith(name, ".css")) {
    return FoundIn(text, R"re((?:@import|url\()\s*["']?\./([^"')]*))re");
  }
  // A module's documentation names types of others, too.
  return FoundIn(
      text,
      R"re((?:from|[^{]import)\s*\(?\s*['"](?:/explorer/|\./)([^'"]*)['"])re");
}

TEST(ExplorerFilesTest, ThePageIsThere) {
  const ExplorerFile* index = FindExplorerFile("index.html");
  ASSERT_NE(index, nullptr);
  EXPECT_EQ(index->content_type, "text/html; charset=utf-8");
  EXPECT_THAT(std::string(index->bytes), StartsWith("<!doctype html>"));
  EXPECT_EQ(FindExplorerFile("index"), nullptr);
  EXPECT_EQ(FindExplorerFile(""), nullptr);
  EXPECT_EQ(FindExplorerFile("../index.html"), nullptr);
}

TEST(ExplorerFilesTest, EveryFileThatAFileAsksForIsThere) {
  size_t wanted = 0;
  for (const ExplorerFile& file : ExplorerFiles()) {
    for (const std::string& name :
         WantedBy(file.name, std::string(file.bytes))) {
      ++wanted;
      EXPECT_NE(FindExplorerFile(name), nullptr)
          << file.name << " asks for " << name;
    }
  }
  // The page's two styles and its module: what that imports is in it.
  EXPECT_EQ(wanted, 3U);
}

TEST(ExplorerFilesTest, EverySourceIsAskedForByAnother) {
  const std::vector<PageSource> sources = PageSources();
  std::set<std::string> wanted = {"index.html"};
  for (const PageSource& source : sources) {
    for (const std::string& name : WantedBy(source.name, source.text)) {
      wanted.insert(name);
    }
  }
  std::set<std::string> there;
  for (const PageSource& source : sources) there.insert(source.name);
  EXPECT_EQ(there, wanted);
  EXPECT_GT(there.size(), ExplorerFiles().size());
}

// Of a line of code, without what stands behind "//" at its begin or a space.
std::string WithoutComment(const std::string& line) {
  return std::regex_replace(line, std::regex(R"((^|\s)//.*)"), "");
}

void ExpectNothingFromElsewhere(const std::string& name,
                                const std::string& text) {
  // A name, which nobody looks up: that of SVG.
  const std::string code =
      absl::StrReplaceAll(text, {{"http://www.w3.org/2000/svg", ""}});
  EXPECT_THAT(FoundIn(code, R"re(((?:https?|wss?):?//.{0,40}))re"), IsEmpty())
      << name;
  EXPECT_THAT(FoundIn(code, R"re((["'(]//.{0,40}))re"), IsEmpty()) << name;
}

TEST(ExplorerFilesTest, NothingIsLoadedFromElsewhere) {
  // What is served has no comments; what is written has.
  for (const ExplorerFile& file : ExplorerFiles()) {
    ExpectNothingFromElsewhere(file.name, std::string(file.bytes));
  }
  for (const PageSource& source : PageSources()) {
    const std::vector<std::string> lines = absl::StrSplit(source.text, '\n');
    for (const std::string& line : lines) {
      ExpectNothingFromElsewhere(source.name, WithoutComment(line));
    }
  }
}

// The policy of the answers forbids them: a browser would pass over them.
TEST(ExplorerFilesTest, ThePageHasNoScriptAndNoStyleInside) {
  const std::string page(FindExplorerFile("index.html")->bytes);
  EXPECT_THAT(FoundIn(page, R"re((<script(?![^>]*\ssrc=)))re"), IsEmpty());
  EXPECT_THAT(FoundIn(page, R"re((<style))re"), IsEmpty());
  EXPECT_THAT(FoundIn(page, R"re(\s(style=|on[a-z]+=))re"), IsEmpty());
}

TEST(ExplorerFilesTest, AnEtagIsOfTheBytes) {
  std::set<std::string> etags;
  std::set<absl::string_view> contents;
  for (const ExplorerFile& file : ExplorerFiles()) {
    // RFC 9110, section 8.8.3.
    EXPECT_EQ(FoundIn(file.etag, R"re(^(W/"[!#-~]+")$)re").size(), 1U)
        << file.etag;
    etags.insert(file.etag);
    contents.insert(file.bytes);
  }
  EXPECT_EQ(etags.size(), contents.size());
  EXPECT_GT(etags.size(), 1U);
}

TEST(ExplorerFilesTest, TheBytesAreThoseOfTheFile) {
  for (const ExplorerFile& file : ExplorerFiles()) {
    const std::string bytes =
        ReadFile(absl::StrCat(ATTN_EXPLORER_BUILT, "/", file.name));
    EXPECT_TRUE(bytes == file.bytes) << file.name;
    const bool script = absl::EndsWith(file.name, ".js");
    EXPECT_EQ(absl::StartsWith(file.content_type, "text/javascript"), script);
  }
}

// What gzip's format unpacks to.
std::string Unpacked(const std::string& packed, size_t size) {
  constexpr int kWindowBits = 16 + MAX_WBITS;
  std::string bytes(size + 1, '\0');
  std::string input = packed;
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, kWindowBits), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  bytes.resize(stream.total_out);
  inflateEnd(&stream);
  return bytes;
}

TEST(ExplorerFilesTest, WhatIsPackedIsTheSame) {
  for (const ExplorerFile& file : ExplorerFiles()) {
    EXPECT_TRUE(Unpacked(file.gzip, file.bytes.size()) == file.bytes)
        << file.name;
  }
}

// As a browser gets it.
TEST(ExplorerFilesTest, ThePageIsLight) {
  size_t bytes = 0;
  for (const ExplorerFile& file : ExplorerFiles()) bytes += file.gzip.size();
  EXPECT_LE(bytes, kMaxPageBytes);
  EXPECT_GT(bytes, 1000U);
}

}  // namespace
}  // namespace attn
