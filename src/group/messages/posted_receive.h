#pragma once

#include <cstdint>

#include "engines/message.h"

namespace unisono::group {

/// A receive as the matcher sees it: the messages that it takes, and its place among the others.
class PostedReceive {
 public:
  PostedReceive(const PostedReceive&) = delete;
  PostedReceive& operator=(const PostedReceive&) = delete;

 protected:
  PostedReceive() = default;
  virtual ~PostedReceive() = default;

  /// Sets what the receive wants, before it is posted.
  void want(int peer, int tag) {
    peer_ = peer;
    tag_ = tag;
    is_reported_ = false;
  }
  int peer() const { return peer_; }
  bool is_posted() const { return is_posted_; }
  /// Has the matcher keep it in the list of those that have been given a message (MessageMatcher::given), so that nobody need ask it for that.
  void report() { reports_ = true; }
  bool is_reported() const { return is_reported_; }

 private:
  friend class MessageMatcher;
  bool takes(int tag) const { return engines::takes_tag(tag_, tag); }
  virtual void take(int source, const engines::AnnouncedMessage& message) = 0;

  PostedReceive *previous_ = nullptr, *next_ = nullptr;  // among the posted ones
  std::uint64_t number_ = 0;                             // among them, in order
  int peer_ = -1, tag_ = 0;
  bool is_posted_ = false;
  bool reports_ = false, is_reported_ = false;
};

}  // namespace unisono::group
