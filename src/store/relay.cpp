#include "store/relay.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/log.h"
#include "base/secret.h"
#include "unisono/error.h"

namespace unisono::store {
namespace {

using base::Clock;
using std::chrono::milliseconds;

/// The other store is asked again after so long, if somebody still waits for the key.
constexpr milliseconds time_of_question = std::chrono::minutes(1);
constexpr std::size_t head_size = 1 + sizeof(std::uint64_t);  ///< of a request or an answer: its kind and its number

milliseconds bounded(std::uint64_t timeout_ms) {
  return std::min(milliseconds(static_cast<std::int64_t>(std::min<std::uint64_t>(timeout_ms, INT64_MAX))),
                  std::chrono::duration_cast<milliseconds>(base::longest_timeout));
}

}  // namespace

Relay::Relay(std::shared_ptr<Client> other, Owner owner) : other_(std::move(other)), owner_(std::move(owner)) {
  sender_ = base::Thread("the requests of this host's ranks", [this] { send_requests(); });
  try {
    reader_ = base::Thread("the answers for this host's ranks", [this] { take_answers(); });
  } catch (...) {
    end();
    throw;
  }
}

Relay::~Relay() {
  end();
  reader_.join();
}

void Relay::end() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  other_->hang_up();
  sender_.join();
}

void Relay::forward(std::uint64_t session, std::string_view frame) {
  Reader in(frame);
  const auto op = static_cast<Op>(in.byte());
  Asker asker{.session = session, .request = in.integer()};
  const bool is_request = in.ok() && op >= Op::set && op <= Op::try_get_all;
  if (!is_request || op == Op::will) throw InvalidArgument("a request is not of a kind that one host's store hands on to another's");
  const std::lock_guard lock(mutex_);
  if (op == Op::get) {
    asker.expires = Clock::now() + bounded(in.integer());
    const std::string key(in.text());
    if (!in.complete()) throw InvalidArgument("the request is malformed");
    wait_for(key, asker);
  } else {
    requests_.push_back(renumbered(frame, next_));
    asked_.emplace(next_++, asker);
  }
  changed_.notify_all();
}

void Relay::wait_for(const std::string& key, Asker asker) {
  const auto [awaited, is_new] = awaited_.try_emplace(key);
  (is_new ? awaited->second.asked : awaited->second.later).push_back(asker);
  if (is_new) ask_for(key);
}

void Relay::ask_for(const std::string& key) {
  questions_.emplace(next_, key);
  requests_.push_back(Writer(Op::get, next_++).integer(static_cast<std::uint64_t>(time_of_question.count())).text(key).finish());
}

void Relay::forget(std::uint64_t session) {
  const std::lock_guard lock(mutex_);
  const auto is_its = [session](const Asker& asker) { return asker.session == session; };
  std::erase_if(asked_, [&](const auto& asked) { return is_its(asked.second); });
  for (auto& [key, awaited] : awaited_) {
    std::erase_if(awaited.asked, is_its);
    std::erase_if(awaited.later, is_its);
  }
}

Relay::Time Relay::next_expiry() const {
  Time next = Time::max();
  for (const auto& [key, awaited] : awaited_) {
    for (const auto* const list : {&awaited.asked, &awaited.later}) {
      for (const Asker& asker : *list) next = std::min(next, asker.expires);
    }
  }
  return next;
}

void Relay::expire(Time now, std::vector<std::pair<Asker, std::string>>& expired) {
  for (auto& [key, awaited] : awaited_) {
    for (auto* const list : {&awaited.asked, &awaited.later}) {
      for (const Asker& asker : *list) {
        if (asker.expires <= now) expired.emplace_back(asker, key);
      }
      std::erase_if(*list, [now](const Asker& asker) { return asker.expires <= now; });
    }
  }
}

void Relay::send_requests() try {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const Time now = Clock::now();
    if (const Time next = next_expiry(); requests_.empty() && next > now) {
      if (next == Time::max()) changed_.wait(lock);
      else changed_.wait_until(lock, next);
      continue;
    }
    std::vector<std::pair<Asker, std::string>> expired;
    expire(now, expired);
    std::vector<std::string> requests = std::exchange(requests_, {});
    lock.unlock();
    for (const auto& [asker, key] : expired) owner_.answer(asker.session, Writer(Status::expired, asker.request).text(key).finish());
    if (!requests.empty()) other_->send_requests(std::move(requests));
    lock.lock();
  }
} catch (const std::exception& error) {  // the reader finds the end of the connection, and tells the clients
  base::log(base::LogLevel::debug, error.what());
  other_->hang_up();
}

void Relay::take_answers() {
  try {
    other_->take_answers([this](std::string_view answer) { take(answer); });
  } catch (const std::exception& error) {
    base::log(base::LogLevel::debug, error.what());
  }
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(stop_, true)) return;
  }
  changed_.notify_all();
  owner_.lose();
}

void Relay::take(std::string_view answer) {
  Reader in(answer);
  const auto status = static_cast<Status>(in.byte());
  const std::uint64_t number = in.integer();
  std::unique_lock lock(mutex_);
  if (const auto question = questions_.extract(number); !question.empty()) {
    lock.unlock();
    return take_value(question.mapped(), status, answer.substr(head_size));
  }
  const auto asked = asked_.extract(number);
  lock.unlock();
  if (!asked.empty()) owner_.answer(asked.mapped().session, renumbered(answer, asked.mapped().request));
}

void Relay::take_value(const std::string& key, Status status, std::string_view fields) {
  std::vector<Asker> answered;
  {
    const std::lock_guard lock(mutex_);
    Awaited& awaited = awaited_.at(key);
    // A question that has expired is asked again for all who still wait.
    if (status != Status::expired) answered.swap(awaited.asked);
    awaited.asked.insert(awaited.asked.end(), awaited.later.begin(), awaited.later.end());
    awaited.later.clear();
    if (awaited.asked.empty()) awaited_.erase(key);
    else ask_for(key);
  }
  changed_.notify_all();
  for (const Asker& asker : answered) {
    std::string frame = Writer(status, asker.request).finish();
    owner_.answer(asker.session, with_fields(std::move(frame), fields));
  }
}

void relay_to(StoreServer& server, std::shared_ptr<Client> other) {
  server.forward_by([&other](Forwarder::Owner owner) { return std::make_unique<Relay>(std::move(other), std::move(owner)); });
}

}  // namespace unisono::store
