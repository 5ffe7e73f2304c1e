#include "group/group_core.h"

#include <span>
#include <utility>

#include "group/devices/device_streams.h"
#include "group/messages/recv_task.h"
#include "unisono/cuda.h"

namespace unisono::group {

GroupCore::GroupCore(Parts parts)
    : name_(std::move(parts.name)),
      coordination_(std::move(parts.coordination)),
      executor_(std::make_shared<schedule::Executor>(*coordination_, std::move(parts.engines), std::move(parts.networks))) {
  const coordination::GroupTopology& topology = coordination_->topology();
  // The coordination of the world may outlive its group.
  coordination_->set_on_over([executor = std::weak_ptr(executor_)](const Failure& failure) {
    if (const auto alive = executor.lock()) alive->abort(failure);
  });
  if (!coordination_->is_one_host()) {
    coordination::Coordination& coordination = *coordination_;
    ChannelCarrier::Parts carrier;
    carrier.rank = topology.rank;
    carrier.tell = [&coordination](int r, std::string_view notice, std::span<const std::byte> elements) {
      coordination.notices().tell(r, notice, elements);
    };
    carrier.poll = [&coordination] { coordination.poll(); };
    carrier.channels = channels_of(executor_->engine(), coordination, parts.engine_is_on_link);
    carrier.attribution = [&coordination, engine = executor_->name()] {
      return std::make_unique<coordination::FailureAttribution>(coordination, coordination::FailureAttribution::Unexplained{.engine = engine});
    };
    channels_ = std::make_unique<ChannelCarrier>(std::move(carrier));
    coordination::Notices& notices = coordination_->notices();
    notices.handle(coordination::NoticeKind::message, [this](int from, std::string notice) { channels_->take(from, std::move(notice)); });
    notices.handle(coordination::NoticeKind::taken, [this](int from, std::string_view notice) { channels_->take_report(from, notice); });
  }
  std::vector<MessageMatcher::Route> routes(static_cast<std::size_t>(topology.size()));
  for (int r = 0; r < topology.size(); ++r) {
    auto& route = routes[static_cast<std::size_t>(r)];
    if (r == topology.rank) continue;
    if (topology.here(r)) route = {.carrier = &coordination_->host_engine()->messages(), .peer = topology.local_of(r)};
    else route = {.carrier = channels_.get(), .peer = r};
  }
  messages_ = std::make_unique<MessageMatcher>(topology.rank, std::move(routes));
  if (const auto& device = executor_->device_engine()) {
    device_messages_ = std::make_unique<DeviceMessages>(*messages_, *coordination_, *device);
    register_device_runtime(device->runtime());
  }
  coordination_->begin();
}

GroupCore::~GroupCore() { coordination_->end(); }

std::optional<Device> GroupCore::device() const {
  const auto& engine = executor_->device_engine();
  return engine ? std::optional(engine->device()) : std::nullopt;
}

std::unique_ptr<Task> GroupCore::start_send(const engines::MessageCall& call) {
  return device_messages_ && is_on_device(call.data) ? device_messages_->send(call) : messages_->send(call);
}
std::unique_ptr<Task> GroupCore::start_recv(const engines::MessageCall& call) {
  return device_messages_ && is_on_device(call.data) ? device_messages_->recv(call) : std::make_unique<RecvTask>(*messages_, call);
}

void GroupCore::leave(coordination::Leaving how, std::chrono::milliseconds at_most) {
  executor_->leave_device();
  coordination_->leave(
      how, [this] { executor_->leave(); }, at_most);
}

}  // namespace unisono::group
