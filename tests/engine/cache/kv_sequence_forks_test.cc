// Whatever forks do, the others keep what they have.
#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/cache/kv_sequence.h"
#include "gtest/gtest.h"
#include "tests/engine/cache/stored_rows.h"

namespace attn {
namespace {

constexpr int64_t kHeads = 2;
constexpr int64_t kKeyWidth = 3;
constexpr int64_t kValueWidth = 5;
constexpr int64_t kTokenFloats = kHeads * (kKeyWidth + kValueWidth);

// What a sequence must hold: tokens of kTokenFloats numbers each.
struct SequenceModel {
  std::vector<float> numbers;
  // Indices of blocks.
  std::set<int64_t> released;

  int64_t length() const { return std::ssize(numbers) / kTokenFloats; }

  bool Has(int64_t token) const { return !released.contains(token / 64); }

  bool MayTruncate(int64_t length, int64_t window) const {
    for (int64_t t = 0; t < std::min(length, this->length()); ++t) {
      if ((window == 0 || t >= length - window) && !Has(t)) {
        return length >= this->length();
      }
    }
    return true;
  }

  void Truncate(int64_t length) {
    if (length >= this->length()) return;
    numbers.resize(static_cast<size_t>(length * kTokenFloats));
    std::erase_if(released, [&](int64_t b) { return b * 64 >= length; });
  }

  // A block goes if all its tokens are in [keep, end), but for the last such.
  void Release(int64_t keep, int64_t end) {
    end = std::min(end, length());
    std::set<int64_t> whole;
    for (int64_t b = 0; (b + 1) * 64 <= end; ++b) {
      if (b * 64 >= keep) whole.insert(b);
    }
    if (whole.empty()) return;
    whole.erase(std::prev(whole.end()));
    if (whole.empty()) return;
    const bool touches =
        released.empty() || (*whole.begin() <= *released.rbegin() + 1 &&
                             *released.begin() <= *whole.rbegin() + 1);
    if (touches) released.merge(whole);
  }
};

struct KvPair {
  KvSequence sequence;
  SequenceModel model;
};

// A row of whole numbers of which the first is 127: every type keeps it
// exactly, I8 with a scale of 1.
void FillRow(std::minstd_rand& random, int64_t width, float* row) {
  row[0] = 127;
  for (int64_t c = 1; c < width; ++c) {
    row[c] = static_cast<float>(static_cast<int>(random() % 253) - 126);
  }
}

class KvForks {
 public:
  KvForks(DType dtype, unsigned seed)
      : layout_{kHeads, kKeyWidth, kValueWidth, dtype},
        pool_(16 * layout_.block_bytes()),
        random_(seed) {
    Open();
  }

  void Step() {
    const size_t i = random_() % pairs_.size();
    const auto choice = random_() % 100;
    if (choice < 45) {
      Append(pairs_[i]);
    } else if (choice < 60) {
      Fork(i);
    } else if (choice < 75) {
      Truncate(pairs_[i]);
    } else if (choice < 88) {
      const auto keep = static_cast<int64_t>(random_() % 3 * 70);
      const auto end = static_cast<int64_t>(random_() % 700);
      pairs_[i].sequence.Release(keep, end);
      pairs_[i].model.Release(keep, end);
    } else {
      pairs_.erase(pairs_.begin() + static_cast<std::ptrdiff_t>(i));
      if (pairs_.empty()) Open();
    }
  }

  void Check() const {
    for (const KvPair& pair : pairs_) CheckRows(pair);
    CheckBytes();
  }

  int refused() const { return refused_; }
  int shared() const { return shared_; }
  int out_of_window() const { return out_of_window_; }

 private:
  void Open() { pairs_.push_back({KvSequence(layout_, pool_), {}}); }

  void Fork(size_t i) {
    if (pairs_.size() >= 6) return;
    // Spare blocks are shared too, and must not be written by both.
    const bool spare = random_() % 3 == 0 &&
                       pairs_[i].sequence.Reserve(1 + random_() % 80).ok();
    KvPair copy = pairs_[i];
    pairs_.push_back(copy);
    if (!spare) return;
    Append(pairs_[i]);
    Append(pairs_.back());
    for (const size_t j : {i, pairs_.size() - 1}) {
      KvSequence& sequence = pairs_[j].sequence;
      EXPECT_TRUE(sequence.Truncate(sequence.length(), 0).ok());
    }
  }

  void Append(KvPair& pair) {
    const auto count = static_cast<int64_t>(1 + random_() % 100);
    const int64_t before = pool_.used_bytes();
    if (!pair.sequence.Reserve(count).ok()) {
      ++refused_;
      EXPECT_EQ(pool_.used_bytes(), before);
      return;
    }
    // [H, n, width] of keys, then of values.
    std::vector<float> rows(static_cast<size_t>(count * kTokenFloats));
    float* const v = rows.data() + kHeads * count * kKeyWidth;
    for (int64_t i = 0; i < kHeads * count; ++i) {
      FillRow(random_, kKeyWidth, rows.data() + i * kKeyWidth);
      FillRow(random_, kValueWidth, v + i * kValueWidth);
    }
    for (int64_t t = 0; t < count; ++t) {
      for (int64_t h = 0; h < kHeads; ++h) {
        const int64_t row = h * count + t;
        auto& numbers = pair.model.numbers;
        numbers.insert(numbers.end(), rows.data() + row * kKeyWidth,
                       rows.data() + (row + 1) * kKeyWidth);
        numbers.insert(numbers.end(), v + row * kValueWidth,
                       v + (row + 1) * kValueWidth);
      }
    }
    pair.sequence.Append(
        TensorView::Dense(rows.data(), DType::kF32,
                          {1, kHeads, count, kKeyWidth}),
        TensorView::Dense(v, DType::kF32, {1, kHeads, count, kValueWidth}), {});
  }

  void Truncate(KvPair& pair) {
    // Mostly by a few blocks, sometimes anywhere.
    const int64_t most = pair.model.length() + 10;
    const int64_t least =
        random_() % 4 == 0 ? 0 : std::max<int64_t>(most - 160, 0);
    const int64_t length = least + static_cast<int64_t>(random_() % 1000) %
                                       std::max<int64_t>(most - least, 1);
    const int64_t windows[] = {0, 1, 40, 100};
    const int64_t window = windows[random_() % 4];
    const bool may = pair.model.MayTruncate(length, window);
    EXPECT_EQ(pair.sequence.Truncate(length, window).ok(), may)
        << length << " of " << pair.model.length() << ", window " << window;
    if (may) pair.model.Truncate(length);
    if (!may) ++out_of_window_;
  }

  void CheckRows(const KvPair& pair) const {
    ASSERT_EQ(pair.sequence.length(), pair.model.length());
    const float* number = pair.model.numbers.data();
    for (int64_t t = 0; t < pair.model.length(); ++t) {
      for (int64_t h = 0; h < kHeads; ++h) {
        const std::vector<double> key(number, number + kKeyWidth);
        number += kKeyWidth;
        const std::vector<double> value(number, number + kValueWidth);
        number += kValueWidth;
        if (!pair.model.Has(t)) continue;
        ASSERT_EQ(StoredKey(pair.sequence, h, t), key) << t;
        ASSERT_EQ(StoredValue(pair.sequence, h, t), value) << t;
      }
    }
  }

  // Each block counts once in the pool, in all who hold it, and as its own in
  // who holds it alone.
  void CheckBytes() const {
    std::map<const std::byte*, int> holders;
    std::vector<std::set<const std::byte*>> held;
    for (const KvPair& pair : pairs_) {
      const std::byte* const* const blocks = pair.sequence.Describe().blocks;
      held.emplace_back();
      for (int64_t t = 0; t < pair.model.length(); t += 64) {
        if (pair.model.Has(t)) held.back().insert(blocks[t / 64]);
      }
      for (int64_t t = 0; t < pair.model.length(); t += 64) {
        EXPECT_TRUE(held.back().contains(blocks[t / 64])) << t;
      }
      for (const std::byte* block : held.back()) ++holders[block];
    }
    const int64_t bytes = layout_.block_bytes();
    for (size_t i = 0; i < pairs_.size(); ++i) {
      const auto own =
          std::count_if(held[i].begin(), held[i].end(),
                        [&](const std::byte* b) { return holders[b] == 1; });
      EXPECT_EQ(pairs_[i].sequence.bytes(), std::ssize(held[i]) * bytes);
      EXPECT_EQ(pairs_[i].sequence.own_bytes(), own * bytes);
      shared_ += own < std::ssize(held[i]) ? 1 : 0;
    }
    EXPECT_EQ(pool_.used_bytes(), std::ssize(holders) * bytes);
  }

  const KvLayout layout_;
  KvBlockPool pool_;
  std::minstd_rand random_;
  // Not moved when others come.
  std::deque<KvPair> pairs_;
  int refused_ = 0;
  int out_of_window_ = 0;
  mutable int shared_ = 0;
};

class KvForksTest : public ::testing::TestWithParam<DType> {};

TEST_P(KvForksTest, NoForkChangesAnother) {
  int refused = 0;
  int shared = 0;
  int out_of_window = 0;
  for (unsigned seed = 1; seed <= 3; ++seed) {
    KvForks forks(GetParam(), seed);
    for (int step = 0; step < 120; ++step) {
      forks.Step();
      forks.Check();
      if (HasFailure()) FAIL() << "seed " << seed << ", step " << step;
    }
    refused += forks.refused();
    shared += forks.shared();
    out_of_window += forks.out_of_window();
  }
  // What is to be tried has been tried.
  EXPECT_GT(refused, 10);
  EXPECT_GT(shared, 100);
  EXPECT_GT(out_of_window, 10);
}

INSTANTIATE_TEST_SUITE_P(EveryType, KvForksTest,
                         ::testing::Values(DType::kF32, DType::kF16,
                                           DType::kBF16, DType::kI8),
                         [](const auto& test) {
                           return std::string(Name(test.param));
                         });

constexpr int64_t kWidth = 4;

void AppendNumber(KvSequence& sequence, float number, int64_t count) {
  std::vector<float> rows(static_cast<size_t>(count * kWidth), number);
  const TensorView view =
      TensorView::Dense(rows.data(), DType::kF32, {1, 1, count, kWidth});
  ASSERT_TRUE(sequence.Reserve(count).ok());
  sequence.Append(view, view, {});
}

void ExpectNumber(const KvSequence& sequence, double number, int64_t from,
                  int64_t to) {
  for (int64_t t = from; t < to; ++t) {
    EXPECT_EQ(StoredKey(sequence, 0, t), std::vector<double>(kWidth, number));
    EXPECT_EQ(StoredValue(sequence, 0, t), std::vector<double>(kWidth, number));
  }
}

TEST(KvForksOnThreadsTest, EachSeesItsOwnTokensAlone) {
  KvBlockPool pool(int64_t{1} << 30);
  KvSequence base({1, kWidth, kWidth, DType::kF32}, pool);
  AppendNumber(base, 9, 100);
  std::vector<std::thread> threads;
  for (int mark = 1; mark <= 2; ++mark) {
    threads.emplace_back([mark, fork = base]() mutable {
      for (int i = 0; i < 200; ++i) {
        KvSequence own = fork;
        AppendNumber(own, static_cast<float>(mark), 1 + i % 70);
        ExpectNumber(own, 9, 0, 100);
        ExpectNumber(own, mark, 100, own.length());
        if (i % 3 == 0) fork = own;
        ASSERT_TRUE(fork.Truncate(100, 0).ok());
      }
    });
  }
  ExpectNumber(base, 9, 0, 100);
  for (std::thread& thread : threads) thread.join();
  ExpectNumber(base, 9, 0, 100);
  EXPECT_EQ(pool.used_bytes(), 0 + base.bytes());
}

// Who finds itself alone with a block writes to it: what the fork that has just
// gone read there must lie before that.
TEST(KvForksOnThreadsTest, AForkThatGoesHasReadItsLast) {
  KvBlockPool pool(int64_t{1} << 30);
  KvSequence base({1, kWidth, kWidth, DType::kF32}, pool);
  AppendNumber(base, 9, 100);
  for (int i = 0; i < 300; ++i) {
    std::thread reader([fork = base]() mutable {
      ExpectNumber(fork, 9, 60, 100);
      const KvSequence gone = std::move(fork);
    });
    // Until the fork lets go, which orders nothing by itself.
    ASSERT_TRUE(base.Truncate(90, 0).ok());
    while (base.own_bytes() < base.bytes()) std::this_thread::yield();
    AppendNumber(base, 9, 10);
    reader.join();
    ExpectNumber(base, 9, 0, 100);
  }
}

}  // namespace
}  // namespace attn
