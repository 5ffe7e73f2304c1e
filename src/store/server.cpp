#include "store/server.h"

#include "store/loop.h"

namespace unisono::store {

StoreServer::StoreServer(ServerOptions options) : loop_(std::make_unique<ServerLoop>(std::move(options))) {}
StoreServer::~StoreServer() = default;

void StoreServer::listen(base::FileDescriptor listening) { loop_->listen(std::move(listening)); }
void StoreServer::adopt(base::FileDescriptor connected) { loop_->adopt(std::move(connected)); }
std::optional<std::string> StoreServer::peek(std::string_view key) const { return loop_->peek(key); }
void StoreServer::set(std::string_view key, std::string_view value) { loop_->set(key, value); }
void StoreServer::set_secret(std::string_view key, base::Secret value) { loop_->set_secret(key, std::move(value)); }
ServerCounts StoreServer::counts() const { return loop_->counts(); }

}  // namespace unisono::store
