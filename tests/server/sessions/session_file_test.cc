// A file is what was written, or it is refused.
#include "server/sessions/session_file.h"

#include <sys/stat.h>

#include <filesystem>
#include <random>

#include "server/sessions/session_directory.h"
#include "tests/server/sessions/spill_fixture.h"

namespace attn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kAnId[] = "0123456789abcdef0123456789abcdef";
const KvLayout kTiny{1, 1, 1, DType::kI8};

class SessionFileTest : public ::testing::Test {
 protected:
  SessionFileTest() {
    for (int layer = 0; layer < 2; ++layer) {
      KvSequence& sequence = layers_.emplace_back(kTiny, pool_);
      const std::vector<float> rows = {1, -2, 3.5};
      const TensorView view =
          TensorView::Dense(rows.data(), DType::kF32, {1, 1, 3, 1});
      EXPECT_TRUE(sequence.Reserve(3).ok());
      sequence.Append(view, view, {});
      record_.layers.push_back(sequence.extent());
    }
    record_.id = kAnId;
    record_.tenant = "alice";
    record_.opening = std::string("any\0bytes", 9);
    record_.epoch = 7;
    record_.next_step = uint64_t{1} << 63;
    record_.rolled_back_to = 2;
    record_.last = RecordedAnswer{
        .step = 41, .digest = 42, .kept = true, .message_bytes = 5};
    record_.written = absl::FromUnixMillis(1700000000123);
    record_.idle = absl::Milliseconds(1500);
    record_.age = absl::Hours(2);
    record_.block_bytes = kTiny.block_bytes();
  }

  void Write() {
    const absl::Status status =
        WriteSessionFile(folder_.path(), record_, layers_, "hello");
    ASSERT_TRUE(status.ok()) << status;
  }
  std::string path() const { return folder_.File(SessionFileName(kAnId)); }

  // Opens and reads it.
  absl::Status ReadAll() {
    auto file = SessionFile::Open(folder_.path(), kAnId);
    if (!file.ok()) return file.status();
    std::vector<KvSequence> layers;
    for (const KvExtent& extent : file->record().layers) {
      absl::Status status =
          layers.emplace_back(kTiny, pool_).ReserveExtent(extent);
      if (!status.ok()) return status;
    }
    return file->Read(layers).status();
  }

  ScratchFolder folder_;
  KvBlockPool pool_{int64_t{1} << 20};
  std::vector<KvSequence> layers_;
  SessionRecord record_;
};

TEST_F(SessionFileTest, GivesBackAllThatWasWritten) {
  Write();
  auto file = SessionFile::Open(folder_.path(), kAnId);
  ASSERT_TRUE(file.ok()) << file.status();
  const SessionRecord& read = file->record();
  EXPECT_EQ(read.id, record_.id);
  EXPECT_EQ(read.tenant, record_.tenant);
  EXPECT_EQ(read.opening, record_.opening);
  EXPECT_EQ(read.epoch, record_.epoch);
  EXPECT_EQ(read.next_step, record_.next_step);
  EXPECT_EQ(read.rolled_back_to, record_.rolled_back_to);
  ASSERT_TRUE(read.last.has_value());
  EXPECT_EQ(read.last->step, record_.last->step);
  EXPECT_EQ(read.last->digest, record_.last->digest);
  EXPECT_TRUE(read.last->kept);
  EXPECT_EQ(read.written, record_.written);
  EXPECT_EQ(read.idle, record_.idle);
  EXPECT_EQ(read.age, record_.age);
  EXPECT_EQ(read.layers, record_.layers);
  EXPECT_EQ(file->bytes(), SessionFileBytes(record_));
  EXPECT_EQ(file->bytes(),
            static_cast<int64_t>(std::filesystem::file_size(path())));
  std::vector<KvSequence> layers(2, KvSequence(kTiny, pool_));
  for (KvSequence& layer : layers) {
    ASSERT_TRUE(layer.ReserveExtent(read.layers[0]).ok());
  }
  const auto message = file->Read(layers);
  ASSERT_TRUE(message.ok()) << message.status();
  EXPECT_EQ(*message, "hello");
}

TEST_F(SessionFileTest, IsForItsOwnerAndLeavesNothingElse) {
  Write();
  struct stat facts = {};
  ASSERT_EQ(stat(path().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600U);
  Write();
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder_.path())) {
    names.push_back(entry.path().filename().string());
  }
  EXPECT_THAT(names, ElementsAre(SessionFileName(kAnId)));
}

TEST_F(SessionFileTest, OfWhichAnyByteIsAnotherIsRefused) {
  Write();
  const std::string good = ReadWhole(path());
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << i % 8));
    WriteWhole(path(), bad);
    const absl::Status status = ReadAll();
    EXPECT_TRUE(absl::IsDataLoss(status)) << "byte " << i << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path()));
  }
  WriteWhole(path(), good);
  EXPECT_TRUE(ReadAll().ok());
}

TEST_F(SessionFileTest, OfAnyOtherLengthIsRefused) {
  Write();
  const std::string good = ReadWhole(path());
  for (size_t size = 0; size < good.size(); ++size) {
    WriteWhole(path(), good.substr(0, size));
    EXPECT_TRUE(absl::IsDataLoss(ReadAll())) << size << " bytes";
  }
  WriteWhole(path(), good + '\0');
  EXPECT_TRUE(absl::IsDataLoss(ReadAll()));
}

TEST_F(SessionFileTest, ThatIsNoneIsRefusedByName) {
  EXPECT_TRUE(absl::IsDataLoss(ReadAll()));
  std::filesystem::create_directory(path());
  EXPECT_THAT(std::string(ReadAll().message()), HasSubstr("no regular file"));
  std::filesystem::remove(path());
  WriteWhole(path(), std::string(100, 'x'));
  EXPECT_THAT(std::string(ReadAll().message()),
              HasSubstr("no file of a session"));
  std::filesystem::remove(path());
  // Of another session, under this one's name.
  record_.id[0] = 'f';
  Write();
  std::filesystem::rename(folder_.File(SessionFileName(record_.id)), path());
  EXPECT_THAT(std::string(ReadAll().message()), HasSubstr("another session's"));
}

TEST_F(SessionFileTest, WhoseFolderIsGoneSaysSo) {
  const absl::Status status =
      WriteSessionFile(folder_.File("none"), record_, layers_, "hello");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder_.File("none")));
}

// The checksum keeps chance out; these are what is written on purpose.
TEST_F(SessionFileTest, RecordsThatNoSessionHasAreRefused) {
  const auto refused = [](SessionRecord record) {
    return !DecodeSessionRecord(EncodeSessionRecord(record)).ok();
  };
  EXPECT_FALSE(refused(record_));
  SessionRecord record = record_;
  record.layers[1] = {.length = -1};
  EXPECT_TRUE(refused(record));
  record.layers[1] = {.length = 100, .released_begin = 0, .released_end = 1000};
  EXPECT_TRUE(refused(record));
  record = record_;
  record.layers.resize(1025);
  EXPECT_TRUE(refused(record));
  record = record_;
  record.last->message_bytes = -1;
  EXPECT_TRUE(refused(record));
  record = record_;
  record.idle = -absl::Seconds(1);
  EXPECT_TRUE(refused(record));
  record = record_;
  record.rolled_back_to = -1;
  EXPECT_TRUE(refused(record));
  record = record_;
  record.block_bytes = int64_t{1} << 62;
  EXPECT_EQ(record.body_bytes(), std::numeric_limits<int64_t>::max());
}

// Neither crashes nor allocates without bound, which the sanitizers and the
// test's own memory tell.
TEST_F(SessionFileTest, AnyBytesAreARecordOrAreRefused) {
  const std::string good = EncodeSessionRecord(record_);
  std::mt19937 random(3);
  int taken = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    EXPECT_FALSE(DecodeSessionRecord(good.substr(0, i)).ok());
    for (int j = 0; j < 8; ++j) {
      std::string bad = good;
      bad[i] = static_cast<char>(random());
      const auto record = DecodeSessionRecord(bad);
      if (!record.ok()) continue;
      ++taken;
      EXPECT_EQ(EncodeSessionRecord(*record), bad);
    }
  }
  // Most of the bytes are of texts and of numbers that may be any.
  EXPECT_GT(taken, 0);
}

class SessionDirectoryTest : public ::testing::Test {
 protected:
  static SessionRecord RecordFor(const std::string& id) {
    SessionRecord record;
    record.id = id;
    record.written = absl::FromUnixSeconds(1);
    return record;
  }
  auto OpenFolder(int64_t max_bytes = 0) {
    return SessionDirectory::Open({.path = path_, .max_bytes = max_bytes});
  }

  ScratchFolder folder_;
  const std::string path_ = folder_.File("sessions");
};

TEST_F(SessionDirectoryTest, IsMadeForItsOwnerAlone) {
  ASSERT_TRUE(OpenFolder().ok());
  struct stat facts = {};
  ASSERT_EQ(stat(path_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0700U);
}

TEST_F(SessionDirectoryTest, BelongsToOneServer) {
  auto first = OpenFolder();
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::Status second = OpenFolder().status();
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.message()),
              HasSubstr("--session-dir=" + path_ + ": another server has it"));
  first->reset();
  EXPECT_TRUE(OpenFolder().ok());
}

TEST_F(SessionDirectoryTest, ThatCannotBeMadeIsNamed) {
  folder_.Write("file", "");
  const absl::Status status =
      SessionDirectory::Open({.path = folder_.File("file/sessions")}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--session-dir="));
}

TEST_F(SessionDirectoryTest, FindsSessionsRemovesLeftoversAndLeavesTheRest) {
  const std::string other = std::string(32, 'e');
  {
    auto directory = OpenFolder();
    ASSERT_TRUE(directory.ok());
    for (const std::string& id : {other, std::string(kAnId)}) {
      ASSERT_TRUE((*directory)->Write(RecordFor(id), {}, "").ok());
    }
  }
  const std::string leftover = folder_.Write(
      std::string("sessions/.") + kAnId + ".session.tmp-a1B2c3", "half");
  for (const char* name :
       {"notes.txt", "short.session",
        "0123456789abcdef0123456789abcdeX.session",
        "0123456789abcdef0123456789abcdef.session.damaged"}) {
    folder_.Write(std::string("sessions/") + name, "any");
  }
  auto directory = OpenFolder();
  ASSERT_TRUE(directory.ok());
  EXPECT_THAT((*directory)->found(), ElementsAre(kAnId, other));
  EXPECT_FALSE(std::filesystem::exists(leftover));
  EXPECT_TRUE(std::filesystem::exists(path_ + "/notes.txt"));
}

TEST_F(SessionDirectoryTest, HoldsNoMoreThanItMay) {
  const int64_t one = SessionFileBytes(RecordFor(kAnId));
  auto directory = OpenFolder(2 * one - 1);
  ASSERT_TRUE(directory.ok());
  SessionDirectory& sessions = **directory;
  const std::string other(32, 'e');
  const auto bytes = sessions.Write(RecordFor(kAnId), {}, "");
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(*bytes, one);
  EXPECT_EQ(sessions.used_bytes(), one);
  const absl::Status full = sessions.Write(RecordFor(other), {}, "").status();
  EXPECT_TRUE(absl::IsResourceExhausted(full));
  EXPECT_THAT(std::string(full.message()), HasSubstr("--max-spill-bytes"));
  EXPECT_EQ(sessions.used_bytes(), one);
  sessions.Remove(kAnId, one);
  EXPECT_EQ(sessions.used_bytes(), 0);
  EXPECT_TRUE(sessions.Write(RecordFor(other), {}, "").ok());
}

TEST_F(SessionDirectoryTest, WhatCannotBeWrittenDoesNotCount) {
  auto directory = OpenFolder();
  ASSERT_TRUE(directory.ok());
  std::filesystem::remove_all(path_);
  EXPECT_EQ((*directory)->Write(RecordFor(kAnId), {}, "").status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ((*directory)->used_bytes(), 0);
}

}  // namespace
}  // namespace attn
