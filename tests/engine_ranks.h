#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "unisono/engine.h"

// The plug-in, loaded as the library loads it, and ranks that use its engine with nothing above: what the tests call, all ranks call alike.

namespace unisono::testing {

/// The plug-in that the test was built for (ENGINE_PLUGIN).
const Plugin& engine_plugin();

EngineOptions options_of(int rank, int ranks, std::shared_ptr<Store> store, std::chrono::milliseconds timeout = std::chrono::seconds(30));
std::unique_ptr<Engine> make_engine(int rank, int ranks, std::shared_ptr<Store> store);

/// Ranks as threads, each with an engine. An exception that leaves a rank is a failure of the test.
void with_engines(int ranks, const std::function<void(Engine&, int rank)>& body);

/// Ranks as processes of this program. `body` runs in each; what it throws is the end "error: TEXT", what it returns the end it names.
class Processes {
 public:
  /// The lines that a rank's body tells the test.
  using Tell = std::function<void(const std::string& line)>;
  using Body = std::function<std::string(int rank, std::shared_ptr<Store> store, const Tell& tell)>;

  Processes(int ranks, const Body& body);
  ~Processes();  // kills and reaps what is left
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  pid_t pid(int rank) const { return children_[static_cast<std::size_t>(rank)].pid; }
  /// Waits for the next line of a rank; "" at its end, or when `patience` is over.
  std::string line(int rank, std::chrono::milliseconds patience = std::chrono::seconds(60));
  void signal(int rank, int number) const;
  /// Sets a key of the ranks' store.
  void set(const std::string& key) const;
  /// "returned: TEXT", "error: TEXT", or "signal N" of a process that something killed; "still there" where it does not end.
  std::string end_of(int rank, std::chrono::milliseconds patience = std::chrono::seconds(60));

 private:
  struct Child {
    pid_t pid = -1;
    int from = -1;
    std::string unread, last;
    bool reaped = false;
  };
  std::string folder_;
  std::vector<Child> children_;
};

}  // namespace unisono::testing
