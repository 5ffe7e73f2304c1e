// The URLs and variables of stores in etcd.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "refusal.h"
#include "store/etcd/location.h"
#include "unisono/error.h"
#include "unit/temporary_file.h"

namespace unisono::store::etcd {
namespace {

using base::Environment;
using Variables = std::map<std::string, std::string, std::less<>>;

std::vector<std::string> urls(const Location& location) {
  std::vector<std::string> all;
  for (const Endpoint& endpoint : location.endpoints) all.push_back(endpoint.url);
  return all;
}

TEST(EtcdLocation, TheLocationIsReadFromItsUrl) {
  const Location location = location_of("etcd://10.0.0.1:2379,[fd00::7]:99,etcd.local/jobs/train-17/", Environment());
  EXPECT_EQ(urls(location), (std::vector<std::string>{"http://10.0.0.1:2379", "http://[fd00::7]:99", "http://etcd.local:2379"}));
  EXPECT_EQ(location.prefix, "/jobs/train-17");
  EXPECT_EQ(location.time_to_live, std::chrono::seconds(10));
  const Location safe = location_of("etcds://[::1]/a?ttl=7", Environment(Variables{{"UNISONO_ETCD_CACERT", "/ca.pem"}}));
  EXPECT_EQ(urls(safe), std::vector<std::string>{"https://[::1]:2379"});
  EXPECT_EQ(safe.endpoints.front().authority, "/ca.pem");
  EXPECT_EQ(safe.time_to_live, std::chrono::seconds(7));
  EXPECT_EQ(safe.url, "etcds://[::1]/a");
}

TEST(EtcdLocation, TheLocationRefusesOtherUrls) {
  for (const auto& [url, why] : std::vector<std::pair<std::string, std::string>>{{"tcp://a:1/b", "neither etcd:// nor etcds://"},
                                                                                 {"etcd://a:2379", "no job"},
                                                                                 {"etcd://a:2379/", "no job"},
                                                                                 {"etcd:///job", "no host"},
                                                                                 {"etcd://a,,b/job", "no host"},
                                                                                 {"etcd://a:x/job", "a port"},
                                                                                 {"etcd://a:0/job", "a port"},
                                                                                 {"etcd://a:65536/job", "a port"},
                                                                                 {"etcd://[::1/job", "IPv6"},
                                                                                 {"etcd://a b/job", "strange"},
                                                                                 {"etcd://a/j b", "prefix"},
                                                                                 {"etcd://a/job?tll=7", "no \"tll\" in its query, only ttl"},
                                                                                 {"etcd://a/job?ttl=1", "from 2 to 3600"},
                                                                                 {"etcd://a/job?ttl=7s", "a number of seconds"}}) {
    const std::string text = refusal<InvalidArgument>([&, location = url] { location_of(location, Environment()); });
    EXPECT_NE(text.find(why), std::string::npos) << url << ": " << text;
  }
}

TEST(EtcdLocation, TheLocationKeepsPasswordsOutOfSight) {
  const std::string text = refusal<InvalidArgument>([] { location_of("etcds://me:secret@a/job", Environment()); });
  EXPECT_EQ(text.find("secret"), std::string::npos) << text;
  for (const char* url : {"etcds://me:secret?x@a/job", "etcds://me:secret@a/job?tll=7", "etcds://me:secret@a"})
    EXPECT_EQ(refusal<InvalidArgument>([&] { location_of(url, Environment()); }).find("secret"), std::string::npos) << url;
  EXPECT_NE(text.find("UNISONO_ETCD_PASSWORD_FILE"), std::string::npos) << text;
  const TemporaryFile file;
  std::ofstream(file.path()) << "secret\n";
  const Variables with{{"UNISONO_ETCD_PASSWORD_FILE", file.path()}};
  EXPECT_NE(refusal<InvalidArgument>([&] { location_of("etcd://me@10.0.0.1/job", Environment(with)); }).find("in the clear"), std::string::npos);
  EXPECT_NE(refusal<InvalidArgument>([&] { location_of("etcds://me@10.0.0.1/job", Environment()); }).find("no password"), std::string::npos);
  EXPECT_EQ(location_of("etcd://me@127.0.0.1/job", Environment(with)).password, "secret");
  EXPECT_EQ(location_of("etcds://me@10.0.0.1/job", Environment(with)).user, "me");
}

TEST(EtcdLocation, TheLocationReadsThePasswordFromAFileOfItsOwn) {
  const TemporaryFile file;
  std::ofstream(file.path()) << "secret\n";
  const Variables named{{"UNISONO_ETCD_PASSWORD_FILE", file.path()}};
  EXPECT_EQ(location_of("etcds://me@a/job", Environment(named)).password, "secret");
  std::filesystem::permissions(file.path(), std::filesystem::perms::others_read, std::filesystem::perm_options::add);
  EXPECT_NE(refusal<InvalidArgument>([&] { location_of("etcds://me@a/job", Environment(named)); }).find(file.path()), std::string::npos);
}

TEST(EtcdLocation, TheLocationRefusesVariablesWithoutMeaning) {
  const auto refused = [](const Variables& variables) {
    return refusal<InvalidArgument>([&] { location_of("etcds://a/job", Environment(variables)); });
  };
  EXPECT_NE(refused({{"UNISONO_ETCD_CERT", "/a.pem"}}).find("UNISONO_ETCD_KEY"), std::string::npos);
}

}  // namespace
}  // namespace unisono::store::etcd
