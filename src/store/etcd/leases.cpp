#include <unistd.h>

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/host.h"
#include "base/log.h"
#include "base/printable.h"
#include "store/authentication.h"
#include "store/etcd/keys.h"
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
      const auto lease = base::whole_number<std::int64_t>(text);
      if (!lease) throw ProtocolError(fmt::format("{} holds \"l\" that is not a lease", client_.name()));
      all_ = *lease;
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

/// The use of a mark by one thread.
class Writer::Turn {
 public:
  explicit Turn(Writer& writer) : writer_(writer) {
    const std::lock_guard lock(writer.mutex_);
    if (writer.marks_.empty()) {
      mark.key = fmt::format("{}/o/{:015x}/{}", writer.client_.location().prefix, writer.leases_.number(), writer.made_++);
    } else {
      mark = std::move(writer.marks_.back());
      writer.marks_.pop_back();
    }
    ++mark.number;
  }
  ~Turn() {
    const std::lock_guard lock(writer_.mutex_);
    writer_.marks_.push_back(std::move(mark));
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  Mark mark;

 private:
  Writer& writer_;
};

Writer::Writer(Client& client, Leases& leases) : client_(client), leases_(leases) {}

Writer::Outcome Writer::write(Transaction change, const Deadline& deadline) {
  Turn turn(*this);
  return attempt(turn.mark, change, deadline);
}

/// Reads the mark in an answer. Returns true where it is that of this change.
bool Writer::has_applied(Mark& mark, const Answer& answer, std::size_t at) const {
  const auto& values = answer.results.at(at).values;
  mark.revision = values.empty() ? 0 : values.front().mod_revision;
  return !values.empty() && values.front().value == std::to_string(mark.number);
}

Writer::Outcome Writer::attempt(Mark& mark, const Transaction& change, const Deadline& deadline) {
  bool was_doubtful = false;
  for (;;) {
    // The mark comes last, so that the results of the change are the first ones.
    Transaction marked = change;
    marked.conditions.push_back({.key = mark.key, .revision = mark.revision});
    for (Operation& operation : marked.then) operation.lease = operation.kind == Operation::Kind::put ? leases_.of_all() : 0;
    marked.then.push_back({.kind = Operation::Kind::put, .key = mark.key, .value = std::to_string(mark.number), .lease = leases_.of_process()});
    marked.otherwise.push_back({.kind = Operation::Kind::get, .key = mark.key});
    Answer answer;
    const Client::Outcome outcome = client_.transact(marked, answer, deadline);
    was_doubtful = was_doubtful || outcome.was_doubtful;
    if (outcome.kind == Kind::lease_gone) {
      leases_.renew(deadline);
      continue;
    }
    if (answer.succeeded) {
      mark.revision = answer.revision;
      answer.results.pop_back();
      return {true, std::move(answer.results)};
    }
    const std::int64_t before = mark.revision;
    if (has_applied(mark, answer, change.otherwise.size())) return {true, {}};
    if (mark.revision != before) continue;
    answer.results.pop_back();
    if (!was_doubtful) return {false, std::move(answer.results)};
    // An earlier request may be under way still. With another mark it can change nothing any more.
    const Transaction fence{.conditions = {{.key = mark.key, .revision = mark.revision}},
                            .then = {{.kind = Operation::Kind::put, .key = mark.key, .value = "fence", .lease = leases_.of_process()}},
                            .otherwise = {{.kind = Operation::Kind::get, .key = mark.key}}};
    Answer fenced;
    if (client_.transact(fence, fenced, deadline).kind == Kind::lease_gone) {
      leases_.renew(deadline);
      continue;
    }
    if (!fenced.succeeded && has_applied(mark, fenced, 0)) return {true, {}};
    if (fenced.succeeded) mark.revision = fenced.revision;
    return {false, std::move(answer.results)};
  }
}

}  // namespace unisono::store::etcd
