#include "launch/hosts/open_place.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <sstream>

#include <fmt/format.h>

#include "base/host.h"
#include "launch/process/host.h"
#include "unisono/error.h"

namespace unisono::launcher {

using base::Deadline;
using rendezvous::left_mark;
using rendezvous::Record;
using rendezvous::where;
using std::chrono::milliseconds;

namespace {

/// The pause between two looks whether host 0, from which a word is awaited, still lives.
constexpr milliseconds presence_check_period{500};
/// So long a connection to host 0 may take, and the pause before the next one: no system tells of a new listener.
constexpr milliseconds connect_time{2000}, pause_of_connects{100};
constexpr const char* operation = "unisono run";
constexpr const char* fixed_key = "unisono/hosts/fixed";

std::string zero_key(int number) { return fmt::format("unisono/hosts/{}/zero", number); }
std::string address_key(int number) { return fmt::format("unisono/hosts/{}/address", number); }

/// Returns why nobody answers at the address; empty where somebody does.
std::string why_no_answer(const ToldAddress& told, const Deadline& deadline) {
  const auto address = base::resolve(told.host, static_cast<std::uint16_t>(told.port)).front();
  const auto opened = base::try_connect(address, Deadline(std::min(deadline.left(), connect_time)));
  return opened.fd ? "" : fmt::format("{}: {}", base::describe(address), base::error_text(opened.error));
}

/// Tells whether the address is loopback of another host: here it leads to this one, where something else may listen.
bool is_loopback_elsewhere(const Record& zero, const ToldAddress& told) {
  const bool is_elsewhere = base::network_of(zero.member.machine) != base::network_of(base::machine_id());
  return is_elsewhere && base::resolve(told.host, 0).front().is_loopback();
}

}  // namespace

ToldAddress decode_address(const std::string& text) {
  std::istringstream fields(text);
  ToldAddress told;
  fields >> told.host >> told.port;
  if (fields.fail() || told.port < 1 || told.port > highest_port || !base::is_numeric(told.host))
    throw ProtocolError("the launcher of host 0 told its address in no way of ours", {.operation = operation});
  return told;
}

OpenPlace::OpenPlace(std::shared_ptr<store::etcd::KeysInEtcd> store, const rendezvous::JoinRequest& request)
    : store_(std::move(store)), own_(rendezvous::encode(request.self)), who_(where(request.self.member)), is_alive_(request.is_alive) {}

/// Returns the launcher of an entry, while it lives.
std::optional<Record> OpenPlace::living(const std::string& said) const {
  if (said.empty() || said == left_mark) return std::nullopt;
  Record record = rendezvous::decode(said);
  if (said != own_ && !is_alive_(record)) return std::nullopt;
  return record;
}

/// Returns the job that is here, or the number that is free. Closes those whose host 0 is gone.
OpenPlace::Latest OpenPlace::latest() {
  for (int number = 1;; ++number) {
    const auto said = store_->try_get(zero_key(number));
    if (!said) return {number};
    if (*said == left_mark) continue;
    if (auto zero = living(*said)) return {number, std::move(zero)};
    store_->compare_set(zero_key(number), *said, left_mark);
  }
}

/// Waits for a value, and a moment at most, since who is to write it may have died.
std::optional<std::string> OpenPlace::await(const std::string& key, const Deadline& deadline) {
  try {
    return store_->get(key, std::min(deadline.left(), presence_check_period));
  } catch (const Timeout&) {
    if (deadline.passed() && store_->is_lost()) throw;  // it names etcd's endpoints
    return std::nullopt;
  }
}

std::string OpenPlace::why_unreachable() const {
  const std::lock_guard lock(mutex_);
  return unreachable_;
}

void OpenPlace::note_unreachable(const std::string& why) {
  const std::lock_guard lock(mutex_);
  unreachable_ = why;
}

OpenPlace::HostZero OpenPlace::find(Claim claim, const Deadline& deadline) {
  const std::string& url = store_->url();
  std::string missing;
  for (;;) {
    const auto [number, zero] = latest();
    if (!zero && claim != Claim::never) {
      if (store_->compare_set(zero_key(number), "", own_) != own_) continue;
      refuse_beside_fixed(zero_key(number));
      return {.is_own = true, .seat = zero_key(number), .claim = own_, .address = address_key(number)};
    }
    if (zero && claim == Claim::only_this) {
      throw InvalidArgument(
          fmt::format("host 0 of the job at {} is {}, which still runs; this launcher, {}, is the second one", url, where(zero->member), who_),
          {.operation = operation, .hint = "only one launcher is told --node-rank 0; without a number each finds its own"});
    }
    if (deadline.passed()) throw Timeout(fmt::format("{} within {} ms", missing, deadline.timeout().count()), {.operation = operation}, {});
    if (!zero) {
      note_unreachable("");
      missing = fmt::format("no launcher has come to {} that may be host 0,", url);
      await(zero_key(number), deadline);
      continue;
    }
    const std::string name = fmt::format("host 0 of the job at {}, {},", url, where(zero->member));
    missing = name + " has not told its address";
    const auto told = await(address_key(number), deadline);
    if (!told) continue;
    const ToldAddress address = decode_address(*told);
    const std::string why =
        is_loopback_elsewhere(*zero, address)
            ? fmt::format("{}:{}: it is loopback of that host, where UNISONO_INTERFACE chooses another", address.host, address.port)
            : why_no_answer(address, deadline);
    note_unreachable(why);
    if (why.empty()) return {.address = *told};
    missing = fmt::format("{} has told an address at which it cannot be reached ({})", name, why);
    ::poll(nullptr, 0, static_cast<int>(std::min(deadline.left(), pause_of_connects).count()));
  }
}

/// A job of the other kind may come at the same time: each enters itself, and then looks for the other.
void OpenPlace::refuse_beside_fixed(const std::string& seat) {
  const auto fixed = living(store_->try_get(fixed_key).value_or(""));
  if (!fixed) return;
  store_->set(seat, left_mark);
  throw InvalidArgument(fmt::format("the job at {} still runs ({}), and has a fixed number of hosts: {}, with --nnodes MIN:MAX, cannot come in",
                                    store_->url(), where(fixed->member), who_),
                        {.operation = operation});
}

void OpenPlace::take_for_fixed() {
  std::string said = store_->compare_set(fixed_key, "", own_);
  while (said != own_ && !living(said)) said = store_->compare_set(fixed_key, said, own_);
  const auto [number, zero] = latest();
  if (!zero) return;
  if (said == own_) store_->compare_set(fixed_key, own_, left_mark);
  throw InvalidArgument(
      fmt::format("the job at {} still runs, with --nnodes MIN:MAX and {} as host 0: {}, with a fixed number of hosts, cannot come in", store_->url(),
                  where(zero->member), who_),
      {.operation = operation, .hint = "--nnodes is the same on all hosts"});
}

}  // namespace unisono::launcher
