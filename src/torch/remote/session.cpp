#include "torch/remote/session.h"

#include <ATen/core/ATen_fwd.h>
#include <c10/core/Allocator.h>
#include <c10/core/TensorImpl.h>
#include <fmt/format.h>

#include <exception>
#include <utility>

#include "base/error_text.h"
#include "unisono/error.h"

namespace unisono::libtorch {
namespace {

constexpr const char* hint_of_data = "cpu() fetches the elements";

std::atomic<void (*)(int)> preparation{nullptr};
std::mutex sessions_mutex;
std::shared_ptr<Session>& last_session() {  // of the controller that was made last; tensors may end after static objects
  static auto& session = *new std::shared_ptr<Session>;
  return session;
}

const detail::RemoteFunction& commands() {
  static const detail::RemoteFunction& function = *detail::find_remote(command_name, command_signature);
  return function;
}

[[noreturn]] void refuse_gone(int worker, std::string_view why) {
  throw InvalidArgument(fmt::format("the elements of a tensor on remote:{} are gone: {}", worker, why));
}

std::string data_message(int worker) {
  return fmt::format("the elements of a tensor on remote:{} are in the worker's process: there is no pointer to them here; {}", worker, hint_of_data);
}

}  // namespace

std::vector<std::uint64_t> Channel::take_dropped() {
  const auto workers = workers_.lock();
  if (!workers) throw NotInitialized(fmt::format("remote:{} is not a device any more: its controller has ended", worker_));
  const int now = workers->generation(worker_);
  const std::lock_guard lock(dropping_);
  std::vector<std::uint64_t> dropped = std::exchange(dropped_, {});
  if (now == generation_) return dropped;
  generation_ = now;
  known_.clear();
  return {};
}

void Channel::put_back(const std::vector<std::uint64_t>& dropped) {
  const std::lock_guard lock(dropping_);
  dropped_.insert(dropped_.end(), dropped.begin(), dropped.end());
}

WireWriter Channel::begin(const std::vector<std::uint64_t>& dropped) {
  WireWriter out;
  out.reserve(160);
  out.number(dropped.size());
  for (const std::uint64_t number : dropped) out.number(number);
  return out;
}

std::shared_ptr<detail::RemoteCall> Channel::finish(WireWriter& out, bool has_result, std::vector<detail::FramePart> parts,
                                                    detail::PartMemory memory) {
  const auto workers = workers_.lock();
  if (!workers) throw NotInitialized(fmt::format("remote:{} is not a device any more: its controller has ended", worker_));
  detail::RemoteRequest request;
  request.function = &commands();
  request.arguments.body = out.take();
  request.arguments.parts = std::move(parts);
  request.memory = std::move(memory);
  request.has_result = has_result;
  auto call = workers->begin(worker_, std::move(request));
  // Nobody waits for a call without a result, so that of a dead worker is told now.
  if (!has_result && call->is_done() && call->error()) std::rethrow_exception(call->error());
  return call;
}

detail::Frame Channel::answer_of(const std::shared_ptr<detail::RemoteCall>& call) const {
  detail::Frame answer = call->take();
  WireReader in(answer.body);
  if (in.byte() == 0) return answer;
  const std::string type = in.text(), message = in.text();
  throw RemoteError(message, {.group = base::group_of_workers, .culprit = worker_}, type);
}

void Channel::note_operator(std::uint32_t number) {
  const std::lock_guard lock(order_);
  if (known_.size() <= number) known_.resize(number + 64);
  known_[number] = true;
}

void Channel::require(int generation) const {
  if (generation != generation_) refuse_gone(worker_, "the worker was replaced");
}

void Channel::require_now(int generation) const {
  const auto workers = workers_.lock();
  if (!workers) throw NotInitialized(fmt::format("remote:{} is not a device any more: its controller has ended", worker_));
  if (generation != workers->generation(worker_)) refuse_gone(worker_, "the worker was replaced");
  if (const auto failure = workers->failure(worker_)) std::rethrow_exception(failure);
}

void Channel::drop(std::uint64_t number) noexcept {
  const std::lock_guard lock(dropping_);
  dropped_.push_back(number);
}

Session::Session(const std::shared_ptr<detail::RemoteWorkers>& workers) : workers_(workers) {
  prepared_.assign(static_cast<std::size_t>(workers->size()), -1);
  for (int worker = 0; worker < workers->size(); ++worker) channels_.push_back(std::make_unique<Channel>(workers_, worker));
}

int Session::generation(int worker) const {
  const auto workers = workers_.lock();
  return workers ? workers->generation(worker) : -1;
}

void Session::prepare(int worker) {
  const auto prepare = preparation.load(std::memory_order_acquire);
  if (prepare == nullptr) return;
  const int now = generation(worker);
  {
    const std::lock_guard lock(preparing_);
    if (prepared_[static_cast<std::size_t>(worker)] == now) return;
  }
  prepare(worker);  // by each thread that comes meanwhile: its commands follow its own call
  const std::lock_guard lock(preparing_);
  prepared_[static_cast<std::size_t>(worker)] = now;
}

void prepare_workers(void (*prepare)(int worker)) noexcept { preparation.store(prepare, std::memory_order_release); }

std::shared_ptr<Session> find_session() noexcept {
  const std::lock_guard lock(sessions_mutex);
  return last_session();
}

std::shared_ptr<Session> current_session() {
  if (auto session = find_session(); session && session->workers()) return session;
  throw NotInitialized("there is no controller, and so no device \"remote\"", {.hint = "make a unisono::Controller first"});
}

void begin_session(const std::shared_ptr<detail::RemoteWorkers>& workers) {
  const std::lock_guard lock(sessions_mutex);
  last_session() = std::make_shared<Session>(workers);
}

Handle::Handle(std::shared_ptr<Session> of, int on, std::uint64_t number)
    : session(std::move(of)), worker(on), generation(session->generation(on)), storage(number) {}

Handle::~Handle() { channel().drop(storage); }

const Handle& handle_of(const at::Tensor& tensor) {
  auto* const context = static_cast<const Handle*>(tensor.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get_context());
  if (context == nullptr) {
    throw InvalidArgument(fmt::format("a tensor of shape {} has no elements on {}", c10::str(tensor.sizes()), tensor.device().str()));
  }
  return *context;
}

Geometry geometry_of(const at::Tensor& tensor) {
  return {tensor.scalar_type(), copied(tensor.sizes()), copied(tensor.strides()), tensor.storage_offset()};
}

void write_place(WireWriter& out, const at::Tensor& tensor) {
  out.number(handle_of(tensor).storage);
  out.number(tensor.storage().nbytes());
  out.number(static_cast<std::uint64_t>(tensor.storage_offset()));
}

void write_tensor(WireWriter& out, const at::Tensor& tensor) {
  out.shape(tensor.scalar_type(), tensor.sizes(), tensor.strides());
  write_place(out, tensor);
}

c10::Storage make_storage(const std::shared_ptr<Session>& session, int worker, std::uint64_t number, std::size_t bytes) {
  const at::Device device(at::kPrivateUse1, static_cast<at::DeviceIndex>(worker));
  auto* const handle = new Handle(session, worker, number);
  at::DataPtr pointer(
      nullptr, handle, [](void* context) { delete static_cast<Handle*>(context); }, device);
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), static_cast<std::int64_t>(bytes), std::move(pointer),
                                                       c10::GetAllocator(at::kPrivateUse1), true);
  forbid_data(*storage);
  return c10::Storage(std::move(storage));
}

namespace {

at::Tensor tensor_on(c10::Storage storage, const Geometry& geometry) {
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                                         c10::scalarTypeToTypeMeta(geometry.dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(geometry.sizes, geometry.strides, geometry.offset);
  return tensor;
}

}  // namespace

at::Tensor make_tensor(const std::shared_ptr<Session>& session, int worker, const Geometry& geometry) {
  return make_tensor(session, worker, geometry, session->new_storage());
}

at::Tensor make_tensor(const std::shared_ptr<Session>& session, int worker, const Geometry& geometry, std::uint64_t number) {
  return tensor_on(make_storage(session, worker, number, bytes_of(geometry)), geometry);
}

at::Tensor make_view(const at::Tensor& base, const Geometry& geometry) { return tensor_on(base.storage(), geometry); }

void forbid_data(c10::StorageImpl& storage) {
  storage.release_data_and_set_meta_custom_data_ptr_error_msg_(data_message(storage.device().index()));  // releases nothing, in spite of its name
}

}  // namespace unisono::libtorch
