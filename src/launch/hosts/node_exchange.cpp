#include "launch/hosts/node_exchange.h"

#include <sys/eventfd.h>

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "launch/hosts/gather_texts.h"
#include "launch/process/program.h"
#include "unisono/error.h"

namespace unisono::launcher {

NodeExchange::NodeExchange(std::shared_ptr<Store> store, std::string prefix, int node)
    : store_(std::move(store)), prefix_(std::move(prefix)), node_(node), notifier_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!notifier_) throw StartFailed("cannot make an event descriptor: " + error_text(errno), 1);
}

NodeExchange::~NodeExchange() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  for (Exchange& exchange : exchanges_) exchange.thread.join();
}

void NodeExchange::begin(const std::string& name, const std::vector<int>& nodes, std::string own, Done done) {
  Exchange& exchange = exchanges_.emplace_back(Exchange{.done = std::move(done)});
  exchange.thread = base::Thread("the exchange with other hosts", [this, &exchange, name, nodes, text = std::move(own)] {
    try {
      gather(exchange, name, nodes, text);
    } catch (const std::exception& error) {  // the store is lost, which the launchers' heartbeat sees as well
      base::log(base::LogLevel::debug, error.what());
    }
  });
}

void NodeExchange::gather(Exchange& exchange, const std::string& name, const std::vector<int>& nodes, const std::string& own) {
  const auto goes_on = [this] {
    const std::lock_guard lock(mutex_);
    return !stop_;
  };
  // Ranks may take any time until they come to it.
  auto texts = gather_texts(*store_, {fmt::format("{}/{}", prefix_, name), nodes}, node_, own, base::Deadline(base::longest_timeout), goes_on);
  if (!texts) return;
  const std::lock_guard lock(mutex_);
  exchange.texts = std::move(*texts);
  exchange.is_complete = true;
  ::eventfd_write(notifier_.get(), 1);
}

void NodeExchange::wait_for(PollSet& set) {
  set.add(notifier_.get(), POLLIN, [this](short) { take(); });
}

void NodeExchange::take() {
  eventfd_t count = 0;
  ::eventfd_read(notifier_.get(), &count);
  for (auto it = exchanges_.begin(); it != exchanges_.end();) {
    std::unique_lock lock(mutex_);
    if (!it->is_complete) {
      ++it;
      continue;
    }
    lock.unlock();
    it->thread.join();
    const Exchange complete = std::move(*it);
    it = exchanges_.erase(it);
    complete.done(complete.texts);  // which may begin another
  }
}

}  // namespace unisono::launcher
