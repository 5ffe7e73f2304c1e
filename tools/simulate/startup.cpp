// The start of a job: how often the store is asked, how many bytes leave it, how many connections each rank makes. The store's server is one thread,
// so its requests follow each other; what a rank asks for one after the other takes a round trip each. A host's launcher that hands its ranks'
// requests on is another such thread; those of all hosts work at the same time. A phase ends for all ranks together.
#include "simulate/startup.h"

#include <algorithm>
#include <cmath>

namespace unisono::simulate {
namespace {

constexpr double us_in_s = 1e6;
// Requests of a rank that are no more with more ranks (rendezvous/join.cpp, context/engines.cpp, coordination/host_ranks.cpp).
// Those that are the same for all ranks (the verdicts, the secret, the encryption) a launcher asks for twice at most.
struct Requests {
  double own = 0, shared = 0;
  constexpr double all() const { return own + shared; }
};
constexpr Requests to_join{5, 1}, about_engines{1, 1};
constexpr Requests about_parent{2, 2};  // an address is set and read, the secret and the encryption are read
constexpr double requests_on_host = 8, questions_of_relay = 2;
constexpr double requests_of_connection = 2;  // by a rank of its launcher: a greeting, and to hand its requests on
constexpr double keys_of_request = 1000;      // store/client.cpp
// Of a launcher: to join as a rank does; its number of ranks is written, and those of all are waited for (launch/hosts/node_exchange.cpp).
constexpr double requests_of_launcher = to_join.all() + 2;
constexpr double trips_of_connection = 3;  // for the connection, for greeting and challenge, and for the proofs

/// A phase as the sum of parts, of which it names the largest.
class Sum {
 public:
  Sum& add(double us, std::string_view part) {
    us_ += us;
    if (us > largest_) {
      largest_ = us;
      part_ = part;
    }
    return *this;
  }
  Phase phase(std::string_view name) const { return {name, us_ / us_in_s, part_}; }

 private:
  double us_ = 0, largest_ = 0;
  std::string_view part_;
};

class Start {
 public:
  Start(const Call& call, const Parameters& parameters, const StartupCosts& costs, Design design, const Outcome& barrier)
      : parameters_(parameters),
        costs_(costs),
        design_(design),
        barrier_(barrier),
        ranks_(call.ranks),
        hosts_(call.hosts()),
        per_host_(call.ranks_per_host),
        trip_us_(2 * (parameters.network.latency_us + 2 * parameters.network.overhead_us)),
        local_trip_us_(2 * (parameters.host.latency_us + 2 * parameters.host.overhead_us)) {}

  Startup all() {
    if (is_launched() && hosts_ > 1) result_.phases.push_back(join_launchers());
    result_.phases.push_back(join());
    result_.phases.push_back(exchange_on_hosts());
    result_.phases.push_back(agree_on_engines());
    result_.phases.push_back(is_eager() ? learn_addresses_by_store() : learn_addresses_by_tree());
    result_.phases.push_back(connect());
    result_.phases.push_back({"first barrier", barrier_.us / us_in_s, "its rounds"});
    result_.memory_bytes = costs_.memory_bytes(result_.connections, ranks_);
    result_.heartbeats = result_.connections / costs_.heartbeat_period_s;
    result_.heartbeat_work = costs_.heartbeat_work(result_.heartbeats);
    return result_;
  }

 private:
  double others() const { return ranks_ - per_host_; }
  bool is_launched() const { return design_ != Design::by_rank; }
  /// Tells whether the launchers of the hosts hand their ranks' requests on.
  bool is_relayed() const { return is_launched() && hosts_ > 1; }
  bool is_eager() const { return design_ == Design::eager || others() <= costs_.most_eager; }
  /// The neighbours in the watch tree of a rank that has as many as a rank can have: of the hosts, of its own host, and its parent.
  double neighbours() const {
    return std::min<double>(costs_.fan_out, hosts_ - 1) + std::min<double>(costs_.fan_out, per_host_ - 1) + (hosts_ > 1 ? 1 : 0);
  }
  double depth_of(double nodes) const { return nodes > 1 ? std::ceil(std::log(nodes) / std::log(costs_.fan_out)) : 0; }
  double port() const { return parameters_.bytes_per_us(); }
  double requests(double count) {
    result_.requests += count;
    return count * costs_.request_us;
  }
  /// Of every rank.
  void add_requests(Sum& sum, Requests of_rank) {
    if (!is_relayed()) {
      sum.add(requests(ranks_ * of_rank.all()), "requests to the store");
      return;
    }
    const double handed_on = ranks_ * of_rank.own + hosts_ * questions_of_relay * of_rank.shared;
    result_.requests += handed_on;
    sum.add(handed_on * costs_.relay.store_us, "requests to the store")
        .add(costs_.relay.us_of_launcher(per_host_ * of_rank.all(), 0) + of_rank.all() * trip_us_, "a launcher, which hands its ranks' requests on");
  }
  double bytes_of_store(double bytes) {
    result_.store_bytes += bytes;
    return bytes / port();
  }
  // The launchers join as ranks do. Then the first of them waits for the numbers of ranks, reads them together, and writes the list that all read.
  // Each makes another connection for what its ranks ask.
  Phase join_launchers() {
    const double reads = std::ceil(hosts_ / keys_of_request);
    return Sum()
        .add(2 * hosts_ * costs_.accept_us, "the store's connections")
        .add(requests(hosts_ * requests_of_launcher), "requests to the store")
        .add(requests(2 * reads + 1) + 2 * reads * trip_us_ + 4 * hosts_ * costs_.key_us, "those that read every launcher's record")
        .add(bytes_of_store(hosts_ * hosts_ * (costs_.listed_bytes + costs_.listed_host_bytes + costs_.count_bytes)), "the lists of launchers")
        .add(hosts_ * costs_.parse_us, "reading the list")
        .phase("launchers");
  }

  // The process that completes the job reads all seats, many in each request; then everybody reads the list of all. A launcher asks for the list when
  // its first rank does, and once more for those that came later.
  Phase join() {
    const double list = ranks_ * costs_.listed_bytes + hosts_ * costs_.listed_host_bytes;
    Sum sum;
    if (is_relayed()) sum.add(costs_.relay.us_of_launcher(per_host_ * requests_of_connection, 0), "a launcher's connections");
    else sum.add(ranks_ * costs_.accept_us, "the store's connections");
    add_requests(sum, to_join);
    sum.add(requests(seat_requests()) + seat_requests() * trip_us_ + ranks_ * costs_.key_us + bytes_of_store(ranks_ * costs_.record_bytes),
            "the last rank, which reads every seat");
    if (is_relayed()) {
      sum.add(bytes_of_store(questions_of_relay * hosts_ * list), "the list of members, twice for each host")
          .add(costs_.relay.us_of_launcher(0, per_host_ * list), "a launcher, which hands the list on to its ranks");
    } else {
      sum.add(bytes_of_store(ranks_ * list), "the list of members, once for each rank");
    }
    return sum.add(ranks_ * costs_.parse_us, "reading the list").phase("join");
  }

  double seat_requests() const { return std::ceil(ranks_ / keys_of_request); }

  // The ranks of a host meet through their launcher's store, those without one through that of rank 0.
  Phase exchange_on_hosts() {
    if (per_host_ < 2) return {"host exchange", 0, "one rank on each host"};
    if (!is_relayed()) return Sum().add(requests(ranks_ * requests_on_host), "requests to the store").phase("host exchange");
    return Sum()
        .add(per_host_ * requests_on_host * costs_.request_us + requests_on_host * local_trip_us_, "requests to a launcher's store")
        .phase("host exchange");
  }

  Phase agree_on_engines() {
    Sum sum;
    add_requests(sum, about_engines);
    return sum
        .add(requests(1 + seat_requests()) + (1 + seat_requests()) * trip_us_ + 2 * ranks_ * costs_.key_us, "rank 0, which reads every rank's answer")
        .phase("choice of engines");
  }

  // Each rank asks the store for the secret and its parent's address, and connects with it; addresses go up the tree and the list of all comes down.
  Phase learn_addresses_by_tree() {
    const double depth = depth_of(hosts_) + depth_of(per_host_), list = ranks_ * costs_.address_bytes;
    Sum sum;
    add_requests(sum, about_parent);
    return sum.add(neighbours() * costs_.connect_us + trips_of_connection * trip_us_, "the tree's connections")
        .add(2 * depth * trip_us_ / 2 + (depth + 1) * costs_.fan_out * list / port(), "the list of addresses, up and down the tree")
        .add(2 * ranks_ * costs_.parse_us, "reading the list")
        .phase("addresses");
  }

  Phase learn_addresses_by_store() {
    const double asked = ranks_ * others() / 2;  // the lower rank of each pair connects
    result_.requests += 3 * ranks_ + asked;
    const double server = (3 * ranks_ + asked) * (is_relayed() ? costs_.relay.store_us : costs_.request_us) + ranks_ * ranks_ * costs_.key_us +
                          bytes_of_store(ranks_ * ranks_ * costs_.key_bytes);
    const double one_rank = others() * trip_us_;
    return server > one_rank ? Sum().add(server, "requests to the store").phase("addresses")
                             : Sum().add(one_rank, "rank 0, which asks for every address").phase("addresses");
  }

  Phase connect() {
    if (is_eager()) {
      result_.connections = others();
      return Sum()
          .add(others() * costs_.connect_us + trips_of_connection * trip_us_, "a rank's work for its connections")
          .add(others() * others() * costs_.attempt_us, "a rank's looks at all of its attempts")
          .phase("connections");
    }
    const double used = barrier_.connections;
    result_.connections = used + neighbours();
    return Sum()
        .add(used * costs_.connect_us, "a rank's work for its connections")
        .add(barrier_.rounds * trips_of_connection * trip_us_, "round trips of each round's first messages")
        .phase("connections");
  }

  const Parameters& parameters_;
  const StartupCosts& costs_;
  const Design design_;
  const Outcome& barrier_;
  const double ranks_, hosts_, per_host_, trip_us_, local_trip_us_;
  Startup result_;
};

}  // namespace

double Startup::seconds() const {
  double sum = 0;
  for (const Phase& phase : phases) sum += phase.seconds;
  return sum;
}

Startup start_up(const Call& call, const Parameters& parameters, const StartupCosts& costs, Design design, const Outcome& barrier) {
  return Start(call, parameters, costs, design, barrier).all();
}

}  // namespace unisono::simulate
