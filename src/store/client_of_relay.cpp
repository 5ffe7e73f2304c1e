// A client whose requests are handed on to another store, and the client by which a relay does so (relay.h).
#include <poll.h>

#include <cerrno>
#include <utility>

#include "base/socket.h"
#include "store/client.h"

namespace unisono::store {

using base::Deadline;

bool Client::ask_for_relay() { return ask(request(Op::relay)).status == Status::ok; }

void Client::send_requests(std::vector<std::string> frames) {
  const std::lock_guard turn(sending_);
  std::string all;
  for (std::string& frame : frames) {
    if (sealer_) frame = sealer_->seal(std::move(frame));
    base::append_wiping(all, frame);
    base::wipe(frame);
  }
  const Deadline deadline(base::longest_timeout);
  std::size_t sent = 0;
  for (bool done = false; !done;) {
    const ssize_t n = transmit(std::string_view(all).substr(sent));
    if (n >= 0) {
      sent += static_cast<std::size_t>(n);
      done = sent == all.size() && (!tls_ || n == 0);
    } else if (errno == EAGAIN) {
      base::wait_for(fd_.get(), POLLOUT, deadline);
    } else if (errno != EINTR) {
      break;  // the reader finds the reason
    }
  }
  base::wipe(all);
}

void Client::take_answers(std::function<void(std::string_view answer)> take) {
  std::unique_lock lock(mutex_);
  take_ = std::move(take);
  while (!broken_) read_some(Deadline(base::longest_timeout), lock);
  std::rethrow_exception(broken_);
}

}  // namespace unisono::store
