#include "store/etcd_leases.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/host.h"
#include "base/log.h"
#include "store/authentication.h"
#include "unisono/error.h"

namespace unisono::store::etcd {

using base::Deadline;
using Kind = Failure::Kind;
using namespace std::chrono_literals;

namespace {

/// The keys of a job whose processes have all died are kept for so long.
constexpr auto time_of_all = 600s;
constexpr int renewals = 3;  ///< within the life of a lease

std::int64_t fresh_number() {
  constexpr std::size_t digits = 15;  // hexadecimal: a positive number
  const std::string name = fresh_name();
  std::int64_t number = 0;
  std::from_chars(name.data(), name.data() + digits, number, 16);
  return number;
}

Operation get(std::string key) { return {.kind = Operation::Kind::get, .key = std::move(key)}; }

}  // namespace

std::string Leases::presence_key(const std::string& prefix, std::int64_t number) { return fmt::format("{}/p/{:015x}", prefix, number); }

Leases::Leases(Client& client, const Deadline& deadline) : client_(client), number_(fresh_number()) {
  announce(deadline);
  find_lease_of_all(deadline);
  thread_ = base::Thread("the signs of life in etcd", [this] { keep_alive(); });
}

Leases::~Leases() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_all();
  thread_.join();
}

void Leases::announce(const Deadline& deadline) {
  for (;;) {
    const std::int64_t lease = client_.grant(client_.location().time_to_live, deadline);
    const Transaction present{.then = {{.kind = Operation::Kind::put,
                                        .key = presence_key(client_.location().prefix, number_),
                                        .value = fmt::format("{}:{}", base::host_name(), ::getpid()),
                                        .lease = lease}}};
    Answer answer;
    process_ = lease;
    if (client_.transact(present, answer, deadline).kind != Kind::lease_gone) return;
  }
}

/// Takes the lease that the first process has made, or makes it.
void Leases::find_lease_of_all(const Deadline& deadline) {
  const std::string key = client_.location().prefix + "/l";
  for (;;) {
    Answer answer;
    client_.transact({.then = {get(key)}}, answer, deadline);
    if (!answer.results.front().values.empty()) {
      const std::string& text = answer.results.front().values.front().value;
      std::int64_t lease = 0;
      const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), lease);
      if (error != std::errc() || stop != text.data() + text.size())
        throw ProtocolError(fmt::format("{} holds \"l\" that is no lease", client_.name()));
      all_ = lease;
      return;
    }
    const std::int64_t lease = client_.grant(time_of_all, deadline);
    Transaction first{.conditions = {{.key = key}},
                      .then = {{.kind = Operation::Kind::put, .key = key, .value = std::to_string(lease), .lease = lease}}};
    client_.transact(first, answer, deadline);  // whether it was this one's or another's is read next
    if (!answer.succeeded) client_.revoke(lease, deadline);
  }
}

void Leases::renew(const Deadline& deadline) {
  const std::lock_guard lock(renewing_);
  if (!client_.keep_alive(process_, deadline)) announce(deadline);
  if (!client_.keep_alive(all_, deadline)) find_lease_of_all(deadline);
}

void Leases::keep_alive() {
  bool is_known = false;                                                                      // that etcd does not answer
  const auto period = std::chrono::milliseconds(client_.location().time_to_live) / renewals;  // of 2 s, too, it is a part
  for (std::unique_lock lock(mutex_);;) {
    stopping_.wait_for(lock, period, [&] { return stop_; });
    if (stop_) return;
    lock.unlock();
    try {
      renew(Deadline(period));
      if (is_known) base::info(fmt::format("{} answers again", client_.name()));
      is_known = false;
    } catch (const std::exception& error) {
      // Running calls need no store. Whoever uses it next is told.
      if (!is_known) base::debug(fmt::format("no sign of life can be given: {}", error.what()));
      is_known = true;
    }
    lock.lock();
  }
}

void Leases::leave(const Deadline& deadline) {
  const std::string& prefix = client_.location().prefix;
  client_.revoke(process_, deadline);
  const Condition nobody{.key = prefix + "/p/", .range_end = prefix + "/p0", .field = Condition::Field::create_revision};
  const Transaction tidy{.conditions = {nobody}, .then = {{.kind = Operation::Kind::erase, .key = prefix + "/", .range_end = prefix + "0"}}};
  Answer answer;
  client_.transact(tidy, answer, deadline);
  if (answer.succeeded) client_.revoke(all_, deadline);
}

}  // namespace unisono::store::etcd
