// The properties of stores in etcd: their keys and how long they live, endpoints that fail, answers that are lost, and answers that are not etcd's.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <thread>

#include <fmt/format.h>

#include "etcd_server.h"
#include "gateway_proxy.h"
#include "refusal.h"
#include "store/etcd.h"
#include "store/requests.h"
#include "thrown_by.h"
#include "unisono/error.h"

namespace unisono {
namespace {

using namespace std::chrono_literals;
using base::Deadline;
using base::Environment;
using store::etcd::KeysInEtcd;
using store::etcd::open_etcd;
using testing::EtcdServer;
using testing::GatewayProxy;
using Decision = GatewayProxy::Decision;
using Variables = std::map<std::string, std::string, std::less<>>;

std::shared_ptr<KeysInEtcd> opened(const std::string& url, const Variables& variables = {}, std::chrono::milliseconds timeout = 20s) {
  auto store = open_etcd(url, Environment(variables), Deadline(timeout));
  store->set_timeout(timeout);
  return store;
}

void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
}

class EtcdStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    NEEDS_ETCD();
    server_ = std::make_unique<EtcdServer>();
  }
  std::unique_ptr<EtcdServer> server_;
};

TEST_F(EtcdStoreTest, PrefixesKeepJobsApart) {
  const auto one = opened(server_->url("/a")), other = opened(server_->url("/ab")), same = opened(server_->url("/a/"));
  one->set("k", "1");
  other->set("k", "2");
  EXPECT_EQ(same->get("k"), "1");
  EXPECT_EQ(one->num_keys(), 1);
  EXPECT_EQ(other->num_keys(), 1);
}

TEST_F(EtcdStoreTest, TheLastToCloseRemovesAllKeys) {
  auto first = opened(server_->url()), second = opened(server_->url());
  const auto outside = opened(server_->url("/tests"));  // begins with the same letters
  outside->set("k", "stays");
  first->set("k", std::string(2'000'000, 'x'));
  first.reset();
  EXPECT_EQ(second->get("k").size(), 2'000'000U);
  second.reset();
  const auto later = opened(server_->url());
  EXPECT_EQ(later->num_keys(), 0);
  EXPECT_EQ(later->try_get("k"), std::nullopt);
  EXPECT_EQ(outside->get("k"), "stays");
}

TEST_F(EtcdStoreTest, TheStoreWaitsForMoreKeysThanATransactionTakes) {
  const auto store = opened(server_->url()), other = opened(server_->url());
  std::vector<std::string> keys;
  for (int i = 0; i < 210; ++i) keys.push_back(fmt::format("key {}", i));
  for (std::size_t i = 0; i < keys.size(); i += 2) other->set(keys[i], fmt::format("{}", i));
  std::thread waiting([&] { store->wait(keys, 60s); });
  for (std::size_t i = 1; i < keys.size(); i += 2) other->set(keys[i], fmt::format("{}", i));
  waiting.join();
  const auto values = store::try_get_all(*store, keys);
  for (std::size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(values[i], fmt::format("{}", i));
}

TEST_F(EtcdStoreTest, LongValuesAreReplacedWhole) {
  const auto store = opened(server_->url()), reader = opened(server_->url());
  const auto text = [](int round) { return std::string(600'000 + static_cast<std::size_t>(round), static_cast<char>('a' + round)); };
  store->set("k", text(0));
  std::thread writing([&] {
    for (int round = 1; round < 12; ++round) store->set("k", text(round));
  });
  for (std::string seen; seen != text(11);) {
    seen = reader->get("k", 60s);
    ASSERT_EQ(seen, text(static_cast<int>(seen.size()) - 600'000));
  }
  writing.join();
  EXPECT_EQ(store->compare_set("k", text(11), "short"), "short");
  EXPECT_TRUE(store->erase("k"));
}

// Whoever came first would be the first to expire without signs of life.
TEST_F(EtcdStoreTest, ThePresenceOfAKilledProcessExpiresAndThatOfALivingOneDoesNot) {
  const std::string brief = server_->url("/test?ttl=5");
  int own_is_there[2];
  ASSERT_EQ(::pipe(own_is_there), 0);
  const pid_t child = ::fork();  // before there are threads, which ThreadSanitizer wants
  if (child == 0) {
    try {
      ::close(own_is_there[1]);  // its end is noticed if this test gives up
      char byte = 0;
      if (::read(own_is_there[0], &byte, 1) != 1) ::_exit(1);
      const auto theirs = opened(brief);
      theirs->set("child", std::to_string(theirs->presence()));
      ::pause();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    ::_exit(1);
  }
  const auto own = opened(brief);
  ASSERT_EQ(::write(own_is_there[1], "", 1), 1);
  for (const int end : own_is_there) ::close(end);
  const std::int64_t theirs = std::stoll(own->get("child", 30s));
  EXPECT_TRUE(own->is_present(theirs));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const Deadline deadline(60s);
  while (own->is_present(theirs) && !deadline.passed()) ::poll(nullptr, 0, 50);
  EXPECT_FALSE(own->is_present(theirs));
  EXPECT_TRUE(own->is_present(own->presence()));
  EXPECT_EQ(own->get("child"), std::to_string(theirs)) << "the keys of a job outlive the process that set them";
}

TEST_F(EtcdStoreTest, AChildOfForkIsRefused) {
  auto store = opened(server_->url("/test?ttl=5"));
  const std::string key = "a key whose wait lets the thread of the store come to its own wait";
  EXPECT_THROW(store->get(key, 100ms), Timeout);
  const pid_t child = ::fork();
  if (child == 0) {
    int code = 1;
    try {
      store->set("a", "b");
    } catch (const NotInitialized&) {
      store.reset();  // which takes nothing back
      code = 0;
    }
    ::_exit(code);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(store->is_present(store->presence()));
}

TEST_F(EtcdStoreTest, AnotherEndpointIsAskedWhereOneIsGone) {
  const auto store = opened(fmt::format("etcd://127.0.0.1:1,{}/test", server_->endpoint()));
  store->set("k", "v");
  EXPECT_EQ(store->get("k"), "v");
}

TEST_F(EtcdStoreTest, AWaitGoesOnWhenEtcdWasKilledAndRestarted) {
  const auto store = opened(server_->url(), {}, 60s), other = opened(server_->url(), {}, 60s);
  store->set("before", "1");
  auto value = std::async(std::launch::async, [&] { return store->get("later", 60s); });
  server_->kill();
  // The next use of the store reconnects, too.
  auto set = std::async(std::launch::async, [&] { other->set("later", "v"); });
  server_->start();
  set.get();
  EXPECT_EQ(value.get(), "v");
  EXPECT_EQ(other->get("before"), "1");
}

TEST_F(EtcdStoreTest, AnEtcdThatIsGoneIsNamedWithTheReason) {
  auto store = opened(server_->url());
  server_->kill();
  store->set_timeout(500ms);
  for (const auto& call : std::vector<std::function<void()>>{[&] { store->set("k", "v"); }, [&] { store->get("k", 300ms); },
                                                             [&] { store->add("k", 1); }, [&] { store->num_keys(); }}) {
    expect_parts(thrown_by<Timeout>(call).what(), {"http://" + server_->endpoint(), "could not be reached", "onnect"});
  }
  const Deadline deadline(20s);
  store.reset();  // which does not wait for ever either
  EXPECT_FALSE(deadline.passed());
  expect_parts(thrown_by<Timeout>([&] { opened(server_->url(), {}, 500ms); }).what(), {server_->endpoint()});
}

// Each change is carried out, its answer is lost, and it is sent again.
TEST_F(EtcdStoreTest, AChangeIsMadeOnceAlthoughItsAnswerIsLost) {
  std::atomic<int> changes = 0;
  GatewayProxy proxy(server_->endpoint(), [&](const GatewayProxy::Request& request) {
    return Decision{request.is_change() && ++changes % 2 == 0 ? Decision::Kind::lose : Decision::Kind::pass};
  });
  const auto direct = opened(server_->url());
  const auto store = opened(fmt::format("etcd://{}/test", proxy.endpoint()));
  changes = 1;
  for (int i = 1; i <= 12; ++i) EXPECT_EQ(store->add("sum", i), i * (i + 1) / 2);
  EXPECT_EQ(direct->get("sum"), "78");
  for (int i = 0; i < 12; ++i) {
    direct->set("taken", "x");
    EXPECT_EQ(store->compare_set("taken", "x", "y"), "y");
    EXPECT_TRUE(store->erase("taken"));
    EXPECT_FALSE(store->erase("taken"));
    store->set("k", std::to_string(i));
    EXPECT_EQ(direct->get("k"), std::to_string(i));
  }
  EXPECT_GE(proxy.decided(), 12 * 4);
}

struct Hostile {
  std::string name, path, answer;
  std::vector<std::string> said;
};
class EtcdAnswers : public ::testing::TestWithParam<Hostile> {};

TEST_P(EtcdAnswers, AnswersThatAreNotEtcdsAreProtocolErrors) {
  NEEDS_ETCD();
  const EtcdServer server;
  std::atomic<bool> lies = false;
  GatewayProxy proxy(server.endpoint(), [&](const GatewayProxy::Request& request) {
    return lies && request.path == GetParam().path ? Decision{Decision::Kind::answer, GetParam().answer} : Decision{};
  });
  const std::string url = fmt::format("etcd://{}/test", proxy.endpoint());
  const auto store = opened(url);
  store->set("here", "1");
  lies = true;
  const auto error = thrown_by<ProtocolError>([&] {
    if (GetParam().path == "/v3/lease/grant") opened(url);
    else if (GetParam().path == "/v3/watch") store->get("absent", 10s);
    else store->get("here", 10s);
  });
  expect_parts(error.what(), {proxy.endpoint()});
  expect_parts(error.what(), GetParam().said);
  lies = false;
  EXPECT_EQ(store->get("here", 10s), "1") << "the store can be used again";
}

INSTANTIATE_TEST_SUITE_P(
    Gateways, EtcdAnswers,
    ::testing::Values(
        Hostile{"ServerError", "/v3/kv/txn", GatewayProxy::http(500, "no"), {"HTTP status 500"}},
        Hostile{"NotFound", "/v3/lease/grant", GatewayProxy::http(404, "<html>nothing here</html>"), {"HTTP status 404"}},
        Hostile{"NoJson", "/v3/kv/txn", GatewayProxy::http(200, "hello"), {"not a JSON object"}},
        Hostile{"Truncated", "/v3/kv/txn", GatewayProxy::http(200, R"({"header":{"revision":"5"},"succeeded":true,"resp)"), {"not a JSON object"}},
        Hostile{"NoHeader", "/v3/kv/txn", GatewayProxy::http(200, "{}"), {"header"}},
        Hostile{"NoAnswers", "/v3/kv/txn", GatewayProxy::http(200, R"({"header":{"revision":"5"},"succeeded":true})"), {"number of operations"}},
        Hostile{"WrongBase64",
                "/v3/kv/txn",
                GatewayProxy::http(200, R"({"header":{"revision":"5"},"succeeded":true,"responses":[{"response_range":{"kvs":[{"key":"!"}]}}]})"),
                {"base64"}},
        Hostile{"ForeignValue",
                "/v3/kv/txn",
                GatewayProxy::http(
                    200, R"({"header":{"revision":"5"},"succeeded":true,"responses":[{"response_range":{"kvs":[{"key":"YQ==","value":"YQ=="}]}}]})"),
                {"has not written"}},
        Hostile{"NoNumber", "/v3/lease/grant", GatewayProxy::http(200, R"({"header":{},"ID":"many","TTL":"5"})"), {"ID"}},
        Hostile{"NoLease", "/v3/lease/grant", GatewayProxy::http(200, R"({"header":{},"TTL":"5"})"), {"no lease"}},
        Hostile{"BrokenWatch", "/v3/watch", GatewayProxy::http(200, "{\"result\":{\"created\":true}}\nhello\n"), {"not a JSON object"}},
        Hostile{"NoHttp", "/v3/kv/txn", "SSH-2.0-OpenSSH_9.2\r\n\r\n", {"is not etcd"}}),
    [](const auto& parameter) { return parameter.param.name; });

TEST_F(EtcdStoreTest, WhatEtcdRefusesIsSaidInItsWords) {
  GatewayProxy proxy(server_->endpoint(), [&](const GatewayProxy::Request& request) {
    return request.path == "/v3/kv/txn"
               ? Decision{Decision::Kind::answer, GatewayProxy::http(400, R"({"error":"x","message":"etcdserver: permission denied","code":7})")}
               : Decision{};
  });
  expect_parts(thrown_by<InvalidArgument>([&] { opened(fmt::format("etcd://{}/test", proxy.endpoint())); }).what(),
               {"permission denied", proxy.endpoint()});
}

TEST_F(EtcdStoreTest, AnEtcdWithoutALeaderIsAskedAgain) {
  GatewayProxy proxy(server_->endpoint(), [&](const GatewayProxy::Request& request) {
    return request.path == "/v3/kv/txn" && request.before < 3
               ? Decision{Decision::Kind::answer, GatewayProxy::http(503, R"({"error":"x","message":"etcdserver: no leader","code":14})")}
               : Decision{};
  });
  const auto store = opened(fmt::format("etcd://{}/test", proxy.endpoint()));
  store->set("k", "v");
  EXPECT_EQ(store->get("k"), "v");
  EXPECT_EQ(proxy.decided(), 3);
}

}  // namespace
}  // namespace unisono
