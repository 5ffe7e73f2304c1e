#include "engine_ranks.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <mutex>
#include <numeric>
#include <thread>

#include "base/deadline.h"

namespace unisono::testing {

const Plugin& engine_plugin() {
  static const Plugin* const plugin = [] {
    void* const library = ::dlopen(ENGINE_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(::dlerror());
    const auto entry = reinterpret_cast<const Plugin* (*)()>(::dlsym(library, "unisono_plugin"));
    if (entry == nullptr) throw std::runtime_error("no unisono_plugin in " ENGINE_PLUGIN);
    return entry();
  }();
  return *plugin;
}

EngineOptions options_of(int rank, int ranks, std::shared_ptr<Store> store, std::chrono::milliseconds timeout) {
  EngineOptions options;
  options.group_name = "world";
  options.key = "world";
  options.rank = rank;
  options.global_ranks.resize(static_cast<std::size_t>(ranks));
  std::iota(options.global_ranks.begin(), options.global_ranks.end(), 0);
  options.hosts.assign(static_cast<std::size_t>(ranks), 0);
  options.local_rank = rank;
  options.address = "127.0.0.1";
  options.store = std::move(store);
  options.timeout = timeout;
  return options;
}

std::unique_ptr<Engine> make_engine(int rank, int ranks, std::shared_ptr<Store> store) {
  return engine_plugin().make(options_of(rank, ranks, std::move(store)));
}

void with_engines(int ranks, const std::function<void(Engine&, int)>& body) {
  const auto store = std::make_shared<MemoryStore>();
  std::vector<std::thread> threads;
  std::mutex mutex;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      try {
        const auto engine = make_engine(r, ranks, store);
        body(*engine, r);
        engine->leave();
      } catch (const std::exception& error) {
        const std::lock_guard lock(mutex);
        ADD_FAILURE() << "rank " << r << " of " << ranks << ": " << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

Processes::Processes(int ranks, const Body& body) {
  std::string pattern = std::filesystem::temp_directory_path() / "unisono-engine-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
  folder_ = pattern;
  for (int r = 0; r < ranks; ++r) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    const pid_t pid = ::fork();
    if (pid == 0) {
      for (const Child& other : children_) ::close(other.from);
      ::close(ends[0]);
      const Tell tell = [fd = ends[1]](const std::string& line) {
        std::string whole = line;
        whole.push_back('\n');
        if (::write(fd, whole.data(), whole.size()) < 0) ::_exit(3);
      };
      try {
        const std::string end = body(r, std::make_shared<FileStore>(folder_ + "/store"), tell);
        tell("returned: " + end);
      } catch (const std::exception& error) {
        tell(std::string("error: ").append(error.what()));
      }
      ::_exit(0);
    }
    ::close(ends[1]);
    if (pid < 0) throw std::runtime_error("fork");
    children_.push_back({pid, ends[0], {}, {}, false});
  }
}

Processes::~Processes() {
  for (Child& child : children_) {
    if (!child.reaped) {
      ::kill(child.pid, SIGKILL);
      ::waitpid(child.pid, nullptr, 0);
    }
    ::close(child.from);
  }
  std::filesystem::remove_all(folder_);
}

std::string Processes::line(int rank, std::chrono::milliseconds patience) {
  Child& child = children_[static_cast<std::size_t>(rank)];
  const base::Deadline deadline(patience);
  for (;;) {
    if (const std::size_t end = child.unread.find('\n'); end != std::string::npos) {
      child.last = child.unread.substr(0, end);
      child.unread.erase(0, end + 1);
      return child.last;
    }
    pollfd entry{child.from, POLLIN, 0};
    if (::poll(&entry, 1, deadline.poll_timeout()) <= 0) return "";
    char bytes[4096];
    const ssize_t got = ::read(child.from, bytes, sizeof bytes);
    if (got <= 0) return "";
    child.unread.append(bytes, static_cast<std::size_t>(got));
  }
}

void Processes::set(const std::string& key) const { FileStore(folder_ + "/store").set(key, "1"); }

void Processes::signal(int rank, int number) const { ::kill(pid(rank), number); }

std::string Processes::end_of(int rank, std::chrono::milliseconds patience) {
  Child& child = children_[static_cast<std::size_t>(rank)];
  const base::Deadline deadline(patience);
  for (;;) {  // its pipe ends when it does
    pollfd entry{child.from, POLLIN, 0};
    if (child.unread.find('\n') == std::string::npos && ::poll(&entry, 1, deadline.poll_timeout()) <= 0) return "still there";
    if (line(rank, std::chrono::milliseconds(0)).empty()) break;
  }
  int status = 0;
  ::waitpid(child.pid, &status, 0);
  child.reaped = true;
  if (WIFSIGNALED(status)) return std::string("signal ").append(std::to_string(WTERMSIG(status)));
  return child.last;
}

}  // namespace unisono::testing
