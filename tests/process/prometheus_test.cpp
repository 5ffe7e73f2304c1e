// `unisono run --metrics-port` beside a real Prometheus, which scrapes it, and promtool, which reads it.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "dashboard.h"
#include "http_request.h"
#include "launched_jobs.h"
#include "running_command.h"

namespace unisono::testing {
namespace {

using Json = nlohmann::json;

constexpr const char* prometheus = "/usr/bin/prometheus";
constexpr const char* promtool = "/usr/bin/promtool";
#define NEEDS_PROMETHEUS()                                              \
  if (::access(prometheus, X_OK) != 0 || ::access(promtool, X_OK) != 0) \
  GTEST_SKIP() << "skipped: there is no " << prometheus << " with its promtool (Debian: prometheus; scripts/get/dependencies --real)"

/// A job of four ranks of which rank 2 is late, with the metrics of them.
struct LateJob {
  LateJob() : job(run_helper({"-n", "4", "--metrics-port", "0"}, {"late", "2", "rests"})) {
    EXPECT_TRUE(job.until_out_has("ready", 4)) << job.out() << job.err();
    EXPECT_TRUE(job.until_err_has("/metrics\n")) << job.err();
    port = static_cast<std::uint16_t>(std::stoi(word_after(job.err(), "metrics: http://127.0.0.1:")));
  }
  RunningCommand job;
  std::uint16_t port = 0;
};

/// A Prometheus of its own that scrapes one port every second.
class PrometheusServer {
 public:
  explicit PrometheusServer(std::uint16_t scraped) : port_(free_port()) {
    std::ofstream(folder_.path() + "/settings.yml") << fmt::format(
        "global: {{scrape_interval: 1s, scrape_timeout: 1s}}\nscrape_configs:\n  - job_name: unisono\n    static_configs:\n      - targets: "
        "[\"127.0.0.1:{}\"]\n",
        scraped);
    server_ = std::make_unique<RunningCommand>(std::vector<std::string>{
        "/usr/bin/setpriv", "--pdeathsig", "KILL", "--", prometheus, "--config.file=" + folder_.path() + "/settings.yml",
        "--storage.tsdb.path=" + folder_.path() + "/data", fmt::format("--web.listen-address=127.0.0.1:{}", port_), "--log.level=warn"});
  }
  /// The `data` of an answer of its interface; null where it has none yet.
  Json ask(const std::string& path) const {
    const std::string answer = answer_to(port_, fmt::format("GET /api/v1/{} HTTP/1.0\r\nHost: localhost\r\n\r\n", path));
    const Json json = Json::parse(body_of(answer), nullptr, false);
    return json.is_object() && json.value("status", "") == "success" ? json.at("data") : Json();
  }
  /// The samples that an expression gives.
  Json query(const std::string& expression) const {
    std::string encoded;
    for (const char c : expression) encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    const Json data = ask("query?query=" + encoded);
    return data.is_object() ? data.at("result") : Json();
  }
  std::string printed() const { return server_->out() + server_->err(); }

 private:
  TemporaryFolder folder_;
  std::uint16_t port_;
  std::unique_ptr<RunningCommand> server_;
};

std::string value_of(const Json& samples) { return samples.size() == 1 ? samples.at(0).at("value").at(1).get<std::string>() : samples.dump(); }

TEST(Prometheus, PromtoolFindsNothingWrongInTheMetrics) {
  NEEDS_PROMETHEUS();
  const LateJob late;
  const std::string page = body_of(get(late.port, "/metrics", "*/*"));
  EXPECT_NE(page.find("\nunisono_calls_total{"), std::string::npos) << page;
  RunningCommand check({promtool, "check", "metrics", "--extended"});
  check.type(page);
  check.close_input();
  EXPECT_EQ(check.wait(), 0) << check.out() << check.err() << page;
  EXPECT_EQ(check.err(), "");
}

TEST(Prometheus, PrometheusScrapesAJob) {
  NEEDS_PROMETHEUS();
  const LateJob late;
  const PrometheusServer server(late.port);
  Json samples;
  EXPECT_TRUE(eventually([&] { return !(samples = server.query("unisono_rank_late_seconds")).empty(); }))
      << server.printed() << server.ask("targets").dump(1);
  ASSERT_EQ(samples.size(), 1U) << samples.dump(1);
  EXPECT_EQ(samples.at(0).at("metric").at("rank"), "2");
  EXPECT_EQ(value_of(server.query("unisono_calls_total{group=\"world\",operation=\"all_reduce\",rank=\"0\"}")), "4");
  EXPECT_EQ(value_of(server.query("count(unisono_rank_state == 1)")), "4");
  EXPECT_EQ(value_of(server.query("unisono_rank_state{rank=\"2\",unisono_rank_state=\"program\"}")), "1");
  const Json target = server.ask("targets").at("activeTargets").at(0);
  EXPECT_EQ(target.at("health"), "up") << target.dump(1);
  // Types travel with OpenMetrics; counters are asked for as they are called there.
  const Json known = server.ask("metadata");
  EXPECT_EQ(known.at("unisono_rank_late_seconds").at(0).at("unit"), "seconds") << known.dump(1);
  EXPECT_EQ(known.at("unisono_rank_state").at(0).at("type"), "stateset") << known.dump(1);
}

/// A query of the dashboard, with values for Grafana's variables.
std::string with_values(std::string query) {
  for (const auto& [name, value] : {std::pair<std::string, std::string>{"$instance", ".*"}, {"$__rate_interval", "5s"}, {"$__range", "1m"}}) {
    for (auto at = query.find(name); at != std::string::npos; at = query.find(name)) query.replace(at, name.size(), value);
  }
  return query;
}

TEST(Prometheus, EachQueryOfTheDashboardHasAnAnswer) {
  NEEDS_PROMETHEUS();
  const std::vector<std::string> queries = queries_of_dashboard(DASHBOARD);
  ASSERT_GE(queries.size(), 8U);
  const LateJob late;
  const PrometheusServer server(late.port);
  for (const std::string& query : queries) {
    EXPECT_TRUE(eventually([&] { return !server.query(with_values(query)).empty(); })) << query << "\n" << server.printed();
  }
}

}  // namespace
}  // namespace unisono::testing
