// Shows a load while it goes on: rows on standard output as steps end, a line
// on the terminal meanwhile.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "client/cli/progress.h"
#include "client/load/load_session.h"

namespace attn {

// "step 2/4  200/s  7 s left  199.8/s answered  p99 1.24 ms"
std::string DescribeProgress(const std::string& step,
                             const LoadProgress& progress);

// Thread-compatible; has a thread of its own while there is a terminal.
class LoadPresenter : public LoadObserver {
 public:
  // `rows`: whether standard output is for people. `plan` must outlive this.
  LoadPresenter(const LoadPlan& plan, bool rows);
  // Takes the line away.
  ~LoadPresenter() override;
  LoadPresenter(const LoadPresenter&) = delete;
  LoadPresenter& operator=(const LoadPresenter&) = delete;

  void RunBegins(const LoadReport& report, const LoadOptions& run,
                 bool is_probe) override;
  void ProbeEnds(const LoadResult& result) override;
  void StepEnds(const LoadReport& report) override;
  LoadMonitor& monitor() override { return monitor_; }

  // Whether rows are printed, and so the whole report is not to be.
  bool prints_rows() const { return rows_ && many_; }

 private:
  void Watch();
  void Print(const std::string& text);

  const LoadPlan& plan_;
  const bool rows_;
  const bool many_;
  bool headed_ = false;
  LoadMonitor monitor_;

  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;
  // "step 2/4  200/s"
  std::string step_;
  ProgressLine line_;
  std::thread watcher_;
};

}  // namespace attn
