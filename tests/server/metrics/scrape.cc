#include "tests/server/metrics/scrape.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sstream>

namespace attn {

std::string Scrape(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<uint16_t>(port));
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string page;
  if (connect(fd, reinterpret_cast<sockaddr*>(&name), sizeof(name)) == 0) {
    const std::string request =
        "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    char buffer[65536];
    ssize_t got = write(fd, request.data(), request.size());
    while ((got = read(fd, buffer, sizeof(buffer))) > 0) {
      page.append(buffer, static_cast<size_t>(got));
    }
  }
  close(fd);
  const size_t body = page.find("\r\n\r\n");
  return body == std::string::npos ? "" : page.substr(body + 4);
}

double ValueOf(const std::string& page, const std::string& series) {
  std::istringstream lines(page);
  std::string line;
  while (std::getline(lines, line)) {
    if (line.rfind(series + " ", 0) == 0) {
      return std::stod(line.substr(series.size()));
    }
  }
  return -1;
}

}  // namespace attn
