#include "server/rpc/line_writer.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/test_pipe.h"

namespace attn {
namespace {

using ::testing::Contains;

constexpr char kLost[] = "lost ";

// On a busy machine too nothing is given up.
LineWriterOptions Patient() {
  LineWriterOptions options;
  options.flush_timeout = absl::Minutes(5);
  options.describe_lost = [](int64_t lines) {
    return absl::StrCat(kLost, lines, "\n");
  };
  return options;
}

// About 100 bytes, with `number` at its end.
std::string NumberedLine(int number) {
  return std::string(90, '.') + " " + std::to_string(number);
}

void WriteNumbered(LineWriter& writer, int count) {
  for (int i = 0; i < count; ++i) writer.Write(NumberedLine(i) + "\n");
}

TEST(LineWriter, LinesComeWholeAndThoseOfAThreadInOrder) {
  constexpr int kThreads = 4;
  constexpr int kLines = 1000;
  TestPipe pipe;
  LineWriter writer(pipe.writing_end(), Patient());
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&writer, thread] {
      for (int i = 0; i < kLines; ++i) {
        writer.Write(absl::StrCat(thread, NumberedLine(i), "\n"));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<int> next(kThreads, 0);
  for (int i = 0; i < kThreads * kLines; ++i) {
    const std::string line = pipe.ReadLine();
    ASSERT_FALSE(line.empty());
    const auto thread = static_cast<size_t>(line[0] - '0');
    ASSERT_LT(thread, next.size());
    EXPECT_EQ(line.substr(1), NumberedLine(next[thread]++));
  }
}

TEST(LineWriter, NothingIsLostBeforeTheEnd) {
  TestPipe pipe;
  std::thread end([&pipe] {
    LineWriter writer(pipe.writing_end(), Patient());
    WriteNumbered(writer, 5000);
  });
  for (int i = 0; i < 5000; ++i) EXPECT_EQ(pipe.ReadLine(), NumberedLine(i));
  end.join();
}

// Write() returns though nobody reads, and what does not fit is counted.
TEST(LineWriter, LinesWithoutRoomAreDroppedAndTheirNumberIsTold) {
  constexpr int kLines = 20000;
  TestPipe pipe;
  LineWriterOptions options = Patient();
  options.max_bytes = 100'000;
  LineWriter writer(pipe.writing_end(), options);
  WriteNumbered(writer, kLines);
  int read = 0;
  int lost = 0;
  while (read + lost < kLines) {
    const std::string line = pipe.ReadLine();
    int more = 0;
    if (!absl::StartsWith(line, kLost)) {
      ++read;
    } else if (absl::SimpleAtoi(line.substr(sizeof(kLost) - 1), &more)) {
      lost += more;
    }
  }
  EXPECT_GT(lost, 0);
  EXPECT_EQ(read + lost, kLines);
  // And all goes on as before.
  writer.Write("again\n");
  EXPECT_EQ(pipe.ReadLine(), "again");
}

TEST(LineWriter, AReaderThatTakesNothingDelaysTheEndByTheFlushAtMost) {
  TestPipe pipe;
  LineWriterOptions options = Patient();
  options.flush_timeout = absl::Milliseconds(50);
  const absl::Time start = absl::Now();
  {
    LineWriter writer(pipe.writing_end(), options);
    WriteNumbered(writer, 5000);
  }
  EXPECT_LT(absl::Now() - start, absl::Minutes(1));
}

// Of 5000 lines, how many a slow reader gets: it needs twice the timeout.
int LinesTakenSlowly(absl::Duration flush_timeout) {
  constexpr int kPauses = 10;
  TestPipe pipe;
  std::thread end([&] {
    LineWriterOptions options = Patient();
    options.flush_timeout = flush_timeout;
    {
      LineWriter writer(pipe.writing_end(), options);
      WriteNumbered(writer, 5000);
    }
    pipe.WriteLine("end");
  });
  int lines = 0;
  while (pipe.ReadLine() != "end") {
    if (++lines % (5000 / kPauses) == 0) {
      absl::SleepFor(2 * flush_timeout / kPauses);
    }
  }
  end.join();
  return lines;
}

// A busy machine may stop the reader for longer than the shorter ones.
TEST(LineWriter, AReaderThatKeepsTakingLinesGetsThemAll) {
  int lines = 0;
  for (absl::Duration flush_timeout = absl::Milliseconds(500);
       lines < 5000 && flush_timeout < absl::Minutes(1); flush_timeout *= 4) {
    lines = LinesTakenSlowly(flush_timeout);
  }
  EXPECT_EQ(lines, 5000);
}

// Writes lines to `descriptor`, which cannot take them all, and one more when
// `mend` has made it able to, `after` so long.
void WriteToFailing(int descriptor, absl::Duration after,
                    const std::function<void()>& mend) {
  LineWriter writer(descriptor, Patient());
  WriteNumbered(writer, 100);
  absl::SleepFor(after);
  mend();
  writer.Write("again\n");
}

// How many lines are there or told to be lost.
int Told(const std::vector<std::string>& lines, int* lost) {
  int read = 0;
  for (const std::string& line : lines) {
    int more = 0;
    if (!absl::StartsWith(line, kLost)) {
      ++read;
    } else if (absl::SimpleAtoi(line.substr(sizeof(kLost) - 1), &more)) {
      *lost += more;
    }
  }
  return read + *lost;
}

TEST(LineWriter, LinesThatCannotBeWrittenAreCountedAndTold) {
  int lost = 0;
  // A busy machine may take its time to fail.
  for (absl::Duration after = absl::Milliseconds(20);
       lost == 0 && after < absl::Minutes(1); after *= 4) {
    TestPipe pipe;
    const int descriptor = open("/dev/full", O_WRONLY | O_CLOEXEC);
    ASSERT_GE(descriptor, 0);
    WriteToFailing(descriptor, after,
                   [&] { dup2(pipe.writing_end(), descriptor); });
    close(descriptor);
    pipe.WriteLine("end");
    std::vector<std::string> lines;
    for (std::string line; (line = pipe.ReadLine()) != "end";) {
      lines.push_back(line);
    }
    ASSERT_EQ(Told(lines, &lost), 101);
  }
  EXPECT_GT(lost, 0);
}

// No file of this process becomes longer while this lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit limit = {bytes, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FileSizeLimit() { EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before_), 0); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_ = {};
};

// As a disk does that becomes full.
TEST(LineWriter, ALineThatIsCutShortSpoilsNoneOfThoseThatFollow) {
  const std::string piece(50, '.');
  const rlim_t limit = NumberedLine(0).size() + 1 + piece.size();
  int lost = 0;
  for (absl::Duration after = absl::Milliseconds(20);
       lost == 0 && after < absl::Minutes(1); after *= 4) {
    FILE* file = std::tmpfile();
    ASSERT_NE(file, nullptr);
    auto full = std::make_unique<FileSizeLimit>(limit);
    WriteToFailing(fileno(file), after, [&full] { full.reset(); });
    std::rewind(file);
    std::vector<std::string> lines;
    std::array<char, 200> line{};
    while (fgets(line.data(), line.size(), file) != nullptr) {
      lines.emplace_back(absl::StripSuffix(line.data(), "\n"));
    }
    fclose(file);
    EXPECT_THAT(lines, Contains("again"));
    lines.erase(std::remove(lines.begin(), lines.end(), piece), lines.end());
    ASSERT_EQ(Told(lines, &lost), 101);
  }
  EXPECT_GT(lost, 0);
}

TEST(LineWriter, ADescriptorThatDoesNotBlockGetsWholeLines) {
  TestPipe pipe;
  ASSERT_EQ(fcntl(pipe.writing_end(), F_SETFL, O_NONBLOCK), 0);
  LineWriter writer(pipe.writing_end(), Patient());
  WriteNumbered(writer, 5000);
  while (!pipe.IsFull()) std::this_thread::yield();
  for (int i = 0; i < 5000; ++i) ASSERT_EQ(pipe.ReadLine(), NumberedLine(i));
}

}  // namespace
}  // namespace attn
