// The start of a job: how often the store is asked, how many bytes leave it, how many connections each rank makes. The store's server is one thread,
// so its requests follow each other; what a rank asks for one after the other takes a round trip each. A phase ends for all ranks together.
#include "simulate/startup.h"

#include <algorithm>
#include <cmath>

namespace unisono::simulate {
namespace {

constexpr double us_in_s = 1e6, ns_in_us = 1000;
// Requests of a rank that are no more with more ranks (rendezvous/join.cpp, context/engines.cpp, coordination/host_ranks.cpp).
constexpr double requests_to_join = 6, requests_about_engines = 2, requests_on_host = 8;
constexpr double requests_about_parent = 5;  // an address is set, waited for and read, the secret and the encryption are read
constexpr double keys_of_request = 1000;     // store/client.cpp
// Of a launcher: to join as a rank does; its number of ranks is written, and those of all are waited for (launch/hosts/node_exchange.cpp).
constexpr double requests_of_launcher = requests_to_join + 2;
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
    const bool by_store = design_ != Design::tree_join;
    if (by_store && hosts_ > 1) result_.phases.push_back(join_launchers());
    result_.phases.push_back(by_store ? join_by_store() : join_by_tree());
    result_.phases.push_back(exchange_on_hosts());
    if (by_store) result_.phases.push_back(agree_on_engines());
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
  double bytes_of_store(double bytes) {
    result_.store_bytes += bytes;
    return bytes / port();
  }
  /// Every rank looks for the host of each member among those that it knows.
  double find_hosts() const { return ranks_ * hosts_ * costs_.compare_ns / ns_in_us; }

  // The launchers join as ranks do. Then the first of them waits for the numbers of ranks, reads them together, and writes the list that all read.
  Phase join_launchers() {
    const double reads = std::ceil(hosts_ / keys_of_request);
    return Sum()
        .add(hosts_ * costs_.accept_us, "the store's connections")
        .add(requests(hosts_ * requests_of_launcher), "requests to the store")
        .add(requests(2 * reads + 1) + 2 * reads * trip_us_ + 4 * hosts_ * costs_.key_us, "those that read every launcher's record")
        .add(bytes_of_store(hosts_ * hosts_ * (costs_.listed_bytes + costs_.listed_host_bytes + costs_.count_bytes)), "the lists of launchers")
        .add(hosts_ * costs_.parse_us, "reading the list")
        .phase("launchers");
  }

  // The process that completes the job reads all seats, many in each request; then everybody reads the list of all.
  Phase join_by_store() {
    return Sum()
        .add(ranks_ * costs_.accept_us, "the store's connections")
        .add(requests(ranks_ * requests_to_join), "requests to the store")
        .add(requests(seat_requests()) + seat_requests() * trip_us_ + ranks_ * costs_.key_us + bytes_of_store(ranks_ * costs_.record_bytes),
             "the last rank, which reads every seat")
        .add(bytes_of_store(ranks_ * (ranks_ * costs_.listed_bytes + hosts_ * costs_.listed_host_bytes)), "the list of members, once for each rank")
        .add(ranks_ * costs_.parse_us, "reading the list")
        .add(find_hosts(), "comparing the names of hosts")
        .phase("join");
  }

  double seat_requests() const { return std::ceil(ranks_ / keys_of_request); }

  // A host's first rank sends what its ranks say in one request, which tells it its parent; the list comes down the tree.
  Phase join_by_tree() {
    const double depth = depth_of(hosts_);
    const double list = hosts_ * costs_.record_bytes + ranks_ * 8;
    const double children = std::min<double>(costs_.fan_out, hosts_ - 1);
    return Sum()
        .add(hosts_ * costs_.accept_us, "the store's connections")
        .add(requests(hosts_) + bytes_of_store(hosts_ * costs_.record_bytes + children * list), "requests to the store")
        .add(children * costs_.connect_us + trips_of_connection * trip_us_, "the tree's connections")
        .add(depth * (trip_us_ / 2 + children * list / port()), "the list of members, down the tree")
        .add(hosts_ * costs_.parse_us, "reading the list")
        .phase("join");
  }

  Phase exchange_on_hosts() {
    if (per_host_ < 2) return {"host exchange", 0, "one rank on each host"};
    if (design_ != Design::tree_join) return Sum().add(requests(ranks_ * requests_on_host), "requests to the store").phase("host exchange");
    return Sum().add(per_host_ * (local_trip_us_ + costs_.request_us), "the host's first rank").phase("host exchange");
  }

  Phase agree_on_engines() {
    return Sum()
        .add(requests(ranks_ * requests_about_engines), "requests to the store")
        .add(requests(ranks_) + ranks_ * local_trip_us_, "rank 0, which reads every rank's answer")
        .phase("choice of engines");
  }

  // Each rank asks the store for the secret and its parent's address, and connects with it; addresses go up the tree and the list of all comes down.
  Phase learn_addresses_by_tree() {
    const double depth = depth_of(hosts_) + depth_of(per_host_), list = ranks_ * costs_.address_bytes;
    Sum sum;
    if (design_ == Design::present) sum.add(requests(ranks_ * requests_about_parent), "requests to the store");
    return sum.add(neighbours() * costs_.connect_us + trips_of_connection * trip_us_, "the tree's connections")
        .add(2 * depth * trip_us_ / 2 + (depth + 1) * costs_.fan_out * list / port(), "the list of addresses, up and down the tree")
        .add(2 * ranks_ * costs_.parse_us, "reading the list")
        .phase("addresses");
  }

  Phase learn_addresses_by_store() {
    const double asked = ranks_ * others() / 2;  // the lower rank of each pair connects
    const double server = requests(3 * ranks_ + asked) + ranks_ * ranks_ * costs_.key_us + bytes_of_store(ranks_ * ranks_ * costs_.key_bytes);
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
