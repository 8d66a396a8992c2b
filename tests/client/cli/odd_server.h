// What may stand at an address and is no attn-server.
#pragma once

#include <string>
#include <thread>

namespace attn {

// Listens on loopback at a free port. Answers what it is sent with `reply` and
// hangs up; with "" it takes connections and says nothing.
class OddServer {
 public:
  explicit OddServer(std::string reply);
  ~OddServer();
  OddServer(const OddServer&) = delete;
  OddServer& operator=(const OddServer&) = delete;

  const std::string& address() const { return address_; }

 private:
  void Serve() const;

  std::string reply_;
  int listener_ = -1;
  std::string address_;
  std::thread thread_;
};

}  // namespace attn
