// The storyteller against servers in this process: every attention is a step.
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/examples/storyteller/model.h"
#include "client/examples/storyteller/sampler.h"
#include "client/examples/storyteller/session_attention.h"
#include "client/library/remote_session.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/app/server.h"

namespace attn {
namespace {

using nlohmann::json;

std::string BytesOf(const std::string& path) {
  std::ifstream stream(std::string(ATTN_SOURCE_DIR) + "/" + path,
                       std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

class StorySessionTest : public ::testing::Test {
 protected:
  StorySessionTest()
      : log_(LogFormat::kText, [](const std::string&) {}),
        model_(*LlamaModel::Parse(BytesOf("server/story/model/tiny.bin"))),
        golden_(json::parse(BytesOf("tests/server/story/data/golden.json"))
                    .at("cases")) {
    options_.addresses.clear();
    for (int i = 0; i < 2; ++i) StartServer();
  }
  ~StorySessionTest() override {
    for (const auto& server : servers_) {
      if (server != nullptr) server->Hurry();
    }
  }

  void StartServer() {
    ServerOptions options;
    options.grpc_addresses = {"127.0.0.1:0"};
    options.metrics_address = "";
    options.http_address = "";
    options.drain_delay = absl::ZeroDuration();
    options.compute_threads = 1;
    auto server = Server::Start(options, log_);
    ASSERT_TRUE(server.ok()) << server.status();
    options_.addresses.push_back((*server)->grpc_addresses()[0]);
    servers_.push_back(*std::move(server));
  }

  // The ids behind the prompt, each of the largest logit. `before` is called
  // with the number of every token before it is made up.
  template <typename Before>
  std::vector<int32_t> Tell(const json& story, RemoteSession& session,
                            const Before& before) const {
    std::vector<int32_t> told;
    TokenSampler greedy(0, 1);
    auto next = story.at("prompt_ids").get<std::vector<int32_t>>();
    while (told.size() < story.at("continuation_ids").size()) {
      before(told.size());
      const auto logits = model_.Read(next, [&](const LlamaRows& rows) {
        return AttendRemotely(model_.sizes(), rows, session);
      });
      EXPECT_TRUE(logits.ok()) << logits.status();
      if (!logits.ok()) break;
      next = {greedy.Next(*logits)};
      told.push_back(next[0]);
    }
    return told;
  }

  LineLog log_;
  LlamaModel model_;
  json golden_;
  RemoteSessionOptions options_;
  std::vector<std::unique_ptr<Server>> servers_;
};

TEST_F(StorySessionTest, TellsTheGoldenStories) {
  for (const json& story : golden_) {
    auto session = RemoteSession::Open(SessionFor(model_.sizes()), options_);
    ASSERT_TRUE(session.ok()) << session.status();
    EXPECT_EQ(Tell(story, *session, [](size_t) {}),
              story.at("continuation_ids").get<std::vector<int32_t>>());
    EXPECT_EQ(session->moves(), 0);
    EXPECT_TRUE(session->Close().ok());
  }
}

TEST_F(StorySessionTest, TheStoryIsTheSameWhenItsServerGoes) {
  const json& story = golden_[0];
  auto session = RemoteSession::Open(SessionFor(model_.sizes()), options_);
  ASSERT_TRUE(session.ok()) << session.status();
  const auto told = Tell(story, *session, [this](size_t token) {
    if (token != 40) return;
    servers_[0]->Hurry();
    servers_[0] = nullptr;
  });
  EXPECT_EQ(told, story.at("continuation_ids").get<std::vector<int32_t>>());
  EXPECT_EQ(session->moves(), 1);
}

TEST_F(StorySessionTest, AStoryThatWasTakenBackIsToldAgain) {
  const json& story = golden_[1];
  auto session = RemoteSession::Open(SessionFor(model_.sizes()), options_);
  ASSERT_TRUE(session.ok()) << session.status();
  const auto prompt = static_cast<int64_t>(story.at("prompt_ids").size());
  const auto first = Tell(story, *session, [](size_t) {});
  auto fork = session->Fork(prompt);
  ASSERT_TRUE(fork.ok()) << fork.status();
  ASSERT_TRUE(session->Rollback(0).ok());
  EXPECT_EQ(Tell(story, *session, [](size_t) {}), first);
  // The fork has the prompt: its first step is the first token that was made
  // up.
  const std::vector<int32_t> ids = story.at("continuation_ids");
  const auto logits = model_.Read({{ids[0]}}, [&](const LlamaRows& rows) {
    return AttendRemotely(model_.sizes(), rows, *fork);
  });
  ASSERT_TRUE(logits.ok()) << logits.status();
  EXPECT_EQ(TokenSampler(0, 1).Next(*logits), ids[1]);
}

}  // namespace
}  // namespace attn
