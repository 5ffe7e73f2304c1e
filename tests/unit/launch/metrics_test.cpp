// The page of metrics and its server: the rules of the format, and strangers on the port.
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "http_request.h"
#include "launch/process/program.h"
#include "launch/view/http_server.h"
#include "launch/view/metrics.h"
#include "openmetrics.h"

namespace unisono::testing {
namespace {

using launcher::HttpServer;
using launcher::JobSeen;
using launcher::Metrics;
using launcher::MetricsFormat;
using launcher::RankFacts;

constexpr std::uint64_t second = 1'000'000'000;

RankFacts rank_with(int number, std::vector<recorder::CountSeen> counts) {
  RankFacts rank;
  rank.record.rank = number;
  rank.record.now = 100 * second;
  rank.record.began = 10 * second;
  rank.record.counts = std::move(counts);
  rank.process = {.lives = true, .is_stopped = false, .cpu_seconds = 1.5 + number, .cpu_share = 0, .memory_bytes = 4096U * (number + 1U)};
  return rank;
}

JobSeen job_of(std::vector<RankFacts> ranks) {
  return {.job = "0123", .host = "here", .node = 1, .world_size = 7, .restarts = 2, .ranks = std::move(ranks)};
}

TEST(Metrics, MetricsTellWhatIsCountedAndWhatIsSeen) {
  RankFacts first =
      rank_with(3, {{{.calls = 5, .bytes = 40, .waited = 2 * second}, "world", "all_reduce", 1}, {{.calls = 7, .bytes = 70}, "{3, 4}", "broadcast"}});
  first.record.failures = 2;
  first.record.recent.push_back({.operation = "all_reduce",
                                 .group = "world",
                                 .place = "",
                                 .count = 0,
                                 .state = recorder::CallState::waiting,
                                 .sequence = 5,
                                 .begun = 99 * second,
                                 .waited_for = 6});
  const RankFacts second_rank = rank_with(4, {{{.calls = 9, .bytes = 1, .waited = 3}, "", ""}});
  Metrics metrics([&] { return job_of({first, second_rank}); });
  const OpenMetrics page(metrics.text(MetricsFormat::open_metrics));
  const OpenMetrics::Labels world{{"rank", "3"}, {"group", "world"}, {"operation", "all_reduce"}};
  const OpenMetrics::Labels others{{"rank", "4"}, {"group", "others"}, {"operation", "others"}};
  EXPECT_EQ(page.value("unisono_calls_total", world), 5);
  EXPECT_EQ(page.value("unisono_call_bytes_total", world), 40);
  EXPECT_EQ(page.value("unisono_call_wait_seconds_total", world), 3) << "with the wait under way";
  EXPECT_EQ(page.value("unisono_call_failures_total", world), 1);
  EXPECT_EQ(page.value("unisono_calls_total", {{"rank", "3"}, {"group", "{3, 4}"}, {"operation", "broadcast"}}), 7);
  EXPECT_EQ(page.value("unisono_calls_total", others), 9);
  EXPECT_EQ(page.value("unisono_call_wait_seconds_total", others), 3e-9);
  EXPECT_EQ(page.value("unisono_job_info", {{"id", "0123"}, {"host", "here"}, {"node", "1"}, {"version", "0.1.0"}}), 1);
  EXPECT_EQ(page.value("unisono_job_ranks"), 7);
  EXPECT_EQ(page.value("unisono_host_ranks"), 2);
  EXPECT_EQ(page.value("unisono_restarts_total"), 2);
  EXPECT_EQ(page.value("unisono_rank_failures_total", {{"rank", "3"}}), 2);
  EXPECT_EQ(page.value("unisono_rank_state", {{"rank", "3"}, {"unisono_rank_state", "waiting"}}), 1);
  EXPECT_EQ(page.value("unisono_rank_state", {{"rank", "4"}, {"unisono_rank_state", "program"}}), 1);
  EXPECT_EQ(page.value("unisono_last_call_age_seconds", {{"rank", "3"}}), 1);
  EXPECT_EQ(page.value("unisono_last_call_age_seconds", {{"rank", "4"}}), std::nullopt);
  EXPECT_EQ(page.value("unisono_rank_late_seconds", {{"rank", "6"}}), 1);
  EXPECT_EQ(page.value("unisono_process_cpu_seconds_total", {{"rank", "4"}}), 5.5);
  EXPECT_EQ(page.value("unisono_process_resident_memory_bytes", {{"rank", "3"}}), 16384);
}

// A counter that falls counts as one that began again, and its whole value as new.
TEST(Metrics, AWaitNeverFallsButInAnotherProcess) {
  const recorder::CountSeen count{{.calls = 1, .waited = 5 * second}, "world", "barrier"};
  JobSeen job = job_of({rank_with(0, {count})});
  Metrics metrics([&] { return job; });
  const auto waited = [&] {
    return OpenMetrics(metrics.text(MetricsFormat::open_metrics))
        .value("unisono_call_wait_seconds_total", {{"rank", "0"}, {"group", "world"}, {"operation", "barrier"}});
  };
  EXPECT_EQ(waited(), 5);
  job.ranks[0].record.counts[0].waited = 5 * second - 1;
  EXPECT_EQ(waited(), 5);
  job.ranks[0].record.counts[0].waited = 6 * second;
  EXPECT_EQ(waited(), 6);
  job.ranks[0].record.began = 50 * second;
  job.ranks[0].record.counts[0].waited = second;
  EXPECT_EQ(waited(), 1) << "it has taken the place of the former one";
  job.ranks[0].record.counts[0].waited = second - 1;
  EXPECT_EQ(waited(), 1);
}

// The record has other names for a group's calls than for its counts.
TEST(Metrics, MetricsTellTheWaitUnderWayWhereItIsCounted) {
  const std::vector<recorder::CountSeen> counts{{{.calls = 1}, "{0, 1}", "barrier"}, {{.calls = 1}, "", "scan"}, {{.calls = 1}, "", ""}};
  for (const int at : {0, 1, 2}) {
    RankFacts rank = rank_with(0, counts);
    rank.record.recent.push_back(
        {.operation = "an operation", .group = "{0, 1} (2)", .place = "", .count = at, .state = recorder::CallState::waiting, .begun = 70 * second});
    const OpenMetrics page(Metrics([&] { return job_of({rank}); }).text(MetricsFormat::open_metrics));
    const auto waited = [&](const char* group, const char* operation) {
      return page.value("unisono_call_wait_seconds_total", {{"rank", "0"}, {"group", group}, {"operation", operation}});
    };
    EXPECT_EQ(waited("{0, 1}", "barrier"), at == 0 ? 30 : 0);
    EXPECT_EQ(waited("others", "scan"), at == 1 ? 30 : 0);
    EXPECT_EQ(waited("others", "others"), at == 2 ? 30 : 0);
  }
}

TEST(Metrics, AnyNameIsALabel) {
  const std::string odd = "a\"b\\c\nd", cut = "caf\xc3", other = "\xff{}=,";
  JobSeen job = job_of({rank_with(
      0, {{{.calls = 1}, odd, "scan"}, {{.calls = 2}, cut, "scan"}, {{.calls = 4}, "caf\xfe", "scan"}, {{.calls = 8}, other, "caf\xc3\xa9"}})});
  job.job = "\"";
  const OpenMetrics page(Metrics([&] { return job; }).text(MetricsFormat::open_metrics));
  EXPECT_EQ(page.value("unisono_calls_total", {{"rank", "0"}, {"group", odd}, {"operation", "scan"}}), 1);
  EXPECT_EQ(page.value("unisono_calls_total", {{"rank", "0"}, {"group", "caf?"}, {"operation", "scan"}}), 6) << "names that look alike are one";
  EXPECT_EQ(page.value("unisono_calls_total", {{"rank", "0"}, {"group", "?{}=,"}, {"operation", "caf\xc3\xa9"}}), 8);
}

/// The lines of the samples, without the metadata.
std::vector<std::string> samples_of(const std::string& page) {
  std::vector<std::string> samples;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with('#')) samples.push_back(line);
  }
  return samples;
}

TEST(Metrics, BothFormatsHaveTheSameSamples) {
  Metrics metrics([&] { return job_of({rank_with(0, {{{.calls = 5, .bytes = 40}, "a\"b\\c", "all_reduce"}})}); });
  const std::string open = metrics.text(MetricsFormat::open_metrics), text = metrics.text(MetricsFormat::text);
  EXPECT_EQ(samples_of(open), samples_of(text));
  EXPECT_GT(samples_of(text).size(), 10U);
}

// `promtool check metrics` reads a page in the long test of Prometheus itself.
TEST(Metrics, TheTextFormatNamesAFamilyAsItsSamples) {
  const std::string text = Metrics([] { return job_of({rank_with(0, {{{.calls = 5}, "world", "all_reduce"}})}); }).text(MetricsFormat::text);
  for (const char* const part :
       {"# TYPE unisono_calls_total counter\n# HELP unisono_calls_total ", "# TYPE unisono_job_info gauge\n# HELP unisono_job_info ",
        "# TYPE unisono_rank_state gauge\n", "# TYPE unisono_process_cpu_seconds_total counter\n"})
    EXPECT_NE(text.find(part), std::string::npos) << part << text;
  EXPECT_EQ(text.find("# EOF"), std::string::npos);
  EXPECT_EQ(text.find("# UNIT"), std::string::npos);
}

TEST(Metrics, TheFormatIsTheOneThatTheRequestNames) {
  for (const char* const accept : {"application/openmetrics-text", "application/openmetrics-text; version=1.0.0",
                                   // Prometheus 2 and 3, and a field with blanks.
                                   "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
                                   "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                                   "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                                   "text/plain ; q = 0.5 , application/openmetrics-text ; q = 0.5"})
    EXPECT_EQ(launcher::metrics_format(accept), MetricsFormat::open_metrics) << accept;
  for (const char* const accept : {"", "*/*", "text/plain", "text/plain;version=0.0.4", "text/html,application/xhtml+xml,*/*;q=0.8", "application/*",
                                   "text/plain;version=0.0.4;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5",
                                   "application/openmetrics-text;q=0", "application/openmetrics-text;q=", ",;=,", "q=1"})
    EXPECT_EQ(launcher::metrics_format(accept), MetricsFormat::text) << accept;
}

TEST(OpenMetricsReader, TheReaderRefusesWhatBreaksTheRules) {
  const std::string good = "# TYPE a counter\n# HELP a text\na_total{x=\"1\"} 1\n# EOF\n";
  EXPECT_NO_THROW(OpenMetrics{good});
  for (const std::string bad : {"# TYPE a counter\na_total 1\n", "# TYPE a counter\na 1\n# EOF\n", "# TYPE a counter\na_total 1\na_total 1\n# EOF\n",
                                "# TYPE a gauge\n# UNIT a bytes\na 1\n# EOF\n", "# TYPE a gauge\na 1\n# TYPE b gauge\nb 1\n# TYPE a gauge\n# EOF\n",
                                "# TYPE a gauge\na{x=\"1} 1\n# EOF\n", "# TYPE a gauge\na{x=\"\xff\"} 1\n# EOF\n", "# TYPE a gauge\na one\n# EOF\n",
                                "# TYPE a stateset\na{a=\"x\"} 0\n# EOF\n", "# TYPE a counter\na_total -1\n# EOF\n", "# EOF\n# EOF\n", "\n# EOF\n"})
    EXPECT_THROW(OpenMetrics{bad}, std::runtime_error) << bad;
}

// ---- the server --------------------------------------------------------------------------------------------------

constexpr std::string_view plain = "text/plain; charset=utf-8";

HttpServer::Page page_with(std::string body) {
  return {"/metrics", [body = std::move(body)](std::string_view) { return HttpServer::Content{plain, body}; }};
}

TEST(HttpServer, TheServerHandsOnWhatTheRequestAccepts) {
  HttpServer server(0, {"/metrics", [](std::string_view accept) { return HttpServer::Content{plain, std::string(accept)}; }});
  EXPECT_EQ(body_of(answer_to(server.port(), "GET /metrics HTTP/1.1\r\n\r\n")), "");
  EXPECT_EQ(body_of(answer_to(server.port(), "GET /metrics HTTP/1.1\r\naCCept:  Text/Plain \r\nHost: localhost\r\nAccept: a/b;q=0.5\r\n\r\n")),
            "text/plain,a/b;q=0.5");
}

TEST(HttpServer, TheServerAnswersGetOfItsPathAlone) {
  HttpServer server(0, page_with("the body\n"));
  const std::string answer = get(server.port());
  EXPECT_EQ(first_line(answer), "HTTP/1.1 200 OK");
  EXPECT_NE(answer.find("\r\nContent-Type: text/plain; charset=utf-8\r\n"), std::string::npos) << answer;
  EXPECT_NE(answer.find("\r\nContent-Length: 9\r\n"), std::string::npos) << answer;
  EXPECT_EQ(body_of(answer), "the body\n");
  EXPECT_EQ(body_of(get(server.port(), "/metrics?format=text")), "the body\n");
  EXPECT_EQ(first_line(get(server.port(), "/")), "HTTP/1.1 404 Not Found");
  EXPECT_EQ(first_line(get(server.port(), "/metrics/../etc/passwd")), "HTTP/1.1 404 Not Found");
  const std::string posted = answer_to(server.port(), "POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_EQ(first_line(posted), "HTTP/1.1 405 Method Not Allowed");
  EXPECT_NE(posted.find("\r\nAllow: GET\r\n"), std::string::npos) << posted;
}

TEST(HttpServer, TheServerRefusesWhatIsNoRequest) {
  HttpServer server(0, page_with("x"));
  for (const std::string bad :
       {"\r\n\r\n", "GET\r\n\r\n", "GET /metrics\r\n\r\n", "GET /metrics HTTP/2\r\n\r\n", "GET  HTTP/1.1\r\n\r\n", "GET metrics HTTP/1.1\r\n\r\n",
        "GET /met rics HTTP/1.1\r\n\r\n", "GET /metrics HTTP/1.1\r\nno field\r\n\r\n", "\x16\x03\x01\x02\r\n\r\n"})
    EXPECT_EQ(first_line(answer_to(server.port(), bad)), "HTTP/1.1 400 Bad Request") << bad;
  EXPECT_EQ(first_line(answer_to(server.port(), "GET /metrics HTTP/1.1\r\nA: " + std::string(1 << 16, 'a'))),
            "HTTP/1.1 431 Request Header Fields Too Large");
}

// A name of the web that leads to this address is none of this host's.
TEST(HttpServer, TheServerAnswersUnderTheNamesOfLoopbackAlone) {
  HttpServer server(0, page_with("x"));
  const auto status_for = [&](const std::string& host) {
    return first_line(answer_to(server.port(), "GET /metrics HTTP/1.1\r\nhOST: " + host + "\r\n\r\n"));
  };
  for (const std::string host : {"localhost", "LocalHost:9", "127.0.0.1", "127.0.0.1:80", "[::1]:80", "127.1.2.3"})
    EXPECT_EQ(status_for(host), "HTTP/1.1 200 OK") << host;
  for (const std::string host : {"evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1"})
    EXPECT_EQ(status_for(host), "HTTP/1.1 400 Bad Request") << host;
}

// Connections that say nothing, or half of a request, or read nothing, take no place away from one that asks.
TEST(HttpServer, TheServerIsNotStalledByStrangers) {
  HttpServer server(0, page_with(std::string(8U << 20, 'x')), {.connections = 4, .request_bytes = 1024, .time = std::chrono::minutes(10)});
  std::vector<base::FileDescriptor> silent;
  for (int i = 0; i < 40; ++i) {
    silent.push_back(connected_to(server.port()));
    if (i % 3 == 1) send_text(silent.back(), "GET /metrics HTT");
    if (i % 3 == 2) send_text(silent.back(), "GET /metrics HTTP/1.1\r\n\r\n");
  }
  EXPECT_EQ(body_of(get(server.port())).size(), 8U << 20);
  EXPECT_EQ(answer_on(silent.front()), "") << "the oldest one made room";
}

TEST(HttpServer, TheServerEndsAConnectionThatTakesTooLong) {
  HttpServer server(0, page_with("x"), {.connections = 4, .request_bytes = 1024, .time = std::chrono::seconds(1)});
  const base::FileDescriptor slow = connected_to(server.port());
  send_text(slow, "GET /metrics HTTP/1.1\r\n");
  EXPECT_EQ(answer_on(slow), "");
  EXPECT_EQ(body_of(get(server.port())), "x");
}

TEST(HttpServer, APageThatCannotBeMadeIsAnAnswer) {
  HttpServer server(0, {"/metrics", [](std::string_view) -> HttpServer::Content { throw std::runtime_error("no page"); }});
  EXPECT_EQ(first_line(get(server.port())), "HTTP/1.1 500 Internal Server Error");
  EXPECT_EQ(first_line(get(server.port())), "HTTP/1.1 500 Internal Server Error") << "and it goes on";
}

TEST(HttpServer, TheServerSaysThatItsPortIsInUse) {
  HttpServer server(0, page_with("x"));
  try {
    const HttpServer another(server.port(), page_with("y"));
    FAIL() << "two on one port";
  } catch (const launcher::StartFailed& error) {
    EXPECT_NE(error.message().find("127.0.0.1:" + std::to_string(server.port())), std::string::npos) << error.message();
  }
}

}  // namespace
}  // namespace unisono::testing
