#pragma once

#include <openssl/bio.h>

#include <cstddef>
#include <string>
#include <vector>

namespace unisono::base::openssl {

/// The socket below a TLS connection, as OpenSSL reads and writes it. OpenSSL's own would raise SIGPIPE, and send each record by a system call of its
/// own. What is written is collected here until `flush`, so that writing never has to wait.
class SocketBio {
 public:
  explicit SocketBio(int fd) : fd_(fd) {}
  SocketBio(const SocketBio&) = delete;
  SocketBio& operator=(const SocketBio&) = delete;

  /// Returns a BIO that refers to this object, which must live longer; null where there is no memory.
  BIO* make_bio();

  /// While it is set, the socket is not read from.
  bool only_ahead = false;

  /// Sends what was collected, as far as the socket takes it. False: it takes nothing any more (`error`).
  bool flush();
  std::size_t unsent() const { return out_.size() - sent_; }
  /// Returns true where nothing more will come, in order or not.
  bool ended() const { return ended_; }
  int error() const { return error_; }  ///< the errno that broke the socket, or 0
  /// The first bytes that came.
  const std::string& beginning() const { return beginning_; }

 private:
  static const BIO_METHOD* method();
  static int on_read(BIO* bio, char* to, int size);
  static int on_write(BIO* bio, const char* from, int size);
  static long on_control(BIO* bio, int command, long number, void* pointer);

  const int fd_;
  std::vector<char> out_;
  std::size_t sent_ = 0;
  bool ended_ = false;
  int error_ = 0;
  std::string beginning_;
};

}  // namespace unisono::base::openssl
