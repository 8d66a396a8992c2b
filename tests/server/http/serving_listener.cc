#include "tests/server/http/serving_listener.h"

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"

namespace attn {
namespace {

constexpr absl::Duration kLongestWait = absl::Seconds(60);

}  // namespace

std::string Echo(const HttpRequest& request) {
  std::string text = absl::StrCat(request.method, " ", request.path);
  for (const auto& [name, value] : request.query) {
    absl::StrAppend(&text, " ", name, "=", value);
  }
  return absl::StrCat(text, " x-twice: ", request.Header("x-twice"), " ",
                      request.body);
}

ServingListener::ServingListener(HttpListenerOptions options) {
  options.endpoints = {{"127.0.0.1", 0}};
  auto listener = HttpListener::Start(
      options, [this](std::shared_ptr<HttpExchange> exchange) {
        Handle(std::move(exchange));
      });
  if (!listener.ok()) {
    std::cerr << listener.status() << "\n";
    std::abort();
  }
  listener_ = *std::move(listener);
}

ServingListener::~ServingListener() {
  listener_->Stop(absl::ZeroDuration());
  const MutexLock lock(mutex_);
  held_.clear();
}

std::shared_ptr<HttpExchange> ServingListener::Next() {
  const absl::Time end = absl::Now() + kLongestWait;
  MutexLock lock(mutex_);
  while (held_.empty()) {
    const absl::Duration left = end - absl::Now();
    if (left <= absl::ZeroDuration()) return nullptr;
    came_.WaitFor(mutex_, absl::ToChronoNanoseconds(left));
  }
  auto exchange = std::move(held_.front());
  held_.pop_front();
  return exchange;
}

void ServingListener::Handle(std::shared_ptr<HttpExchange> exchange) {
  const HttpRequest& request = exchange->request();
  absl::string_view path = request.path;
  int status = 0;
  if (path == "/held") {
    const MutexLock lock(mutex_);
    held_.push_back(std::move(exchange));
    came_.NotifyAll();
  } else if (absl::ConsumePrefix(&path, "/status/") &&
             absl::SimpleAtoi(path, &status)) {
    exchange->Respond({.status = status});
  } else if (path != "/dropped") {
    exchange->Respond({.body = Echo(request)});
  }
}

bool ComesTrue(const std::function<bool()>& is_so) {
  const absl::Time end = absl::Now() + kLongestWait;
  while (!is_so()) {
    if (absl::Now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace attn
