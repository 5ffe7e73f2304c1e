#pragma once

#include <curl/curl.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "store/etcd/gateway.h"

namespace unisono::store::etcd {

/// POST requests to one endpoint, over connections that libcurl keeps.
class Http {
 public:
  /// Throws std::runtime_error where libcurl cannot be set up.
  explicit Http(const Endpoint& endpoint);

  struct Reply {
    long status = 0;  ///< 0: no answer has begun
    std::string body = {};
  };
  /// Gets what has arrived of the body of a successful answer, and removes from it what it has read. False: no more is wanted.
  using Take = std::function<bool(std::string& body)>;

  /// `take` is for answers that go on and on; without it the whole body is in the reply. What follows an end that `take` asked for is not awaited.
  Failure post(std::string_view path, const std::string& body, Reply& reply, Patience& patience, const Take& take = {});
  void use_token(const base::Secret& token) { token_ = token; }
  void wake() noexcept { curl_multi_wakeup(multi_.get()); }

 private:
  struct CloseEasy {
    void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
  };
  struct CloseMulti {
    void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
  };
  struct Transfer;
  void set_up(const Endpoint& endpoint);
  Failure drive(Transfer& transfer, Patience& patience);
  Failure judge(CURLcode code, const Transfer& transfer) const;
  static std::size_t write(char* bytes, std::size_t, std::size_t count, void* transfer) noexcept;

  const std::string url_;
  base::Secret token_;
  std::unique_ptr<CURLM, CloseMulti> multi_;  // outlives the handles in it
  std::unique_ptr<CURL, CloseEasy> easy_;
  char error_[CURL_ERROR_SIZE] = {};  // NOLINT(modernize-avoid-c-arrays): libcurl writes into it
};

}  // namespace unisono::store::etcd
