// Key-value stores through which processes meet. A value is bytes; a str given is UTF-8.

#include "unisono/store.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <unistd.h>

#include <string>

#include "arguments.h"
#include "docs/stores.h"
#include "failure.h"
#include "module.h"
#include "signals.h"
#include "unisono/etcd_store.h"

namespace unisono::python {
namespace {

using namespace nb::literals;

std::string bytes_of(nb::handle value) {
  if (PyUnicode_Check(value.ptr())) return nb::cast<std::string>(value);
  Py_buffer buffer;
  if (PyObject_GetBuffer(value.ptr(), &buffer, PyBUF_SIMPLE) != 0) {
    PyErr_Clear();
    throw_invalid("set", "a value is bytes or a str");
  }
  std::string text(static_cast<const char*>(buffer.buf), static_cast<std::size_t>(buffer.len));
  PyBuffer_Release(&buffer);
  return text;
}
nb::bytes to_python(const std::string& value) { return nb::bytes(value.data(), value.size()); }

void set(Store& store, const std::string& key, nb::handle value) {
  unlocked([&, text = bytes_of(value)] { store.set(key, text); });
}
nb::bytes get(Store& store, const std::string& key, nb::handle timeout) {
  const auto at_most = timeout_of(timeout, "get");
  return to_python(unlocked([&] { return store.get(key, at_most); }));
}
nb::object try_get(Store& store, const std::string& key) {
  const auto value = unlocked([&] { return store.try_get(key); });
  return value ? nb::object(to_python(*value)) : nb::none();
}
nb::bytes compare_set(Store& store, const std::string& key, nb::handle expected, nb::handle desired) {
  const std::string before = bytes_of(expected), after = bytes_of(desired);
  return to_python(unlocked([&] { return store.compare_set(key, before, after); }));
}
void wait(Store& store, const std::vector<std::string>& keys, nb::handle timeout) {
  unlocked([&, at_most = timeout_of(timeout, "wait")] { store.wait(keys, at_most); });
}

void make_tcp_store(TcpStore* place, const std::string& host, int port, bool is_server, nb::handle timeout, std::optional<std::string> token,
                    int listen_fd) {
  TcpStoreOptions options;
  options.is_server = is_server;
  try {
    if (port < 0 || port > 65535) throw_invalid("TcpStore", "a port is from 0 to 65535, not " + std::to_string(port));
    options.timeout = timeout_or(timeout, options.timeout, "TcpStore");
  } catch (...) {
    if (listen_fd >= 0) ::close(listen_fd);
    throw;
  }
  options.token = std::move(token);
  options.listen_fd = listen_fd;
  const Unlocked unlocked;
  new (place) TcpStore(host, static_cast<std::uint16_t>(port), options);
}

void make_etcd_store(EtcdStore* place, std::string url, nb::handle timeout) {
  const auto at_most = timeout_or(timeout, std::chrono::minutes(5), "EtcdStore");
  const Unlocked unlocked;
  new (place) EtcdStore(std::move(url), at_most);
}

using Released = nb::call_guard<Unlocked>;

}  // namespace

void bind_stores(nb::module_& m) {
  nb::class_<Store>(m, "Store", docs::store)
      .def("set", &set, "key"_a, "value"_a, nb::sig("def set(self, key: str, value: bytes | str) -> None"),
           "Sets the value of a key, whether or not it exists.")
      .def("get", &get, "key"_a, "timeout"_a = nb::none(), nb::sig("def get(self, key: str, timeout: Seconds = None) -> bytes"), docs::store_get)
      .def("try_get", &try_get, "key"_a, nb::sig("def try_get(self, key: str) -> bytes | None"),
           "Returns the value if the key exists now, otherwise None.")
      .def(
          "add", [](Store& store, const std::string& key, std::int64_t amount) { return store.add(key, amount); }, "key"_a, "amount"_a, Released(),
          docs::store_add)
      .def("wait", &wait, "keys"_a, "timeout"_a = nb::none(),
           nb::sig("def wait(self, keys: collections.abc.Sequence[str], timeout: Seconds = None) -> None"), docs::store_wait)
      .def("compare_set", &compare_set, "key"_a, "expected"_a, "desired"_a,
           nb::sig("def compare_set(self, key: str, expected: bytes | str, desired: bytes | str) -> bytes"), docs::compare_set)
      .def(
          "erase", [](Store& store, const std::string& key) { return store.erase(key); }, "key"_a, Released(),
          "Removes a key, and tells whether there was one.")
      .def("num_keys", &Store::num_keys, Released(), "Returns the number of keys.")
      .def_prop_rw(
          "timeout", [](const Store& store) { return std::chrono::duration<double>(store.timeout()).count(); },
          [](Store& store, nb::handle timeout) { store.set_timeout(timeout_or(timeout, store.timeout(), "timeout")); },
          nb::for_getter(nb::sig("def timeout(self) -> float")), nb::for_setter(nb::arg().none()),
          nb::for_setter(nb::sig("def timeout(self, value: Seconds, /) -> None")), "Seconds; 300 at first.");
  nb::class_<MemoryStore, Store>(m, "MemoryStore", docs::memory_store).def(nb::init<>());
  nb::class_<FileStore, Store>(m, "FileStore", docs::file_store)
      .def(nb::init<std::string>(), "path"_a, Released())
      .def_prop_ro("path", &FileStore::path);
  nb::class_<TcpStore, Store>(m, "TcpStore", docs::tcp_store)
      .def("__init__", &make_tcp_store, "host"_a, "port"_a, nb::kw_only(), "is_server"_a = false, "timeout"_a = nb::none(), "token"_a = nb::none(),
           "listen_fd"_a = -1,
           nb::sig("def __init__(self, host: str, port: int, *, is_server: bool = False, timeout: Seconds = None, token: str | None = None, "
                   "listen_fd: int = -1) -> None"))
      .def_prop_ro("host", &TcpStore::host)
      .def_prop_ro("port", &TcpStore::port);
  nb::class_<EtcdStore, Store>(m, "EtcdStore", docs::etcd_store)
      .def("__init__", &make_etcd_store, "url"_a, "timeout"_a = nb::none(), nb::sig("def __init__(self, url: str, timeout: Seconds = None) -> None"))
      .def_prop_ro("url", &EtcdStore::url);
  nb::class_<PrefixStore, Store>(m, "PrefixStore", docs::prefix_store).def(nb::init<std::string, std::shared_ptr<Store>>(), "prefix"_a, "store"_a);
}

}  // namespace unisono::python
