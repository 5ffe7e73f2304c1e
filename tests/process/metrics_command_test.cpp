// `unisono run --metrics-port`: what is served while a job runs.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dashboard.h"
#include "http_request.h"
#include "launched_jobs.h"
#include "openmetrics.h"
#include "running_command.h"

namespace unisono::testing {
namespace {

using Labels = OpenMetrics::Labels;

/// The port that the launcher has said; 0 where it has said none.
std::uint16_t port_of(RunningCommand& job) {
  constexpr const char* said = "metrics: http://127.0.0.1:";
  if (!job.until_err_has("/metrics\n")) return 0;
  return static_cast<std::uint16_t>(std::stoi(word_after(job.err(), said)));
}

OpenMetrics page_of(std::uint16_t port) { return OpenMetrics(body_of(get(port))); }

Labels state(int rank, const std::string& name) { return {{"rank", std::to_string(rank)}, {"unisono_rank_state", name}}; }
Labels of_world(int rank) { return {{"rank", std::to_string(rank)}, {"group", "world"}, {"operation", "all_reduce"}}; }

TEST(MetricsPort, ThePortServesWhatTheRanksHaveCounted) {
  RunningCommand job(run_helper({"-n", "4", "--metrics-port", "0"}, {"late", "2", "rests"}));
  ASSERT_TRUE(job.until_out_has("ready", 4)) << job.out() << job.err();
  const std::uint16_t port = port_of(job);
  ASSERT_NE(port, 0) << job.err();
  OpenMetrics page = page_of(port);
  EXPECT_TRUE(eventually([&] {  // the others wait for rank 2
    page = page_of(port);
    const bool is_late = page.value("unisono_rank_late_seconds", {{"rank", "2"}}).value_or(0) > 0;
    return is_late && std::ranges::all_of(std::array{0, 1, 3}, [&](int rank) {
             return page.value("unisono_rank_state", state(rank, "waiting")) == 1 &&
                    page.value("unisono_call_wait_seconds_total", of_world(rank)).value_or(0) > 0;
           });
  }));
  for (int rank = 0; rank < 4; ++rank) {
    const bool is_late = rank == 2;
    EXPECT_EQ(page.value("unisono_calls_total", of_world(rank)), is_late ? 3 : 4);
    EXPECT_EQ(page.value("unisono_call_bytes_total", of_world(rank)), is_late ? 12'000 : 16'000);
    EXPECT_EQ(page.value("unisono_call_failures_total", of_world(rank)), 0);
    EXPECT_EQ(page.value("unisono_rank_state", state(rank, is_late ? "program" : "waiting")), 1);
    EXPECT_GT(page.value("unisono_last_call_age_seconds", {{"rank", std::to_string(rank)}}).value_or(0), 0);
    EXPECT_GT(page.value("unisono_process_resident_memory_bytes", {{"rank", std::to_string(rank)}}).value_or(0), 1 << 20);
    if (is_late) continue;
    const double waited = page.value("unisono_call_wait_seconds_total", of_world(rank)).value_or(0);
    EXPECT_GT(waited, 0);
    EXPECT_GT(page_of(port).value("unisono_call_wait_seconds_total", of_world(rank)).value_or(0), waited) << "it waits on";
  }
  EXPECT_EQ(page.value("unisono_job_ranks"), 4);
  EXPECT_EQ(page.value("unisono_restarts_total"), 0);
  ::kill(pid_of(job, 2), SIGSTOP);
  EXPECT_TRUE(eventually([&] { return page_of(port).value("unisono_rank_state", state(2, "stopped")) == 1; })) << "nothing is asked of the ranks";
  ::kill(pid_of(job, 2), SIGCONT);
}

TEST(MetricsPort, ThePortServesTheFormatThatIsAskedFor) {
  RunningCommand job(run_plain({"-n", "1", "--metrics-port", "0"}, {"live"}));
  const std::uint16_t port = port_of(job);
  ASSERT_NE(port, 0) << job.err();
  for (const char* const accept : {"text/plain", "*/*"}) {
    const std::string text = get(port, "/metrics", accept);
    EXPECT_NE(text.find("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"), std::string::npos) << text;
    EXPECT_NE(text.find("\n# TYPE unisono_restarts_total counter\n"), std::string::npos) << text;
  }
  const std::string open = get(port, "/metrics", open_metrics_type);
  EXPECT_NE(open.find("\r\nContent-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"), std::string::npos) << open;
  EXPECT_TRUE(open.ends_with("\n# EOF\n")) << open;
}

TEST(MetricsPort, ThePortIsOfThisHostAlone) {
  RunningCommand job(run_plain({"-n", "1", "--metrics-port", "0"}, {"live"}));
  const std::uint16_t port = port_of(job);
  ASSERT_NE(port, 0) << job.err();
  EXPECT_EQ(listening_sockets(job.pid()), std::vector<std::string>{fmt::format("0100007F:{:04X}", port)});
  RunningCommand silent(run_plain({"-n", "1"}, {"live"}));
  ASSERT_TRUE(silent.until_out_has("step 1")) << silent.err();
  EXPECT_TRUE(listening_sockets(silent.pid()).empty()) << "nothing is served unless it is asked for";
}

TEST(MetricsPort, ThePortTakesTheOneThatIsNamed) {
  const std::uint16_t port = free_port();
  RunningCommand job(run_plain({"-n", "1", "--metrics-port", std::to_string(port)}, {"live"}));
  EXPECT_EQ(port_of(job), port) << job.err();
  RunningCommand second(run_plain({"-n", "1", "--metrics-port", std::to_string(port)}, {"live"}));
  EXPECT_EQ(second.wait(), 1);
  EXPECT_NE(second.err().find(fmt::format("127.0.0.1:{}", port)), std::string::npos) << second.err();
}

TEST(MetricsPort, ThePortCountsRestarts) {
  RunningCommand job(unisono_command({"run", "-n", "2", "--max-restarts", "1", "--metrics-port", "0", "--", "/bin/sh", "-c",
                                      "if test $UNISONO_ATTEMPT = 0; then exit 7; fi; exec " RANK_HELPER " late 1 rests"}));
  const std::uint16_t port = port_of(job);
  ASSERT_NE(port, 0) << job.err();
  ASSERT_TRUE(job.until_out_has("ready", 2)) << job.err();
  EXPECT_TRUE(eventually([&] { return page_of(port).value("unisono_calls_total", of_world(0)) == 4; }));
  EXPECT_EQ(page_of(port).value("unisono_restarts_total"), 1);
  EXPECT_EQ(page_of(port).value("unisono_host_ranks"), 2);
}

// The record of a rank that was killed is still there.
TEST(MetricsPort, ThePortKeepsWhatARankHadCounted) {
  RunningCommand job(run_helper({"-n", "4", "--grace", "60", "--metrics-port", "0"}, {"late", "2", "ends"}));
  ASSERT_TRUE(job.until_out_has("noticed", 3)) << job.out() << job.err();
  const OpenMetrics page = page_of(port_of(job));
  EXPECT_EQ(page.value("unisono_rank_state", state(2, "ended")), 1);
  EXPECT_EQ(page.value("unisono_calls_total", of_world(2)), 3);
  EXPECT_EQ(page.value("unisono_rank_state", state(0, "failed")), 1);
  EXPECT_EQ(page.value("unisono_call_failures_total", of_world(0)), 1);
  EXPECT_EQ(page.value("unisono_rank_failures_total", {{"rank", "0"}}), 1);
}

TEST(MetricsPort, ThePortShowsRanksThatCallNothing) {
  RunningCommand job(run_plain({"-n", "2", "--metrics-port", "0"}, {"live"}));
  ASSERT_TRUE(job.until_out_has("step 1", 2)) << job.out();
  const OpenMetrics page = page_of(port_of(job));
  EXPECT_EQ(page.value("unisono_rank_state", state(1, "joining")), 1);
  EXPECT_EQ(page.value("unisono_calls_total", of_world(1)), std::nullopt);
}

TEST(MetricsPort, ThePortHasWhatTheDashboardShows) {
  const std::vector<std::string> queries = queries_of_dashboard(DASHBOARD);
  ASSERT_GE(queries.size(), 8U);
  RunningCommand job(run_helper({"-n", "2", "--metrics-port", "0"}, {"late", "1", "rests"}));
  ASSERT_TRUE(job.until_out_has("ready", 2)) << job.err();
  const std::uint16_t port = port_of(job);
  ASSERT_TRUE(eventually([&] { return page_of(port).value("unisono_rank_late_seconds", {{"rank", "1"}}).has_value(); }));
  const OpenMetrics page = page_of(port);
  std::set<std::string> labels;
  for (const auto& [name, family] : page.families()) {
    for (const auto& [sample, value] : family.samples) {
      for (const auto& [label, text] : sample) labels.insert(label);
    }
  }
  const std::set<std::string> names = page.sample_names();
  const std::regex name("unisono_[a-z_]+"), by("by \\(([a-z_, ]+)\\)"), word("[a-z_]+");
  std::set<std::string> shown;
  for (const std::string& query : queries) {
    for (std::sregex_iterator it(query.begin(), query.end(), name), end; it != end; ++it) {
      shown.insert(it->str());
      EXPECT_TRUE(names.contains(it->str()) || labels.contains(it->str())) << it->str() << " of " << query;
    }
    for (std::sregex_iterator it(query.begin(), query.end(), by), end; it != end; ++it) {
      const std::string list = (*it)[1];
      for (std::sregex_iterator each(list.begin(), list.end(), word); each != end; ++each)
        EXPECT_TRUE(labels.contains(each->str()) || each->str() == "instance") << each->str() << " of " << query;
    }
  }
  for (const char* needed : {"unisono_calls_total", "unisono_call_bytes_total", "unisono_call_wait_seconds_total", "unisono_call_failures_total",
                             "unisono_rank_state", "unisono_rank_late_seconds", "unisono_restarts_total"})
    EXPECT_TRUE(shown.contains(needed)) << needed;
}

}  // namespace
}  // namespace unisono::testing
