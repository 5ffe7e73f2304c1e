#include "store/etcd_writer.h"

#include <fmt/format.h>

#include "unisono/error.h"

namespace unisono::store::etcd {

using base::Deadline;
using Kind = Failure::Kind;

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
