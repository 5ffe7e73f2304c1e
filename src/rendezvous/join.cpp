#include "rendezvous/join.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "store/requests.h"
#include "store/wire.h"
#include "unisono/error.h"

namespace unisono::rendezvous {

Seat Seats::with(std::string key, const std::optional<std::string>& text) const {
  Seat seat{std::move(key), {}};
  if (!text) return seat;
  seat.left = *text == left_mark;
  if (seat.left) return seat;
  seat.record = decode(*text);
  seat.alive = !request_.is_alive || seat.record->nonce == request_.self.nonce || request_.is_alive(*seat.record);
  return seat;
}

Seat Seats::of_rank(int rank) {
  std::string key = key_of(prefix_, rank);
  const auto text = store_.try_get(key);
  return with(std::move(key), text);
}

std::vector<Seat> Seats::all() {
  // Another size may have been agreed on. Its seats count as well in the search for living processes.
  int size = request_.world_size;
  if (const auto world = store_.try_get(prefix_ + "world")) size = std::max(size, std::atoi(world->c_str()));
  const auto open = std::atoll(store_.try_get(prefix_ + "autos").value_or("0").c_str());
  std::vector<std::string> keys;
  for (int r = 0; r < size; ++r) keys.push_back(key_of(prefix_, r));
  for (std::int64_t k = 0; k < open; ++k) keys.push_back(fmt::format("{}auto/{}", prefix_, k));
  const auto texts = store::try_get_all(store_, keys);
  std::vector<Seat> all;
  for (std::size_t i = 0; i < keys.size(); ++i) all.push_back(with(std::move(keys[i]), texts[i]));
  return all;
}

bool Seats::are_deserted() {
  const auto seats = all();
  const auto taken = std::ranges::count_if(seats, [](const Seat& seat) { return seat.record || seat.left; });
  return taken > 0 && std::ranges::none_of(seats, &Seat::alive);
}

std::vector<std::optional<Record>> Seats::assign() {
  std::vector<std::optional<Record>> by_rank(static_cast<std::size_t>(request_.world_size));
  for (Seat& seat : all()) {
    if (!seat.alive) continue;
    const int rank = seat.record->member.rank;
    auto place = by_rank.begin();
    if (rank >= 0) {
      place += std::min(rank, request_.world_size);
    } else {
      place = std::ranges::find_if(by_rank, [](const auto& taken) { return !taken; });
    }
    if (place == by_rank.end()) continue;
    seat.record->member.rank = static_cast<int>(place - by_rank.begin());
    *place = std::move(seat.record);
  }
  return by_rank;
}

namespace {

constexpr std::string_view ok = "ok\n";  ///< begins the verdict with which a job is complete; the list of members follows
// Texts about the ranks that are present end behind this many bytes.
constexpr std::size_t enough_of_latecomers_text = 200, enough_of_timeout_text = 400;

std::string prefix_of(const JoinRequest& request, int generation) { return fmt::format("unisono/rendezvous/{}/{}/", request.group_name, generation); }

/// A generation of a group, from the view of one process.
class Generation {
 public:
  /// `moved`: this process has taken part in an earlier one, which was abandoned.
  Generation(Store& store, const JoinRequest& request, const base::Deadline& deadline, int number, bool moved)
      : store_(store),
        request_(request),
        deadline_(deadline),
        number_(number),
        moved_(moved),
        prefix_(prefix_of(request, number)),
        mine_(encode(request.self)),
        seats_(store, request, prefix_) {}

  /// Enters the generation. Empty: it is over, and the next one is to be tried.
  std::optional<Joined> enter() {
    try {
      if (!agree_to_enter()) return std::nullopt;
    } catch (const PeerFailed&) {
      // The server left before this process took part: it belonged to a job that was over. A later job may serve another one.
      if (request_.most_generations != 1) throw;
      return std::nullopt;
    }
    if (!take_seat()) return std::nullopt;
    moved_ = true;
    return await();
  }
  /// Returns true where this process has taken part in this generation or an earlier one.
  bool moved() const { return moved_; }

 private:
  std::string key(std::string_view name) const { return prefix_ + std::string(name); }
  std::string own_place() const {
    const Member& self = request_.self.member;
    return self.rank < 0 ? where(self) : fmt::format("{} {} at {}", request_.who, self.rank, where(self));
  }
  /// Writes a verdict. Returns the first one, which may be another process's.
  std::string say(const std::string& verdict) {
    std::string first = store_.compare_set(key("done"), "", verdict);
    if (request_.store_outlives_processes) store_.compare_set(key("list"), "", "none");  // for processes that wait for a list
    return first;
  }

  /// Returns false where this generation is over.
  bool agree_to_enter() {
    for (;;) {
      if (const auto verdict = store_.try_get(key("done"))) {
        if (is_over(*verdict)) return false;
        refuse_latecomer(*verdict);
      }
      if (!request_.is_alive || !seats_.are_deserted()) break;
      if (say("abandoned") == "abandoned") return false;
    }
    const std::string_view with = request_.library.empty() ? "" : " with ";
    agree("version", fmt::format("{}{}{}\t{}", store::describe_own_version(), with, request_.library, own_place()), "version");
    // Seats of another size may be left from an earlier run. If those processes live, they and this one meet again in the next generation.
    const std::string size = std::to_string(request_.world_size);
    const auto theirs = request_.store_outlives_processes && !moved_ ? store_.try_get(key("world")) : std::nullopt;
    if (theirs && split(*theirs, '\t').front() != size && abandon()) return false;
    agree("world", fmt::format("{}\t{}", size, own_place()), "mismatch");
    return true;
  }

  bool abandon() {
    moved_ = true;
    return say("abandoned") == "abandoned";
  }

  bool is_over(std::string_view verdict) {
    if (verdict.starts_with("timeout") || verdict.starts_with("abandoned")) return true;
    if (request_.store_outlives_processes && verdict.starts_with("ok")) return true;
    const auto all = seats_.all();
    if (std::ranges::none_of(all, &Seat::alive)) return true;
    if (!verdict.starts_with("ok")) return false;
    if (request_.self.member.rank < 0) return std::ranges::any_of(all, &Seat::left);
    return seats_.of_rank(request_.self.member.rank).left;
  }

  /// Refuses this process: the job is complete, or has failed for good, without it.
  [[noreturn]] void refuse_latecomer(const std::string& verdict) {
    if (!verdict.starts_with("ok")) conclude(verdict);
    const int rank = request_.self.member.rank;
    if (rank >= 0) {
      const Seat seat = seats_.of_rank(rank);
      if (seat.alive) refuse_duplicate(*seat.record);
    }
    std::string there;
    for (const Seat& seat : seats_.all()) {
      if (seat.alive && there.size() < enough_of_latecomers_text) there += fmt::format("{}{}", there.empty() ? "" : ", ", where(seat.record->member));
    }
    throw InvalidArgument(fmt::format("the job is complete and still runs ({}); {} is one too many", there, own_place()), info());
  }

  [[noreturn]] void refuse_duplicate(const Record& holder) const {
    throw InvalidArgument(fmt::format("{} {} is taken by {}; this process, {}, is the second one", request_.who, request_.self.member.rank,
                                      where(holder.member), where(request_.self.member)),
                          info(fmt::format("every process needs a {} of its own: was one started twice?", request_.who)));
  }

  /// Compares a value that must be equal on all processes (up to the tab). A process that differs ends the job for all.
  void agree(std::string_view name, const std::string& ours, std::string_view verdict) {
    const std::string first = store_.compare_set(key(name), "", ours);
    const auto theirs = split(first, '\t');
    if (theirs.front() == split(ours, '\t').front()) return;
    const std::string text =
        fmt::format("{}\t{} says {}, {} says {}", verdict, theirs.back(), theirs.front(), own_place(), split(ours, '\t').front());
    const std::string standing = say(text);
    conclude(standing.starts_with("ok") ? text : standing);
  }

  /// Takes a seat. Returns false where another process had it and the generation is over.
  bool take_seat() {
    bool fresh = true;
    if (const int rank = request_.self.member.rank; rank >= 0) {
      seat_ = Seats::key_of(prefix_, rank);
      std::string holder = store_.compare_set(seat_, "", mine_);
      while (holder != mine_) {
        const Record record = decode(holder);
        if (request_.store_outlives_processes && !moved_ && request_.is_over(record)) {
          abandon();
          return false;
        }
        if (!request_.is_alive || request_.is_alive(record)) refuse_duplicate(record);
        fresh = false;
        holder = store_.compare_set(seat_, holder, mine_);
      }
    } else {
      fresh = !take_dead_seat();
      if (fresh) {
        seat_ = key(fmt::format("auto/{}", store_.add(key("autos"), 1) - 1));
        store_.set(seat_, mine_);
      }
    }
    const std::int64_t joined = store_.add(key("joined"), fresh ? 1 : 0);
    if (fresh && joined > request_.world_size) {
      store_.set(seat_, left_mark);
      throw InvalidArgument(
          fmt::format("the job has {} {}s, and they have all come; {} is one too many", request_.world_size, request_.who, own_place()), info());
    }
    if (joined >= request_.world_size) complete();
    return true;
  }

  bool take_dead_seat() {
    if (!request_.is_alive) return false;
    for (const Seat& seat : seats_.all()) {
      if (!seat.record || seat.alive || seat.record->member.rank >= 0) continue;
      if (store_.compare_set(seat.key, encode(*seat.record), mine_) != mine_) continue;
      seat_ = seat.key;
      return true;
    }
    return false;
  }

  void complete() {
    std::vector<Record> records;
    for (auto& record : seats_.assign()) {
      if (!record) return;  // the owner of a seat has died; the process that takes it completes the job
      records.push_back(std::move(*record));
    }
    const std::string verdict = std::string(ok) + MemberList::encode(records);
    if (request_.store_outlives_processes) store_.compare_set(key("list"), "", verdict);
    else say(verdict);
  }

  static MemberList list_in(std::string_view verdict) { return MemberList(verdict.substr(std::min(ok.size(), verdict.size()))); }

  /// Confirms a list of seats, some of which may belong to dead processes: all processes in the list must confirm it.
  void answer_the_call() {
    const std::string list = store_.get(key("list"), deadline_.left());
    if (list == "none" || list_in(list).rank_of(request_.self) < 0) return;
    if (store_.add(key("present"), 1) == request_.world_size) say(list);
  }

  std::optional<Joined> await() {
    std::string verdict;
    try {
      if (request_.store_outlives_processes) answer_the_call();
      verdict = store_.get(key("done"), deadline_.left());
    } catch (const Timeout&) {
      verdict = give_up();
    } catch (const PeerFailed&) {
      // A process writes the verdict before it ends, so the verdict may have come just before its end was seen. Whoever forms the group of a complete
      // job looks at the ends again. This comparison changes nothing, and reads what a watched store's try_get may throw instead of.
      verdict = store_.compare_set(key("done"), "nobody", "nobody");
      if (verdict.empty()) throw;
    }
    if (verdict == "abandoned") return std::nullopt;
    if (!verdict.starts_with("ok")) conclude(verdict);
    MemberList list = list_in(verdict);
    Joined joined{list.rank_of(request_.self), list.take_members(), prefix_, seat_, number_, prefix_of(request_, number_ + 1) + "version"};
    if (joined.rank < 0) throw ProtocolError("the job was completed without this process", info());
    return joined;
  }

  std::string give_up() {
    try {
      const auto by_rank = seats_.assign();
      std::vector<int> missing;
      std::string there;
      for (std::size_t r = 0; r < by_rank.size(); ++r) {
        if (!by_rank[r]) missing.push_back(static_cast<int>(r));
        if (by_rank[r] && there.size() < enough_of_timeout_text)
          there += fmt::format("{}{} at {}", there.empty() ? "" : ", ", r, where(by_rank[r]->member));
      }
      return say(fmt::format("timeout\t{} of {} {}s joined within {} ms; missing {}s {} (here: {})\t{}", by_rank.size() - missing.size(),
                             by_rank.size(), request_.who, deadline_.timeout().count(), request_.who, list(missing), there, fmt::join(missing, " ")));
    } catch (const PeerFailed& error) {
      return fmt::format("timeout\tnot all of {} {}s joined within {} ms, and {}\t", request_.world_size, request_.who, deadline_.timeout().count(),
                         error.message());
    }
  }

  [[noreturn]] void conclude(std::string_view verdict) const {
    const auto fields = split(verdict, '\t');
    const std::string text(fields.size() > 1 ? fields[1] : verdict);
    if (fields[0] == "version") {
      const std::string_view also = request_.library.empty() ? "" : ", or of the library that uses it";
      throw ProtocolError(fmt::format("the {}s have different versions of unisono{}: {}", request_.who, also, text), info());
    }
    if (fields[0] == "mismatch")
      throw Mismatch(fmt::format("the {}s disagree about the {}: {}", request_.who, request_.size, text),
                     info(fmt::format("{} must be the same on every {}", request_.size_option, request_.who)));
    if (fields[0] != "timeout") throw ProtocolError("the store holds a malformed verdict", info());
    std::vector<int> missing;
    if (fields.size() > 2 && !fields[2].empty()) {
      for (const std::string_view rank : split(fields[2], ' ')) missing.push_back(std::atoi(std::string(rank).c_str()));
    }
    throw Timeout(text, info(request_.hint_where_missing), std::move(missing));
  }

  Store& store_;
  const JoinRequest& request_;
  const base::Deadline& deadline_;
  const int number_;
  bool moved_;
  const std::string prefix_, mine_;
  Seats seats_;
  std::string seat_;
};

}  // namespace

std::vector<int> missing_ranks(Store& store, const JoinRequest& request) {
  std::vector<int> missing;
  std::vector<std::string> keys;
  for (int rank = 0; rank < request.world_size; ++rank) keys.push_back(Seats::key_of(prefix_of(request, 1), rank));
  const auto seats = store::try_get_all(store, keys);
  for (int rank = 0; rank < request.world_size; ++rank) {
    if (!seats[static_cast<std::size_t>(rank)]) missing.push_back(rank);
  }
  return missing;
}

std::optional<Joined> join(Store& store, const JoinRequest& request, const base::Deadline& deadline) {
  bool moved = false;
  for (int number = 1; request.most_generations == 0 || number <= request.most_generations; ++number) {
    Generation generation(store, request, deadline, number, moved);
    if (auto joined = generation.enter()) return joined;
    moved = generation.moved();
  }
  return std::nullopt;
}

}  // namespace unisono::rendezvous
