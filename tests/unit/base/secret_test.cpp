// Secrets in memory: where they lie, and what is left of them.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/environment.h"
#include "base/files.h"
#include "base/secret.h"
#include "launch/process/environment_block.h"
#include "memory_search.h"
#include "store/authentication.h"
#include "store/client.h"
#include "store/server.h"
#include "unit/temporary_file.h"
#include "unit/transport/tcp/link_testing.h"

namespace unisono::testing {
namespace {

using base::Secret;

void expect_kept_out(const Secret& secret) {
  const Places places = search_memory(::getpid(), secret.view());
  EXPECT_GE(places.kept_out, 1) << "it is looked for in the wrong place";
  EXPECT_EQ(places.dumped, std::vector<std::string>());
}

TEST(Secret, ASecretLiesOnPagesThatNoCoreDumpHolds) {
  for (const std::size_t size : {16, 63, 64, 65, 4096, 5000}) expect_kept_out(random_secret(size));
}

TEST(Secret, ASecretIsSharedByItsCopies) {
  const Secret secret("a secret of this test");
  const Secret copy = secret;
  EXPECT_EQ(copy.view().data(), secret.view().data());
  EXPECT_EQ(copy, "a secret of this test");
  EXPECT_EQ(Secret(copy.view()), secret);
  EXPECT_NE(copy, "another");
  EXPECT_TRUE(Secret().empty());
  EXPECT_TRUE(Secret("").empty());
}

TEST(Secret, ASecretLeavesNothingWithItsLastOwner) {
  const Secret neighbour("keeps the page mapped");
  auto secret = std::make_unique<Secret>(random_secret(64));
  auto copy = std::make_unique<Secret>(*secret);
  const char* const bytes = copy->view().data();
  const std::string before(64, '\0');
  secret.reset();
  EXPECT_NE(std::memcmp(bytes, before.data(), before.size()), 0) << "a copy lives";
  copy.reset();
  EXPECT_EQ(std::memcmp(bytes, before.data(), before.size()), 0);
}

TEST(Secret, ManySecretsHavePlacesOfTheirOwn) {
  std::vector<Secret> secrets;
  for (int i = 0; i < 500; ++i) secrets.emplace_back("secret " + std::to_string(i));
  for (int i = 0; i < 500; i += 3) secrets[static_cast<std::size_t>(i)] = Secret("new " + std::to_string(i));
  for (int i = 0; i < 500; ++i) EXPECT_EQ(secrets[static_cast<std::size_t>(i)], (i % 3 == 0 ? "new " : "secret ") + std::to_string(i));
}

// A child has all of its parent's memory, and one thread: whatever the others were at must not keep it waiting.
TEST(Secret, ASecretIsMadeInAChildOfForkWhileOtherThreadsMakeSome) {
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) static_cast<void>(Secret("a secret of the other thread"));
  });
  int status = 0;
  for (int i = 0; i < 200 && status == 0; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);  // a child that waits for ever ends by SIGALRM
      ::_exit(Secret("a secret of the child") == "a secret of the child" ? 0 : 1);
    }
    if (::waitpid(child, &status, 0) != child) status = -1;
  }
  stop = true;
  other.join();
  EXPECT_EQ(status, 0) << "as waitpid tells it of the first child that failed";
}

TEST(Secret, ASecretIsOverwrittenInTheTextThatItWasTakenFrom) {
  std::string text(40, 'x');
  const char* const bytes = text.data();
  const Secret taken = Secret::taking(std::move(text));
  EXPECT_EQ(taken, std::string(40, 'x'));
  EXPECT_EQ(std::string_view(bytes, 40).find('x'), std::string_view::npos);
}

TEST(Secret, ASecretLeavesTheBuffersThatItPassesThrough) {
  std::string buffer;
  for (int i = 0; i < 100; ++i) base::append_wiping(buffer, "twelve bytes");
  EXPECT_EQ(buffer.size(), 1200U);
  base::wipe_front(buffer, 1194);
  EXPECT_EQ(buffer, " bytes");
  EXPECT_EQ(std::string_view(buffer.data() + buffer.size(), 1194).find_first_not_of('\0'), std::string_view::npos);
}

TEST(EnvironmentSecrets, SecretsOfTheEnvironmentAreKeptOutOfCoreDumpsOnTheirWayToARank) {
  const Secret secret = random_secret();
  const Secret line = Secret::filled(64, [&](char* bytes) {
    std::strcpy(bytes, "UNISONO_TOKEN=");
    return 14 + secret.view().copy(bytes + 14, secret.size());
  });
  char* const variables[] = {const_cast<char*>(line.view().data()), const_cast<char*>("UNISONO_TIMEOUT=7"), nullptr};
  const base::Environment environment(variables, false);
  EXPECT_EQ(environment.secret("UNISONO_TOKEN"), secret);
  EXPECT_TRUE(environment.has("UNISONO_TOKEN"));
  EXPECT_EQ(environment.get("UNISONO_TOKEN"), std::nullopt);
  launcher::EnvironmentBlock block(environment);
  block.set("UNISONO_TIMEOUT", 8);
  std::map<std::string, bool> found;
  launcher::EnvironmentBlock again(block.as_environment());
  for (char* const* entry = again.data(); *entry != nullptr; ++entry) found[*entry == line.view() ? "the token" : *entry] = true;
  EXPECT_EQ(found, (std::map<std::string, bool>{{"UNISONO_TIMEOUT=8", true}, {"the token", true}}));
  expect_kept_out(secret);
  again.remove("UNISONO_TOKEN");
  EXPECT_FALSE(again.as_environment().has("UNISONO_TOKEN"));
}

TEST(PrivateFile, APrivateFileIsReadToPagesThatNoCoreDumpHolds) {
  const Secret secret = random_secret(100);
  const TemporaryFile file;
  const base::FileDescriptor written(::open(file.path().c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600));
  ASSERT_EQ(::fchmod(written.get(), 0600), 0);
  ASSERT_EQ(::write(written.get(), secret.view().data(), secret.size()), 100);
  EXPECT_EQ(store::token_of_file(file.path()), secret);
  expect_kept_out(secret);
}

TEST(StoreSecret, TheSecretOfAStoreIsReadByItsKeyAndKeptOutOfCoreDumps) {
  const Secret secret = random_secret();
  store::StoreServer server;
  server.set_secret("the secret", secret);
  auto pair = base::make_socket_pair();
  server.adopt(std::move(pair.first));
  const auto client = store::connect_fd(std::move(pair.second));
  std::optional<std::string> text = client->try_get("the secret");
  ASSERT_TRUE(text);
  const Secret received = Secret::taking(std::move(*text));
  EXPECT_EQ(received, secret);
  EXPECT_FALSE(server.peek("the secret"));
  client->set("another", "value");
  expect_kept_out(secret);
}

TEST(LinkSecrets, SecretsOfALinkAreKeptOutOfCoreDumps) {
  const Secret token = random_secret();
  const auto store = std::make_shared<MemoryStore>();
  const auto links = make_links(2, [&](Link::Options& options) {
    options.store = store;
    options.token = token;
  });
  const Secret secret = store::message_key(token.view(), "unisono link: secret", store->get("link/secret"));
  const Secret of_objects = store::derived_key(secret.view(), "unisono link: codes of objects");
  EXPECT_EQ(links[0]->protection().secret, of_objects);
  for (const Secret& each : {token, secret, of_objects, store::derived_key(secret.view(), "unisono link: TLS 1.3 pre-shared key")})
    expect_kept_out(each);
}

TEST(StoreSecrets, SecretsOfAuthenticationAreKeptOutOfCoreDumps) {
  const Secret token = random_secret();
  const store::Exchange exchange{.client_nonce = store::fresh_nonce(), .server_nonce = store::fresh_nonce(), .job_tag = "tag"};
  const auto keys = store::client_keys(token.view(), exchange);
  ASSERT_TRUE(keys);
  const store::FrameSealer sealer(keys->sending);
  const store::FrameOpener opener(keys->receiving);
  for (const Secret& each : {token, keys->sending, keys->receiving}) expect_kept_out(each);
}

}  // namespace
}  // namespace unisono::testing
