// The words of the launchers of several hosts on how their ranks have ended: launch/hosts/elastic_hosts.h.
#include "launch/hosts/elastic_hosts.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "unisono/store.h"

namespace unisono::launcher {
namespace {

// The ranks that meet for the first time look for the first end. They do not wait for a process that was started later.
TEST(ElasticWords, TheFirstEndIsThatOfAProcessOfTheStart) {
  const auto store = std::make_shared<MemoryStore>();
  const AttemptKeys keys{.attempt = 3};
  const auto say = [&](const std::vector<std::string>& names) {
    ElasticHosts host({.store = store, .keys = keys, .host = 1, .hosts = [] { return std::vector<JobHost>{{.number = 1, .ranks = 2}}; }});
    for (const std::string& name : names) host.tell_end(name, "exit 7");
    host.finish();
  };
  say({"4.1"});
  EXPECT_EQ(store->try_get(keys.end("4.1")), "exit 7");
  EXPECT_FALSE(store->try_get(keys.first_end()));
  say({"5.1", "2", "3"});
  EXPECT_EQ(store->try_get(keys.first_end()), "2 exit 7");
}

}  // namespace
}  // namespace unisono::launcher
