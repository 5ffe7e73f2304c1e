// Stores that several processes share.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/socket.h"
#include "unit/temporary_file.h"
#include "unisono/error.h"
#include "unisono/store.h"

namespace unisono {
namespace {

using namespace std::chrono_literals;

/// Runs `body(i)` in n children; their exit codes must be 0.
void in_children(int n, const std::function<bool(int)>& body) {
  std::vector<pid_t> children;
  for (int i = 0; i < n; ++i) {
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      bool good = false;
      try {
        good = body(i);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "child %d: %s\n", i, error.what());
      }
      ::_exit(good ? 0 : 1);
    }
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  }
}

bool meet_and_count(Store& store, int i, int n) {
  for (int round = 0; round < 50; ++round) store.add("count", i + 1);
  store.set(fmt::format("done{}", i), "1");
  std::vector<std::string> keys;
  for (int other = 0; other < n; ++other) keys.push_back(fmt::format("done{}", other));
  store.wait(keys, 60s);
  return store.get("count") == std::to_string(50 * n * (n + 1) / 2);
}

TEST(StoreProcesses, ProcessesShareAFile) {
  const TemporaryFile file;
  in_children(4, [&](int i) {
    FileStore store(file.path());
    return meet_and_count(store, i, 4);
  });
}

TEST(StoreProcesses, AChildOfForkMayGoOnWithTheParentsFileStore) {
  const TemporaryFile file;
  FileStore store(file.path());
  store.set("from parent", "1");
  in_children(3, [&](int i) { return store.get("from parent") == "1" && meet_and_count(store, i, 3); });
  EXPECT_EQ(store.get("count"), "300");
}

TEST(StoreProcesses, ProcessesShareATcpServer) {
  auto listener = base::try_listen(base::resolve("127.0.0.1", 0).front());
  ASSERT_TRUE(listener.fd);
  const std::uint16_t port = base::local_address(listener.fd.get()).port();
  // Child 0 serves on the socket that was bound before, as a launcher would. Sockets of the library are kept from children; this one is released.
  const base::FileDescriptor bound(listener.fd.release());
  in_children(4, [&](int i) {
    TcpStore store("127.0.0.1", port, {.is_server = i == 0, .listen_fd = i == 0 ? bound.get() : -1});
    const bool good = meet_and_count(store, i, 4);
    if (i == 0) {
      store.wait(std::vector<std::string>{"left1", "left2", "left3"}, 60s);
    } else {
      store.set(fmt::format("left{}", i), "1");
    }
    return good;
  });
}

TEST(StoreProcesses, AChildOfForkIsRefusedTheParentsConnection) {
  TcpStore store("127.0.0.1", 0, {.is_server = true});
  in_children(1, [&](int) {
    try {
      store.set("a", "b");
      return false;
    } catch (const NotInitialized&) {
      return true;
    }
  });
  store.set("a", "c");
  EXPECT_EQ(store.get("a"), "c");
}

}  // namespace
}  // namespace unisono
