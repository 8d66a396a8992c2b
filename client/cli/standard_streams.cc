#include "client/cli/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace attn {

void OccupyStandardStreams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) != -1 || errno != EBADF) continue;
    // The wrong way round, so that use is an error. open() takes the lowest
    // number that is free: this one.
    const int mode = stream == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    if (open("/dev/null", mode | O_CLOEXEC) != stream) return;
  }
}

absl::Status FlushStandardOutput() {
  // What failed earlier, when a buffer was full, has no errno any more.
  const bool failed_before = std::ferror(stdout) != 0;
  errno = 0;
  if (std::fflush(stdout) == 0 && !failed_before) return absl::OkStatus();
  const std::string reason =
      errno == 0 ? "cannot be written" : std::generic_category().message(errno);
  return absl::InvalidArgumentError(absl::StrCat(
      "standard output: ", reason, "; what was printed is not complete"));
}

}  // namespace attn
