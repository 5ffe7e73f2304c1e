// libunisono-etcd.so: channels to the JSON gateway of etcd.
#include <nlohmann/json.hpp>

#include <cstring>
#include <exception>
#include <stdexcept>

#include "store/etcd/http.h"
#include "store/etcd/messages.h"

namespace unisono::store::etcd {
namespace {

constexpr long http_ok = 200;

class Gateway final : public Channel {
 public:
  explicit Gateway(const Endpoint& endpoint) : http_(endpoint) {}

  Failure transact(const Transaction& transaction, Answer& answer, Patience& patience) noexcept override {
    return guarded([&] {
      Http::Reply reply;
      Failure failure = ask("/v3/kv/txn", request_of(transaction), reply, patience);
      if (failure.is_none()) answer = read_answer(reply.body, transaction);
      return failure;
    });
  }

  Failure grant(std::int64_t seconds, std::int64_t& lease, Patience& patience) noexcept override {
    return guarded([&] {
      Http::Reply reply;
      Failure failure = ask("/v3/lease/grant", nlohmann::json{{"TTL", std::to_string(seconds)}}.dump(), reply, patience);
      if (failure.is_none()) lease = read_lease(reply.body).id;
      if (failure.is_none() && lease == 0) throw std::runtime_error("it grants no lease");
      return failure;
    });
  }

  Failure keep_alive(std::int64_t lease, std::int64_t& seconds, Patience& patience) noexcept override {
    return guarded([&] {
      Http::Reply reply;
      Failure failure = ask("/v3/lease/keepalive", of_lease(lease), reply, patience);
      if (failure.is_none()) seconds = read_lease(reply.body).seconds;
      return failure;
    });
  }

  Failure revoke(std::int64_t lease, Patience& patience) noexcept override {
    return guarded([&] {
      Http::Reply reply;
      return ask("/v3/lease/revoke", of_lease(lease), reply, patience);
    });
  }

  Failure authenticate(const std::string& user, const base::Secret& password, std::string& token, Patience& patience) noexcept override {
    return guarded([&] {
      Http::Reply reply;
      http_.use_token({});
      nlohmann::json request{{"name", user}};
      request["password"] = password.view();
      std::string text = request.dump();
      base::wipe(request["password"].get_ref<std::string&>());
      Failure failure = ask("/v3/auth/authenticate", text, reply, patience);
      base::wipe(text);
      if (!failure.is_none()) return failure;
      token = nlohmann::json::parse(reply.body).at("token").get<std::string>();
      base::wipe(reply.body);
      if (token.find_first_of("\r\n") != std::string::npos) throw std::runtime_error("its token has several lines");
      return failure;
    });
  }

  Failure watch(const std::vector<std::string>& keys, std::int64_t from, bool& begun, Patience& patience) noexcept override {
    return guarded([&] {
      std::set<std::string> awaited(keys.begin(), keys.end());
      Failure said;
      std::exception_ptr fault;
      const auto take = [&](std::string& body) {
        try {
          for (auto end = body.find('\n'); end != std::string::npos && said.is_none() && !awaited.empty(); end = body.find('\n')) {
            said = read_events(std::string_view(body).substr(0, end), awaited, begun);
            body.erase(0, end + 1);
          }
        } catch (const std::exception&) {
          fault = std::current_exception();
        }
        return said.is_none() && !awaited.empty() && !fault;
      };
      Http::Reply reply;
      Failure failure = http_.post("/v3/watch", watch_request(awaited, from), reply, patience, take);
      if (fault) std::rethrow_exception(fault);
      if (!said.is_none()) return said;
      if (!failure.is_none() || awaited.empty()) return failure;
      if (reply.status != http_ok) return read_failure(reply.status, reply.body);
      return Failure{Failure::Kind::lost, "it has ended the watch"};
    });
  }

  void use_token(const base::Secret& token) override { http_.use_token(token); }
  void wake() noexcept override { http_.wake(); }

 private:
  static std::string of_lease(std::int64_t lease) { return nlohmann::json{{"ID", std::to_string(lease)}}.dump(); }

  Failure ask(std::string_view path, const std::string& body, Http::Reply& reply, Patience& patience) {
    Failure failure = http_.post(path, body, reply, patience);
    if (failure.is_none() && reply.status != http_ok) failure = read_failure(reply.status, reply.body);
    return failure;
  }

  template <class F>
  static Failure guarded(F&& f) noexcept {
    try {
      return f();
    } catch (const std::exception& error) {
      try {
        return {Failure::Kind::malformed, std::string("its answer is not etcd's: ") + error.what()};
      } catch (const std::exception&) {
        return {Failure::Kind::malformed, {}};
      }
    }
  }

  Http http_;
};

std::unique_ptr<Channel> open(const Endpoint& endpoint, std::string& why) {
  try {
    return std::make_unique<Gateway>(endpoint);
  } catch (const std::exception& error) {
    why = error.what();
    return nullptr;
  }
}

}  // namespace
}  // namespace unisono::store::etcd

extern "C" __attribute__((visibility("default"))) const unisono::store::etcd::Library* unisono_etcd_library(const char* version_of_unisono) {
  using unisono::store::etcd::Library;
  if (std::strcmp(version_of_unisono, UNISONO_ETCD_FOR) != 0) return nullptr;
  static const bool is_set_up = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  static const Library library{.version = curl_version(), .open = unisono::store::etcd::open};
  return is_set_up ? &library : nullptr;
}
