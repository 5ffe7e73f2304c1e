#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/thread.h"
#include "launch/process/poll_set.h"
#include "unisono/store.h"

namespace unisono::launcher {

/// Waits for a value of the store. Throws Timeout after the deadline; nothing is returned if `goes_on`, which is asked about every second, says no.
std::optional<std::string> await_value(Store& store, const std::string& key, const base::Deadline& deadline, const std::function<bool()>& goes_on);

/// A text of each of several nodes, which all of them read. The first of the nodes waits for all texts, reads them together, and writes them as one
/// value that the others wait for: a few requests of each node, whatever their number.
struct TextsOfNodes {
  std::string prefix;      ///< of the keys: node 3's text is under "prefix/3", all of them under "prefix/all"
  std::vector<int> nodes;  ///< the same on all of them

  std::string key(int node) const { return prefix + "/" + std::to_string(node); }
};

/// Writes this node's text and returns the texts of all nodes, in their order. A text that another process has written for a node counts as well.
/// `deadline`, `goes_on`: as those of await_value.
std::optional<std::vector<std::string>> gather_texts(Store& store, const TextsOfNodes& texts, int own_node, std::string_view own,
                                                     const base::Deadline& deadline, const std::function<bool()>& goes_on);

/// Exchanges texts among the launchers of several hosts, while the loop of each goes on: threads wait for the others in the launchers' store.
class NodeExchange {
 public:
  /// `prefix`: of its keys, the same on all nodes and different from attempt to attempt.
  NodeExchange(std::shared_ptr<Store> store, std::string prefix, int node) : store_(std::move(store)), prefix_(std::move(prefix)), node_(node) {}
  /// Gives up what is under way.
  ~NodeExchange();
  NodeExchange(const NodeExchange&) = delete;
  NodeExchange& operator=(const NodeExchange&) = delete;

  using Done = std::function<void(const std::vector<std::string>& texts)>;
  /// Begins an exchange among `nodes`, of which this is one; all of them use the same name, and each name once. `done` gets their texts in the order
  /// of `nodes`; it is called by the loop. Nothing comes if the store is lost: the launchers end the job then.
  void begin(const std::string& name, const std::vector<int>& nodes, std::string own, Done done);
  void wait_for(PollSet& set);

 private:
  struct Exchange {
    Done done;
    std::vector<std::string> texts = {};
    bool is_complete = false;
    base::Thread thread = {};
  };
  void gather(Exchange& exchange, const std::string& name, const std::vector<int>& nodes, const std::string& own);
  void take();

  const std::shared_ptr<Store> store_;
  const std::string prefix_;
  const int node_;
  const Notifier notifier_;
  std::mutex mutex_;  // guards what the threads write
  bool stop_ = false;
  std::list<Exchange> exchanges_;
};

}  // namespace unisono::launcher
