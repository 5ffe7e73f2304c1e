// Users, passwords and certificates of stores in etcd.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <fstream>

#include <fmt/format.h>

#include "etcd_server.h"
#include "refusal.h"
#include "store/etcd.h"
#include "unisono/error.h"
#include "unit/base/certificates.h"
#include "unit/temporary_file.h"

namespace unisono {
namespace {

using namespace std::chrono_literals;
using base::Deadline;
using store::etcd::open_etcd;
using testing::Authority;
using testing::EtcdServer;
using testing::KeyPair;
using Variables = std::map<std::string, std::string, std::less<>>;

/// Asks the gateway for something that a store never asks for.
std::string post(const EtcdServer& server, const std::string& path, const std::string& body, const std::string& token = "") {
  const std::string endpoint = server.endpoint();
  const auto port = static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1)));
  const Deadline deadline(20s);
  const base::FileDescriptor fd = base::try_connect(base::resolve("127.0.0.1", port).front(), deadline).fd;
  const std::string request = fmt::format("POST {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{}Content-Length: {}\r\n\r\n{}", path, endpoint,
                                          token.empty() ? "" : "Authorization: " + token + "\r\n", body.size(), body);
  EXPECT_EQ(::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
  std::string answer;
  std::array<char, 4096> bytes;
  while (base::wait_for(fd.get(), POLLIN, deadline)) {
    const ssize_t n = ::recv(fd.get(), bytes.data(), bytes.size(), 0);
    if (n <= 0) break;
    answer.append(bytes.data(), static_cast<std::size_t>(n));
  }
  EXPECT_NE(answer.find(" 200 "), std::string::npos) << path << ": " << answer;
  return answer;
}

/// A file that holds a password, and the variable that names it.
class PasswordFile {
 public:
  explicit PasswordFile(const std::string& password) { std::ofstream(file_.path()) << password << "\n"; }
  Variables variables() const { return {{"UNISONO_ETCD_PASSWORD_FILE", file_.path()}}; }

 private:
  const TemporaryFile file_;
};

/// root may do everything, and "me" what is below /mine.
void demand_passwords(const EtcdServer& server) {
  post(server, "/v3/auth/user/add", R"({"name":"root","password":"of root"})");
  post(server, "/v3/auth/role/add", R"({"name":"root"})");
  post(server, "/v3/auth/user/grant", R"({"user":"root","role":"root"})");
  post(server, "/v3/auth/user/add", R"({"name":"me","password":"mine"})");
  post(server, "/v3/auth/role/add", R"({"name":"mine"})");
  post(server, "/v3/auth/role/grant", R"({"name":"mine","perm":{"permType":"READWRITE","key":"L21pbmUv","range_end":"L21pbmUw"}})");
  post(server, "/v3/auth/user/grant", R"({"user":"me","role":"mine"})");
  post(server, "/v3/auth/enable", "{}");
}

TEST(EtcdAdmission, AdmissionAsksForThePasswordOfAUser) {
  NEEDS_ETCD();
  const EtcdServer server;
  demand_passwords(server);
  const auto opened = [&](const std::string& prefix, const Variables& variables) {
    auto store = open_etcd(server.url(prefix, variables.empty() ? "" : "me@"), base::Environment(variables), Deadline(20s));
    store->set_timeout(20s);
    return store;
  };
  const PasswordFile mine("mine"), guessed("guessed");
  const Variables me = mine.variables();
  const auto store = opened("/mine/job", me), other = opened("/mine/job", me);
  std::thread waiting([&] { EXPECT_EQ(store->get("later", 20s), "v"); });
  other->set("later", "v");
  waiting.join();
  EXPECT_EQ(store->add("n", 3), 3);
  EXPECT_NE(refusal<InvalidArgument>([&] { opened("/mine/job", {}); }).find("user name is empty"), std::string::npos);
  EXPECT_NE(refusal<InvalidArgument>([&] { opened("/others/job", me); }).find("permission denied"), std::string::npos);
  const std::string wrong = refusal<InvalidArgument>([&] { opened("/mine/job", guessed.variables()); });
  EXPECT_NE(wrong.find("authentication failed"), std::string::npos) << wrong;
  EXPECT_EQ(wrong.find("guessed"), std::string::npos) << wrong;
}

// etcd forgets its tokens when it is restarted: the store logs in once more.
TEST(EtcdAdmission, AdmissionLogsInAgainWhereTheTokenIsGone) {
  NEEDS_ETCD();
  EtcdServer server;
  demand_passwords(server);
  const PasswordFile mine("mine");
  const auto store = open_etcd(server.url("/mine/job", "me@"), base::Environment(mine.variables()), Deadline(20s));
  store->set_timeout(40s);
  store->set("k", "1");
  server.kill();
  server.start();
  store->set("k", "2");
  EXPECT_EQ(store->get("k"), "2");
}

TEST(EtcdAdmission, AdmissionKnowsEtcdByItsCertificate) {
  NEEDS_ETCD();
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder.file(name)) << text;
    ::chmod(folder.file(name).c_str(), 0600);
    return folder.file(name);
  };
  const Authority authority("the authority"), another("another authority");
  const KeyPair key;
  const EtcdServer server(write("certificate", authority.sign("127.0.0.1", key)), write("key", key.pem()));
  const auto opened = [&](const Variables& variables, const std::string& url) {
    auto store = open_etcd(url, base::Environment(variables), Deadline(20s));
    store->set_timeout(20s);
    return store;
  };
  const Variables trusted{{"UNISONO_ETCD_CACERT", write("authority", authority.pem())}};
  const auto store = opened(trusted, server.url());
  store->set("k", "v");
  EXPECT_EQ(opened(trusted, server.url())->get("k"), "v");
  const std::string untrusted = refusal<InvalidArgument>([&] { opened({{"UNISONO_ETCD_CACERT", write("another", another.pem())}}, server.url()); });
  EXPECT_NE(untrusted.find("certificate"), std::string::npos) << untrusted;
  const std::string port = server.endpoint().substr(server.endpoint().rfind(':'));
  const std::string misnamed = refusal<InvalidArgument>([&] { opened(trusted, "etcds://localhost" + port + "/test"); });
  EXPECT_NE(misnamed.find("localhost"), std::string::npos) << misnamed;
  // A connection that is not encrypted is no way in.
  const std::string plain = refusal<Timeout>([&] { open_etcd("etcd://" + server.endpoint() + "/test", base::Environment(), Deadline(500ms)); });
  EXPECT_NE(plain.find(server.endpoint()), std::string::npos) << plain;
}

}  // namespace
}  // namespace unisono
