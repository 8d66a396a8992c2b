// Tells a story with a Llama-type model whose attention is computed by a
// server: each layer of each token is one step of a session.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/examples/storyteller/model.h"
#include "client/examples/storyteller/sampler.h"
#include "client/examples/storyteller/session_attention.h"
#include "client/examples/storyteller/tokenizer.h"
#include "client/library/call_status.h"
#include "client/library/remote_session.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

// As those of the program attn.
enum class StoryExit { kOk = 0, kUsage = 2, kRefused = 3, kUnreachable = 4 };

struct StoryFlags {
  std::string address = "127.0.0.1:8001";
  std::string model;
  std::string tokenizer;
  int64_t steps = 256;
  std::string prompt;
  double temperature = 0;
  uint64_t seed = 1;
};

StoryExit Say(absl::string_view message, StoryExit code) {
  std::string line(message);
  for (char& letter : line) {
    if (letter == '\n' || letter == '\r') letter = ' ';
  }
  std::cerr << "storyteller: " << line << "\n";
  return code;
}

StoryExit SayWhy(const absl::Status& status) {
  const std::string message(status.message());
  if (IsUnreachable(status)) return Say(message, StoryExit::kUnreachable);
  return Say(message, FieldOf(status).has_value() ? StoryExit::kUsage
                                                  : StoryExit::kRefused);
}

absl::StatusOr<std::string> ReadFile(const char* flag,
                                     const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  // Reading from a directory would throw.
  if (!stream || std::filesystem::is_directory(path)) {
    return FieldError(flag, path, "a file that can be read");
  }
  return std::string{std::istreambuf_iterator<char>(stream), {}};
}

struct Story {
  LlamaModel model;
  LlamaTokenizer tokenizer;
  // What comes before it.
  std::vector<int32_t> prompt;
};

absl::StatusOr<Story> Prepare(const StoryFlags& flags) {
  const auto model_file = ReadFile("--model", flags.model);
  if (!model_file.ok()) return model_file.status();
  auto model = LlamaModel::Parse(*model_file);
  if (!model.ok()) return model.status();
  const auto tokenizer_file = ReadFile("--tokenizer", flags.tokenizer);
  if (!tokenizer_file.ok()) return tokenizer_file.status();
  auto tokenizer = LlamaTokenizer::Parse(*tokenizer_file);
  if (!tokenizer.ok()) return tokenizer.status();
  const LlamaSizes& sizes = model->sizes();
  if (tokenizer->size() != sizes.vocabulary) {
    return FieldError("--tokenizer", absl::StrCat(tokenizer->size(), " pieces"),
                      absl::StrCat(sizes.vocabulary, ", as the model has"));
  }
  auto prompt = tokenizer->Encode(flags.prompt, sizes.longest_text);
  if (!prompt.ok()) return prompt.status();
  return Story{*std::move(model), *std::move(tokenizer), *std::move(prompt)};
}

RemoteSessionOptions SessionOptions(const StoryFlags& flags) {
  RemoteSessionOptions options;
  options.addresses = absl::StrSplit(flags.address, ',');
  // With somewhere else to go, one more try where it was is enough.
  if (options.addresses.size() > 1) options.client.retry.max_attempts = 2;
  return options;
}

// How a story went.
struct Telling {
  int64_t tokens = 0;
  double seconds = 0;
};

// Prints the prompt and what follows, each piece as soon as it is known.
absl::StatusOr<Telling> Tell(const Story& story, const StoryFlags& flags,
                             RemoteSession& session) {
  const LlamaSizes& sizes = story.model.sizes();
  const LlamaAttention attend = [&](const LlamaRows& rows) {
    return AttendRemotely(sizes, rows, session);
  };
  const auto print = [&](int32_t before, int32_t token) {
    std::cout << story.tokenizer.Decode(before, token) << std::flush;
  };
  for (size_t i = 1; i < story.prompt.size(); ++i) {
    print(story.prompt[i - 1], story.prompt[i]);
  }
  TokenSampler sampler(flags.temperature, flags.seed);
  std::vector<int32_t> next = story.prompt;
  Telling telling;
  const auto begin = std::chrono::steady_clock::now();
  while (telling.tokens < flags.steps &&
         session.length() + static_cast<int64_t>(next.size()) <=
             sizes.longest_text) {
    const auto logits = story.model.Read(next, attend);
    if (!logits.ok()) return logits.status();
    const int32_t token = sampler.Next(*logits);
    ++telling.tokens;
    // The model says that the story is over.
    if (token == LlamaTokenizer::kBegin) break;
    print(next.back(), token);
    next = {token};
  }
  const std::chrono::duration<double> taken =
      std::chrono::steady_clock::now() - begin;
  telling.seconds = taken.count();
  return telling;
}

StoryExit Run(const StoryFlags& flags) {
  const auto story = Prepare(flags);
  if (!story.ok()) return SayWhy(story.status());
  auto session = RemoteSession::Open(SessionFor(story->model.sizes()),
                                     SessionOptions(flags));
  if (!session.ok()) return SayWhy(session.status());
  const auto telling = Tell(*story, flags, *session);
  std::cout << std::endl;
  session->Close().IgnoreError();
  if (!telling.ok()) return SayWhy(telling.status());
  if (!std::cout) return Say("the story cannot be written", StoryExit::kUsage);
  std::cerr << telling->tokens << " tokens, "
            << static_cast<double>(telling->tokens) / telling->seconds
            << " tokens per second, " << story->model.sizes().layers
            << " steps for each, at " << session->address();
  if (session->moves() > 0) {
    std::cerr << "; went on elsewhere " << session->moves() << " times";
  }
  std::cerr << "\n";
  return StoryExit::kOk;
}

// The command line is read, or the program's exit code.
std::optional<StoryExit> Parse(int argc, char** argv, StoryFlags& flags) {
  CLI::App app("Tells a story, with attention from an attn server",
               "storyteller");
  app.add_option("--address", flags.address,
                 "Servers, with commas between: host:port or unix:/path")
      ->capture_default_str();
  app.add_option("--model", flags.model, "Weights, as of the llama2.c project")
      ->required();
  app.add_option("--tokenizer", flags.tokenizer, "Its tokenizer")->required();
  app.add_option("--steps", flags.steps, "Most tokens to make up")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30))
      ->capture_default_str();
  app.add_option("--prompt", flags.prompt, "How the story begins");
  app.add_option(
         "--temperature", flags.temperature,
         "0: always the likeliest token; 1: as often as they are likely")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  app.add_option("--seed", flags.seed, "Of the draws at a temperature above 0")
      ->capture_default_str();
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      app.exit(error);  // --help
      return StoryExit::kOk;
    }
    return Say(error.what(), StoryExit::kUsage);
  }
}

}  // namespace
}  // namespace attn

int main(int argc, char** argv) {
  try {
    // What gRPC would log is in the error that a call ends with.
    // NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread yet.
    setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
    attn::StoryFlags flags;
    const auto ended = attn::Parse(argc, argv, flags);
    return static_cast<int>(ended.has_value() ? *ended : attn::Run(flags));
  } catch (const std::exception& error) {
    return static_cast<int>(attn::Say(error.what(), attn::StoryExit::kUsage));
  }
}
